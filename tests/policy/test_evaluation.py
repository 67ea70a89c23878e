"""Evaluation: fixed seeds, no noise, no memory of what came before."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from td3.config import EnvironmentConfig
from td3.layout import Observation
from td3.policy.evaluation import Evaluation, episode_seeds, evaluate


class Endless(gym.Env[np.ndarray[Any, Any], np.ndarray[Any, Any]]):
    """Reward 1 for ever."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), 1.0, False, False, {}


gym.register("Endless-v0", entry_point=Endless)


def still(state: Observation) -> NDArray[np.float32]:
    return np.zeros(1, np.float32)


def test_episode_seeds_are_fixed_and_differ_between_agents() -> None:
    assert episode_seeds(3, 10) == episode_seeds(3, 10)
    assert episode_seeds(3, 10)[:5] == episode_seeds(3, 5)
    assert len({*episode_seeds(3, 10), *episode_seeds(4, 10)}) == 20


def test_evaluate_episode_depends_only_on_its_seed() -> None:
    config = EnvironmentConfig(id="Pendulum-v1")
    together = evaluate(still, config, [1, 2, 3])
    for episode, seed in enumerate([1, 2, 3]):
        assert evaluate(still, config, [seed]).returns == together.returns[episode]
    assert (together.lengths == 200).all()
    assert len(np.unique(together.returns)) == 3


def test_evaluate_reports_success_only_if_the_task_does() -> None:
    found = evaluate(still, EnvironmentConfig("support.worker_tasks:Counting"), [3, 4, 6, 7])
    assert found.successes is not None
    assert found.successes.tolist() == [1, 0, 1, 0]
    assert evaluate(still, EnvironmentConfig("Pendulum-v1"), [3]).successes is None


def test_evaluate_twice_gives_the_same_returns() -> None:
    config = EnvironmentConfig(id="BipedalWalker-v3")

    def act(state: Observation) -> NDArray[np.float32]:
        return state[:4].clip(-1, 1)

    first, again = (evaluate(act, config, [7, 8], max_steps=200) for _ in range(2))
    np.testing.assert_array_equal(first.returns, again.returns)


def test_evaluate_policy_without_finite_action_returns_nan() -> None:
    actions = iter([0.0] * 250 + [np.nan])

    def act(state: Observation) -> NDArray[np.float32]:
        return np.full(1, next(actions), np.float32)

    first, second = evaluate(act, EnvironmentConfig(id="Pendulum-v1"), [1, 2]).returns
    assert np.isfinite(first)
    assert np.isnan(second)


def test_evaluate_endless_episode_stops_at_max_steps() -> None:
    found = evaluate(still, EnvironmentConfig(id="Endless-v0"), [0, 1], max_steps=30)
    assert found.lengths.tolist() == [30, 30]
    assert found.returns.tolist() == [30.0, 30.0]


@pytest.mark.parametrize("episodes", [1, 4])
def test_evaluate_gives_one_return_per_seed(episodes: int) -> None:
    found = evaluate(still, EnvironmentConfig(id="Pendulum-v1"), list(range(episodes)))
    assert found.returns.shape == (episodes,)


def test_evaluation_states_mean_std_and_interval() -> None:
    found = Evaluation(np.array([1.0, 2.0, 3.0, 6.0]), np.array([10, 20, 30, 40]))
    assert (found.mean, found.std) == (3.0, np.std([1, 2, 3, 6]))
    expected = stats.t.interval(0.95, 3, 3.0, stats.sem([1, 2, 3, 6]))
    np.testing.assert_allclose(found.interval, expected)
    assert repr(found) == (
        "Evaluation(mean return 3 ± 1.87, 95 % interval -0.4374 to 6.437, 4 episodes of 25 steps)"
    )


def test_evaluation_of_one_episode_has_no_interval() -> None:
    found = Evaluation(np.array([1.5]), np.array([7]))
    assert np.isnan(found.interval).all()
    assert repr(found) == "Evaluation(mean return 1.5 ± 0, 1 episode of 7 steps)"
