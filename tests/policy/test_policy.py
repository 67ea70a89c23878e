"""A policy acts like its agent, and a wrong or damaged file is refused."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from safetensors.torch import load_file, save_file

import td3
from td3.cli import main
from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.environments.task import Task
from td3.errors import UserError
from td3.policy.file import card_checksum, checksum, save_policy
from td3.policy.from_agent import policy_card, policy_tensors
from td3.policy.layers import apply_layers, normalize, read_statistics
from td3.policy.networks import is_stock


@pytest.fixture
def saved(tmp_path: Path) -> tuple[td3.TD3, Path]:
    config = EnvironmentConfig(id="Pendulum-v1", reward_scale=0.5)
    agent = td3.TD3(3, 1, hidden_sizes=(8, 8), seed=3, normalize_observations=True)
    assert agent.normalizer is not None
    rng = np.random.default_rng(0)
    for _ in range(20):
        states = rng.normal(3.0, 2.0, (1, 3)).astype(np.float32)
        agent.normalizer.observe(np.zeros(1, dtype=np.int64), states)
    environment = Environment(config)
    card = policy_card(agent, environment.task, config, {"mean_return": -1.0})
    save_policy(policy_tensors(agent)[0], card, tmp_path / "run" / "policy" / "agent-0.safetensors")
    return agent, tmp_path / "run"


def test_policy_acts_like_its_agent_in_environment_units(
    saved: tuple[td3.TD3, Path],
) -> None:
    agent, run = saved
    policy = td3.load_policy(run)
    environment = gym.make("Pendulum-v1")
    for seed in range(5):
        observation, _ = environment.reset(seed=seed)
        action = policy(observation)
        assert environment.action_space.contains(action)
        np.testing.assert_allclose(action, 2 * agent.select_action(observation), rtol=1e-6)


VECTOR = spaces.Box(-1, 1, (5,))
IMAGES = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Box(0, 255, (20, 18, 3), np.uint8))


@pytest.mark.parametrize(
    ("space", "stack", "normalize"),
    [(VECTOR, 1, False), (VECTOR, 3, True), (IMAGES, 2, False), (IMAGES, 1, True)],
)
def test_policy_act_equals_agent_act(space: spaces.Space[Any], stack: int, normalize: bool) -> None:
    rng, actions = np.random.default_rng(0), spaces.Box(-1, 1, (3,))
    task = Task.of("none", space, actions, stack)
    agent = td3.TD3(
        task.state_dim,
        3,
        hidden_sizes=(40, 30),
        seed=[1, 2],
        layout=task.layout,
        channels=(4, 5),
        features=6,
        normalize_observations=normalize,
    )
    states = rng.integers(0, 256, (50, task.state_dim)).astype(np.float32)
    if agent.normalizer:
        for state in states:
            agent.normalizer.observe(np.arange(2), np.stack([state, state / 2]))
        states[0] = 1e6  # far beyond where it is cut off
    card = policy_card(agent, task, EnvironmentConfig(id="none"), {})
    for number, tensors in enumerate(policy_tensors(agent)):
        policy = td3.Policy(card, tensors)
        expected = agent.member(number).act(torch.from_numpy(states)[None])[0]
        assert expected.std() > 1e-3
        for state, action in zip(states, expected, strict=True):
            np.testing.assert_allclose(policy.act(state), action, rtol=0, atol=1e-5)


def test_policy_file_contains_statistics_and_reward_scale(saved: tuple[td3.TD3, Path]) -> None:
    _, run = saved
    policy = td3.load_policy(run)
    assert policy.statistics is not None
    assert policy.card["reward_scale"] == 0.5
    assert policy.card["normalize_observations"] is True
    plain = apply_layers(np.zeros(3, np.float32), policy.layers)
    assert not np.allclose(plain, policy.act(np.zeros(3, np.float32)))


def test_read_statistics_equals_the_normalizer(saved: tuple[td3.TD3, Path]) -> None:
    agent, _ = saved
    assert agent.normalizer is not None
    tensors = {f"normalizer.{name}": t for name, t in agent.normalizer.state_dict().items()}
    found = read_statistics(tensors, 3)
    assert found is not None
    np.testing.assert_array_equal(found[0], agent.normalizer.shift[0, 0].numpy())
    np.testing.assert_array_equal(found[1], agent.normalizer.scale[0, 0].numpy())


@pytest.mark.parametrize("source", ["run", "policy", "policy/agent-0.safetensors"])
def test_load_policy_accepts_run_folder_or_file(saved: tuple[td3.TD3, Path], source: str) -> None:
    _, run = saved
    path = run if source == "run" else run / source
    assert td3.load_policy(path).environment.id == "Pendulum-v1"


def test_load_policy_takes_best_agent_by_default(saved: tuple[td3.TD3, Path]) -> None:
    agent, run = saved
    card = td3.load_policy(run).card
    save_policy(
        policy_tensors(agent)[0],
        {**card, "mean_return": 5.0},
        run / "policy" / "agent-1.safetensors",
    )
    assert td3.load_policy(run).name == "agent-1"
    assert td3.load_policy(run, agent=0).name == "agent-0"
    with pytest.raises(UserError, match="No policy of agent 7"):
        td3.load_policy(run, agent=7)


def test_policy_evaluate_equals_td3_evaluate(saved: tuple[td3.TD3, Path], capsys: Any) -> None:
    _, run = saved
    found = td3.load_policy(run).evaluate(episodes=2)
    assert main(["evaluate", str(run), "--episodes", "2", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["agents"]
    assert row["returns"] == found.returns.tolist()
    assert found.lengths.tolist() == [200, 200]
    with pytest.raises(UserError, match="Episodes must be 1 or more, not 0"):
        td3.load_policy(run).evaluate(episodes=0)


def test_policy_repr_and_wrong_observation_are_clear(saved: tuple[td3.TD3, Path]) -> None:
    policy = td3.load_policy(saved[1])
    assert repr(policy) == "Policy(Pendulum-v1)"
    assert repr(td3.load_policy(pretrained="Hopper-v5")).startswith("Policy(Hopper-v5, of step ")
    with pytest.raises(
        ValueError, match=r"of Pendulum-v1 \(expected 3 numbers\): shape \(2,\) instead"
    ):
        policy(np.zeros(2))


def test_damaged_policy_is_refused(saved: tuple[td3.TD3, Path]) -> None:
    _, run = saved
    path = run / "policy/agent-0.safetensors"
    whole = path.read_bytes()
    for position in (0, 20, len(whole) // 2, len(whole) - 1):
        data = bytearray(whole)
        data[position] ^= 1
        path.write_bytes(data)
        with pytest.raises(UserError) as caught:
            td3.load_policy(run)
        assert "\n" not in str(caught.value)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="Cannot read the policy"):
        td3.load_policy(run)


def test_changed_card_is_refused(saved: tuple[td3.TD3, Path]) -> None:
    """Other bounds would give other actions."""
    _, run = saved
    path = run / "policy/agent-0.safetensors"
    whole, card = path.read_bytes(), td3.load_policy(run).card
    refused = 0
    for position in range(8, 8 + int.from_bytes(whole[:8], "little")):
        data = bytearray(whole)
        data[position] ^= 1 << position % 7
        path.write_bytes(data)
        try:
            assert td3.load_policy(run).card == card  # for example one space less
        except UserError:
            refused += 1
    assert refused > 1000


def test_policy_of_format_one_without_card_checksum_is_read(saved: tuple[td3.TD3, Path]) -> None:
    _, run = saved
    path = run / "policy/agent-0.safetensors"
    card = td3.load_policy(run).card | {"format": 1}
    save_file(load_file(path), path, metadata={"card": json.dumps(card)})
    with pytest.raises(UserError, match="damaged"):  # the tensor exists, with another meaning
        td3.load_policy(run)
    del card["card_sha256"]
    save_file(load_file(path), path, metadata={"card": json.dumps(card)})
    assert td3.load_policy(run).card == card


@pytest.mark.parametrize("card", ["", "[]", "{}", '{"format": 99}', '{"format": 1}'])
def test_broken_card_is_refused_in_one_sentence(saved: tuple[td3.TD3, Path], card: str) -> None:
    _, run = saved
    path = run / "policy/agent-0.safetensors"
    save_file(load_file(path), path, metadata={"card": card})
    with pytest.raises(UserError) as caught:
        td3.load_policy(run)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"environment": {"id": "Pendulum-v1", "gravity": 3}},
            "Unknown setting 'environment.gravity'",
        ),
        ({"environment": None}, "does not fit its card"),
        ({"environment": {"id": "Pendulum-v1", "frame_stack": 0}}, "frame_stack must be between"),
        ({"hidden_sizes": [8, 9]}, "'actor.layer_2.bias' is (1, 1, 8), not (1, 1, 9)"),
    ],
)
def test_card_that_does_not_fit_is_refused(
    saved: tuple[td3.TD3, Path], change: dict[str, Any], message: str
) -> None:
    _, run = saved
    policy = td3.load_policy(run)
    path = run / "policy/agent-0.safetensors"
    save_policy(policy.tensors, policy.card | change, path)
    with pytest.raises(UserError) as caught:
        td3.load_policy(run)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(1,), (1, 1, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16])
def test_tensors_that_do_not_fit_are_refused(
    saved: tuple[td3.TD3, Path], shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """A single number would be broadcast to a whole layer."""
    if (shape, dtype) == ((1, 1, 8), torch.float32):
        return  # as it should be
    _, run = saved
    policy = td3.load_policy(run)
    path = run / "policy/agent-0.safetensors"
    tensors = {name: torch.as_tensor(tensor) for name, tensor in policy.tensors.items()}
    tensors["actor.layer_1.bias"] = torch.zeros(shape, dtype=dtype)
    digest = "" if dtype == torch.bfloat16 else checksum(tensors)
    card = {**policy.card, "sha256": digest}
    card["card_sha256"] = card_checksum(card)
    save_file(tensors, path, metadata={"card": json.dumps(card)})
    with pytest.raises(UserError, match="does not fit its card"):
        td3.load_policy(run)


def test_load_policy_of_something_else_is_refused(saved: tuple[td3.TD3, Path]) -> None:
    _, run = saved
    (run / "config.toml").touch()
    with pytest.raises(UserError, match="neither a run folder nor a"):
        td3.load_policy(run / "config.toml")
    with pytest.raises(UserError, match=r"No policy of agent 5 in .*: it has agent-0"):
        td3.load_policy(run, agent=5)


def test_check_fits_changed_task_is_refused(saved: tuple[td3.TD3, Path]) -> None:
    _, run = saved
    policy = td3.load_policy(run)
    policy.check_fits(Environment(policy.environment).task)
    seen, actions = gym.spaces.Box(-1, 1, (3,)), gym.spaces.Box(-2, 2, (1,))
    wider, faster = gym.spaces.Box(-1, 1, (4,)), gym.spaces.Box(-3, 2, (1,))
    for changed, message in (
        ((wider, actions), "Pendulum-v1 now observes 4 numbers, but agent-0 was trained on 3 num"),
        ((seen, faster), r"actions of Pendulum-v1 are no longer .*: low \[-3.0\], not \[-2.0\]"),
    ):
        with pytest.raises(UserError, match=message):
            policy.check_fits(Task.of("Pendulum-v1", *changed))


def test_check_fits_other_image_bounds_are_named(saved: tuple[td3.TD3, Path]) -> None:
    _, run = saved
    policy = td3.load_policy(run)
    policy.layout = {"image": [20, 24], "low": 0.0, "high": 1.0}
    other = Task.of("Some-v0", gym.spaces.Box(-1, 1, (20, 24)), gym.spaces.Box(-2, 2, (1,)))
    with pytest.raises(UserError, match=r"trained on an image 20 × 24 with other bounds, keys"):
        policy.check_fits(other)


class ShiftedActor(td3.Actor):
    """Another network with the same parameters."""

    def compute(self, x: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
        return super().compute(x, flat) + 0.5


class LinearActor(td3.Actor):
    """The same layers with another output."""

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return self.compute(state, self.flat).clamp(-1, 1)


@pytest.mark.parametrize("actor_class", [ShiftedActor, LinearActor])
def test_policy_with_another_actor_does_not_use_the_numpy_version(
    saved: tuple[td3.TD3, Path], actor_class: type[td3.Actor]
) -> None:
    stock = td3.load_policy(saved[1])
    other = td3.Policy(stock.card, stock.tensors, actor_class=actor_class)
    state = np.array([0.1, -0.2, 0.3], dtype=np.float32)
    assert stock.statistics is not None
    seen = normalize(state, stock.statistics)
    linear = seen
    for weight, bias in stock.layers[:-1]:
        linear = np.maximum(linear @ weight + bias, 0)
    linear = linear @ stock.layers[-1][0] + stock.layers[-1][1]
    shifted = actor_class is ShiftedActor
    expected = np.tanh(linear + 0.5) if shifted else linear.clip(-1, 1)
    np.testing.assert_allclose(other.act(state), expected, rtol=1e-5)
    assert not np.allclose(other.act(state), stock.act(state))


def test_policy_whose_actor_object_has_its_own_compute_does_not_use_numpy() -> None:
    actor = td3.Actor(3, 1, hidden_sizes=(8, 8))
    assert is_stock(actor)
    actor.__dict__["compute"] = lambda x, flat: x
    assert not is_stock(actor)
