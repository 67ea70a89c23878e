"""Policies of the variant flash act in NumPy as the agent does, in td3 and in every export."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from td3.algorithm.variants.flash import FlashSettings, FlashTD3
from td3.config import EnvironmentConfig
from td3.environments.task import Task
from td3.errors import UserError
from td3.exports.check import check_export
from td3.exports.export import make_export
from td3.exports.program import double_agent
from td3.policy.file import save_policy
from td3.policy.from_agent import policy_card, policy_tensors
from td3.policy.load import load_policy
from td3.policy.policy import Policy

STATE, ACTION = 5, 2
STATES = np.random.default_rng(0).normal(2, 3, (20, STATE)).astype(np.float32)
LOADS_WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np, td3
print(td3.load_policy(sys.argv[1])(np.ones(5, np.float32)).tolist())
"""


def make_agent(normalize: bool = False, **own: Any) -> FlashTD3:
    small = {"critic_width": 4, "actor_width": 6, "bins": 5, **own}
    agent = FlashTD3(
        STATE,
        ACTION,
        seed=[0, 1],
        variant=FlashSettings("flash", **small),
        normalize_observations=normalize,
    )
    generator = torch.Generator().manual_seed(0)
    actor = agent.trained["actor"].online
    with torch.no_grad():  # numbers as after training
        actor.flat += 0.2 * torch.randn(actor.flat.shape, generator=generator)
        actor.running_mean.normal_(generator=generator)
        actor.running_variance.uniform_(0.5, 2, generator=generator)
    if agent.normalizer:
        agent.normalizer.observe(np.repeat([0, 1], 10), STATES)
    return agent


def make_policy(path: Path, agent: FlashTD3, tensors: dict[str, Any] | None = None) -> Path:
    box, bounds = spaces.Box(-9, 9, (STATE,), np.float32), spaces.Box(-1, 1, (ACTION,), np.float32)
    card = policy_card(agent, Task.of("none", box, bounds), EnvironmentConfig("none"), {})
    file = path / "agent-1.safetensors"
    save_policy({**policy_tensors(agent)[1], **(tensors or {})}, card, file)
    return file


OWN = [
    {},
    {"blocks": 0},
    {"batch_norm": False},
    {"residual": False, "output_norm": False},
    {"normalize": True, "unit_weights": False},
]


@pytest.mark.parametrize("own", OWN, ids=lambda own: "-".join(own) or "default")
def test_policy_acts_as_the_agent_and_in_every_export(tmp_path: Path, own: dict[str, Any]) -> None:
    agent = make_agent(**own)
    policy = load_policy(make_policy(tmp_path, agent))
    assert policy.residual
    expected = agent.act(torch.from_numpy(STATES).expand(2, -1, -1))[1].numpy()
    assert np.ptp(expected, axis=0).min() > 0.1
    np.testing.assert_allclose(policy.act(STATES), expected, atol=2e-6)
    np.testing.assert_allclose(policy.act(STATES[0]), expected[0], atol=2e-6)
    export = make_export(policy, ("numpy", "c", "js"), 20)
    observations = torch.from_numpy(export.vectors.observations[:, 0].astype(np.float64))
    exact = double_agent(policy).act(observations[None])[0].numpy()
    np.testing.assert_allclose(export.vectors.actions, exact, atol=2e-6)
    for check in check_export(export):
        assert check.passed is not False, check


def test_graphs_agree_with_the_other_exports(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    policy = load_policy(make_policy(tmp_path, make_agent()))
    for check in check_export(make_export(policy, ("onnx", "torch"), 10)):
        assert check.passed is not False, check


def test_policy_loads_and_acts_without_torch(tmp_path: Path) -> None:
    file = make_policy(tmp_path, make_agent())
    command = [sys.executable, "-c", LOADS_WITHOUT_TORCH, str(file)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    expected = load_policy(file)(np.ones(STATE, np.float32)).tolist()
    assert found.stdout.strip() == str(expected)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("actor.block_2.narrow.weight", (1, 24, 5)),
        ("actor.output.bias", (1, 1, 3)),
        ("own.trained.actor.online._buffers.running_mean", (1, 1, 64)),
        ("own.trained.actor.online._buffers.running_variance", (1, 1, 3)),
    ],
)
def test_tensors_of_another_network_are_refused(
    tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    file = make_policy(tmp_path, make_agent(), {name: np.zeros(shape, np.float32)})
    with pytest.raises(UserError, match="does not fit its card"):
        load_policy(file)


def test_policy_of_a_subclass_needs_its_class(tmp_path: Path) -> None:
    policy: Policy = load_policy(make_policy(tmp_path, make_agent()))
    card = {**policy.card, "variant": {**policy.card["variant"], "name": "missing_module:Own"}}
    with pytest.raises(UserError, match="missing_module"):
        Policy(card, policy.tensors)
