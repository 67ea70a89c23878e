"""Numbers that environments report: one per episode, in one process and with workers."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from support.worker_tasks import Counting

from td3.environments.episode_info import EpisodeNumbers, as_number, plain_values, success_of
from td3.environments.gym_vector import GymVector
from td3.seeding import Streams


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, 1.0),
        (np.bool_(False), 0.0),
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (np.array([2]), 2.0),
        (np.array([1.0, 2.0]), None),
        (float("nan"), None),
        (10**400, None),
        ("3", None),
        (None, None),
        ({"r": 1}, None),
        (np.array(["3"]), None),
    ],
)
def test_as_number_accepts_finite_scalars_only(value: Any, number: float | None) -> None:
    assert as_number(value) == number


def test_episode_numbers_are_last_outcomes_and_means_of_the_rest() -> None:
    numbers = EpisodeNumbers(("x", "is_success", "absent", "late"))
    numbers.start()
    numbers.add({"x": 1.0, "is_success": True})
    numbers.add({"x": 2.0, "is_success": False, "late": 5, "other": 3})
    assert numbers.means() == {"x": 1.5, "is_success": 0.0, "late": 5.0}
    numbers.start()
    assert numbers.means() == {}


def test_success_of_reads_the_first_known_name() -> None:
    assert success_of({"is_success": np.True_}) == 1.0
    assert success_of({"success": 0}) == 0.0
    assert success_of({"is_success": "?"}) is None
    assert success_of({}) is None


def test_plain_values_keep_what_json_can_hold() -> None:
    info = {"a": np.arange(2), "b": np.float64(1), "c": object(), "d": {"e": (1, None)}, "f": "x"}
    assert plain_values(info) == {"a": [0, 1], "b": 1.0, "d": {"e": [1, None]}, "f": "x"}
    assert plain_values({"g": [object()]}) == {}


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_reports_the_numbers_of_single_environments(mode: AutoresetMode) -> None:
    """Counting ends every 7 steps and reports the action as `pull`."""
    vector = SyncVectorEnv([Counting] * 3, autoreset_mode=mode)
    streams = [Streams.from_seed(seed).env for seed in range(3)]
    environments = GymVector(vector, "Counting-v0", streams, ("pull", "is_success"))
    environments.keep_info = True
    pulls: list[list[float]] = [[], [], []]
    ended = 0
    for now in range(40):
        actions = np.random.default_rng(now).uniform(-1, 1, (3, 1)).astype(np.float32)
        steps = environments.step(actions, now)
        assert steps.real is not None
        for index in range(3):
            if not steps.real[index]:
                continue
            pulls[index].append(2 * float(actions[index, 0]))
            if not (steps.terminated | steps.truncated)[index]:
                continue
            assert steps.infos is not None
            numbers, final = steps.infos[index]
            assert numbers["pull"] == pytest.approx(np.mean(pulls[index]), rel=1e-6)
            mark = int(steps.next_states[index, 0])
            assert numbers["is_success"] == (mark % 3 == 0)
            assert final["is_success"] == (mark % 3 == 0)
            assert final["pull"] == pytest.approx(pulls[index][-1], rel=1e-6)
            pulls[index], ended = [], ended + 1
    assert ended >= 12


def test_environment_with_strange_info_is_stepped() -> None:
    class Strange(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            return (*self.env.step(action)[:-1], None)

    from td3.config import EnvironmentConfig
    from td3.environments.environment import Environment
    from td3.environments.factories import name_environment

    name, _ = name_environment(lambda: Strange(Counting()))
    environment = Environment(EnvironmentConfig(name))
    environment.reset(seed=0)
    environment.step(np.zeros(1, np.float32))
    assert environment.info == {}
