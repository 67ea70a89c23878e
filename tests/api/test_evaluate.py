"""`td3.evaluate` plays policies, runs, files and functions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv

import td3
from td3.cli import main
from td3.errors import UserError
from td3.policy.file import save_policy
from td3.policy.from_agent import policy_card, policy_tensors
from td3.policy.policy import Policy

STORED = Path(__file__).parents[2] / "benchmarks/results/halfcheetah-v5-100k"


class Counting(gym.Env[Any, Any]):
    """Rewards the action; ends after ten steps."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Box(-5, 5, (1,), np.float32)
    closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps, self.bonus = 0, float(self.np_random.random())
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(3, np.float32), float(action[0]) + self.bonus, self.steps == 10, False, {}

    def close(self) -> None:
        self.closed = True


def two(observation: Any) -> Any:
    return np.array([2.0], np.float32)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """A policy for Pendulum, whose card names it."""
    from td3.config import EnvironmentConfig
    from td3.environments.environment import Environment

    config = EnvironmentConfig(id="Pendulum-v1")
    agent = td3.TD3(3, 1, hidden_sizes=(8,), seed=0)
    card = policy_card(agent, Environment(config).task, config, {"mean_return": 1.0})
    save_policy(policy_tensors(agent)[0], card, tmp_path / "policy/agent-0.safetensors")
    return td3.load_policy(tmp_path)


def test_evaluate_equals_the_command(policy: Policy, tmp_path: Path, capsys: Any) -> None:
    assert main(["evaluate", str(tmp_path), "--episodes", "3", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["agents"]
    for given in (policy, tmp_path, str(tmp_path / "policy/agent-0.safetensors")):
        assert td3.evaluate(given, episodes=3).returns.tolist() == row["returns"]
    assert td3.evaluate(policy, "Pendulum-v1", 3, seed=7).returns.tolist() != row["returns"]


@pytest.mark.parametrize("kind", ["id", "function", "class", "object"])
def test_evaluate_takes_ids_functions_classes_and_objects(policy: Policy, kind: str) -> None:
    expected = policy.evaluate(episodes=2)
    given: Any = {
        "id": "Pendulum-v1",
        "function": lambda: gym.make("Pendulum-v1"),
        "class": PendulumOfTwoHundred,
        "object": gym.make("Pendulum-v1"),
    }[kind]
    found = td3.evaluate(policy, given, episodes=2)
    np.testing.assert_allclose(found.returns, expected.returns)
    assert found.lengths.tolist() == [200, 200]
    raw = td3.evaluate(lambda observation: policy(observation), given, episodes=2)
    np.testing.assert_allclose(raw.returns, expected.returns)


class PendulumOfTwoHundred(gym.wrappers.TimeLimit[Any, Any]):
    """A class without arguments."""

    def __init__(self) -> None:
        super().__init__(gym.make("Pendulum-v1").unwrapped, 200)


def test_evaluate_function_gets_observations_and_gives_actions_of_the_environment() -> None:
    found = td3.evaluate(two, Counting, episodes=3)
    assert found.lengths.tolist() == [10, 10, 10]
    assert ((found.returns > 20) & (found.returns < 30)).all()
    assert len(set(found.returns)) == 3
    assert td3.evaluate(two, Counting, episodes=3).returns.tolist() == found.returns.tolist()
    assert (
        td3.evaluate(two, Counting, episodes=3, seed=1).returns.tolist() != found.returns.tolist()
    )


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(3), r"an action of the shape \(1,\), got array\(\[0., 0., 0.\]\)"),
        (None, r"an action of the shape \(1,\), got None"),
        (np.array([np.nan]), "not finite"),
    ],
)
def test_evaluate_function_with_a_wrong_action_is_refused(action: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        td3.evaluate(lambda observation: action, Counting)


def test_evaluate_closes_only_what_it_made() -> None:
    made: list[Counting] = []
    td3.evaluate(two, lambda: made.append(Counting()) or made[-1], episodes=1)  # type: ignore[func-returns-value]
    assert made[0].closed
    own = Counting()
    td3.evaluate(two, own, episodes=1)
    assert not own.closed


def test_evaluate_refuses_a_policy_in_an_environment_with_other_bounds(policy: Policy) -> None:
    with pytest.raises(UserError, match="no longer those that agent-0 was trained on"):
        td3.evaluate(policy, Counting, 2)


@pytest.mark.parametrize("environment", ["Pendulum-v1", PendulumEnv])
def test_evaluate_stops_episodes_at_max_steps(policy: Policy, environment: Any) -> None:
    assert td3.evaluate(policy, environment, 2, max_steps=5).lengths.tolist() == [5, 5]
    assert td3.evaluate(two, environment, 2, max_steps=5).lengths.tolist() == [5, 5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: td3.evaluate(two), "environment must be an id such as 'Pendulum-v1'"),
        (lambda: td3.evaluate(two, ""), "environment must be an id such as 'Pendulum-v1'"),
        (lambda: td3.evaluate(3, "Pendulum-v1"), "policy must be a policy, a run, a path or a"),  # type: ignore[arg-type]
        (lambda: td3.evaluate(two, "Pendulumm-v1"), "No environment 'Pendulumm-v1' is registered"),
        (lambda: td3.evaluate(two, "Pendulum-v1", 0), "Episodes must be 1 or more, not 0"),
        (lambda: td3.evaluate(two, lambda: 3), "returned int, not a gymnasium.Env"),  # type: ignore[arg-type,return-value]
        (lambda: td3.evaluate("runs/none"), "runs/none does not exist"),
    ],
)
def test_evaluate_with_wrong_arguments_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()


def test_evaluate_with_seeds_warns_and_works_as_before(policy: Policy) -> None:
    with pytest.warns(DeprecationWarning, match="seeds=…. is deprecated"):
        found = td3.evaluate(policy.act, policy.environment, seeds=[1, 2])  # type: ignore[arg-type]
    assert found.lengths.tolist() == [200, 200]


def test_evaluate_run_plays_its_best_policy() -> None:
    pytest.importorskip("mujoco")
    found = td3.evaluate(td3.load_run(STORED), episodes=1)
    assert found.returns.tolist() == td3.load_policy(STORED).evaluate(1).returns.tolist()
    assert found.mean > 3_000
