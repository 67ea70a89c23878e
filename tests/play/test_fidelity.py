"""The page's physics, observations and rewards are those of `td3 evaluate`.

Each task's first 300 steps are recorded as `td3 evaluate --seed 1000000` plays them, and replayed
by the page's own JavaScript with the same actions. They are equal to the last bit if sine and
cosine are. WebAssembly has those of musl; `td3 evaluate` has those of the machine, which differ in
the last digit from one C library and processor to the next. Four tasks amplify this: so does the C
library alone, if it starts 1e-15 metres away. (A pendulum that balances falls without feedback, and
recorded actions are none.) With the machine's sine, their replay continues from the recorded state
every 25 steps.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.fidelity.record import STEPS, has_compiler, record, record_with_page_sine
from benchmarks.fidelity.replay import differences, replay
from td3.play.entries import tasks
from td3.policy.layers import normalize
from td3.policy.load import load_policy
from td3.policy.policy import Policy

UNSTABLE = {"HalfCheetah-v5", "Ant-v5", "InvertedPendulum-v5", "InvertedDoublePendulum-v5"}

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="Node.js is not installed")


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, Any]]:
    return {task: record(task) for task in tasks()}


@pytest.fixture(scope="module")
def replayed(recorded: dict[str, Any]) -> dict[str, Any]:
    asked = [own | {"every": 25 if task in UNSTABLE else 0} for task, own in recorded.items()]
    return dict(zip(recorded, replay(asked), strict=True))


def check_equal(task: str, found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert len(found["rewards"]) == (50 if task == "Reacher-v5" else STEPS)
    assert differences(found["observations"], expected["observations"]).max() <= 1e-6
    assert differences(found["rewards"], expected["rewards"]).max() <= 1e-6
    assert found["over"] == ("The time limit was reached" if task == "Reacher-v5" else "")


@pytest.mark.skipif(not has_compiler(), reason="needs gcc on Linux, x86-64")
def test_page_first_300_steps_with_the_same_sine_equal_td3_evaluate(tmp_path: Path) -> None:
    expected = record_with_page_sine(tmp_path)
    for own, found in zip(expected.values(), replay([*expected.values()]), strict=True):
        check_equal(own["task"], found, own)
        assert np.array_equal(found["observations"], own["observations"]), own["task"]


@pytest.mark.parametrize("task", tasks())
def test_page_first_300_steps_equal_td3_evaluate(
    task: str, recorded: dict[str, Any], replayed: dict[str, Any]
) -> None:
    check_equal(task, replayed[task], recorded[task])


def act_in_double_precision(policy: Policy, observations: Any) -> Any:
    x = np.array(observations, float)
    if policy.statistics:
        x = normalize(x, policy.statistics)
    *hidden, (weight, bias) = [(np.float64(w), np.float64(b)) for w, b in policy.layers]
    for own_weight, own_bias in hidden:
        x = np.maximum(x @ own_weight + own_bias, 0)
    return np.tanh(x @ weight + bias)


@pytest.mark.parametrize("task", tasks())
def test_page_policy_chooses_the_actions_of_the_policy(
    task: str, recorded: dict[str, Any], replayed: dict[str, Any]
) -> None:
    policy = load_policy(pretrained=task)
    exact = act_in_double_precision(policy, replayed[task]["observations"][:-1])
    assert np.abs(exact - replayed[task]["chosen"]).max() <= 1e-7  # half a float32 digit
    if task not in UNSTABLE:
        assert np.abs(np.subtract(replayed[task]["chosen"], recorded[task]["actions"])).max() < 3e-5


@pytest.mark.parametrize("task", sorted(UNSTABLE))
def test_c_library_alone_amplifies_the_last_digit(task: str, recorded: dict[str, Any]) -> None:
    """Why these tasks need the same sine."""
    other = record(task, nudge=1e-15, actions=recorded[task]["actions"])["observations"]
    expected = recorded[task]["observations"][: len(other)]  # a pendulum falls earlier
    assert differences(other, expected).max() > 0.1
