"""Small worlds whose values can be computed by hand, learned from collected experience.

Each probe adds one thing to the one before, so that the first failure shows what is broken:
the value of a constant, the use of the observation, discounting, the action, time limits.
"""

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from td3 import TD3, ReplayBuffer
from td3.config import EnvironmentConfig
from td3.environments.in_process import InProcess
from td3.seeding import Streams
from td3.training.collector import Collector
from td3.training.exploration import GaussianExploration

Step = tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]
DISCOUNT = 0.5
TOLERANCE = 0.05


class Probe(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One step with reward 1."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Box(0, 4, (1,))  # not the range that the agent works in
    length: ClassVar[int] = 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        self.sign = float(self.np_random.choice([-1, 1]))
        return self.observation(), {}

    def step(self, action: NDArray[np.float32]) -> Step:
        reward = self.reward(float(action[0]))
        self.time += 1
        return self.observation(), reward, self.time == self.length, False, {}

    def observation(self) -> NDArray[np.float32]:
        return np.zeros(1, dtype=np.float32)

    def reward(self, action: float) -> float:
        return 1.0


class RewardIsTheObservation(Probe):
    def observation(self) -> NDArray[np.float32]:
        return np.array([self.sign], dtype=np.float32)

    def reward(self, action: float) -> float:
        return self.sign


class RewardAtTheSecondStep(Probe):
    """The observation is the time; a step without reward is followed by one with reward."""

    length = 2

    def observation(self) -> NDArray[np.float32]:
        return np.array([self.time / 2], dtype=np.float32)

    def reward(self, action: float) -> float:
        return float(self.time == 1)


class RewardDependsOnTheAction(Probe):
    """Best is 3 of [0, 4]: 0.5 of [-1, 1]."""

    def reward(self, action: float) -> float:
        return 1 - ((action - 3) / 2) ** 2


class RewardDependsOnBoth(RewardIsTheObservation):
    """Best is 3 where the observation is 1, and 1 where it is -1."""

    def reward(self, action: float) -> float:
        return 1 - ((action - 2 - self.sign) / 2) ** 2


class Endless(Probe):
    """Reward 1 for ever, always in the same state: only a time limit ends it."""

    length = -1


class TerminatedUnseen(Probe):
    """Reward 1 in the same state, but every third step is the last."""

    length = 3


class TerminatedInSight(TerminatedUnseen):
    """As before, but the observation tells the time."""

    def observation(self) -> NDArray[np.float32]:
        return np.array([self.time / 3], dtype=np.float32)


PROBES = [
    Probe,
    RewardIsTheObservation,
    RewardAtTheSecondStep,
    RewardDependsOnTheAction,
    RewardDependsOnBoth,
    Endless,
    TerminatedUnseen,
    TerminatedInSight,
]
for kind in PROBES:
    limit = 3 if kind is Endless else None
    gym.register(f"Probe{kind.__name__}-v0", entry_point=kind, max_episode_steps=limit)


def learn(kind: type[Probe], updates: int = 400, steps: int = 300) -> TD3:
    """Act at random, then train on what was collected."""
    streams = Streams.from_seed(0)
    config = EnvironmentConfig(f"Probe{kind.__name__}-v0")
    environments = InProcess(config, [streams.env], remake_every=10**9)
    collector = Collector(environments, 1, GaussianExploration([streams.explore], 1, 1, 0.0))
    buffer = ReplayBuffer(steps, seed=0)
    for time in range(1, steps + 1):
        transitions, _ = collector.step(collector.random_actions(), time)
        assert transitions is not None
        buffer.store(transitions, 1, 1)
    environments.close()
    agent = TD3(
        1, 1, hidden_sizes=(32, 32), seed=0, actor_learning_rate=3e-3, critic_learning_rate=1e-2
    )
    agent.train(buffer, updates, batch_size=64, discount=DISCOUNT, tau=0.1)
    return agent


def values(agent: TD3, observation: float) -> NDArray[np.float32]:
    """Both critics' values of actions all over the range, (2, actions)."""
    action = torch.linspace(-0.9, 0.9, 7).view(-1, 1)
    state = torch.full_like(action, observation)
    with torch.no_grad():
        return torch.cat(agent.critic(state, action), dim=1).T.numpy()


def assert_worth(agent: TD3, observation: float, value: float) -> None:
    np.testing.assert_allclose(values(agent, observation), value, atol=TOLERANCE)


def test_a_constant_reward_is_worth_itself() -> None:
    assert_worth(learn(Probe), 0.0, 1.0)


def test_the_value_follows_the_observation() -> None:
    agent = learn(RewardIsTheObservation)
    assert_worth(agent, 1.0, 1.0)
    assert_worth(agent, -1.0, -1.0)


def test_a_reward_in_the_future_is_discounted() -> None:
    agent = learn(RewardAtTheSecondStep)
    assert_worth(agent, 0.5, 1.0)
    assert_worth(agent, 0.0, DISCOUNT)


def test_the_actor_finds_the_best_action() -> None:
    agent = learn(RewardDependsOnTheAction, updates=800)
    action = agent.select_action([0.0])
    assert action[0] == pytest.approx(0.5, abs=TOLERANCE)
    for tried, value in ((0.5, 1.0), (0.0, 0.75), (-0.5, 0.0)):
        q1 = agent.critic.Q1(torch.zeros(1, 1), torch.full((1, 1), tried)).item()
        assert q1 == pytest.approx(value, abs=2 * TOLERANCE)


def test_the_actor_follows_the_observation() -> None:
    agent = learn(RewardDependsOnBoth, updates=800)
    assert agent.select_action([1.0])[0] == pytest.approx(0.5, abs=2 * TOLERANCE)
    assert agent.select_action([-1.0])[0] == pytest.approx(-0.5, abs=2 * TOLERANCE)


def test_a_time_limit_does_not_stop_bootstrapping() -> None:
    assert_worth(learn(Endless), 0.0, 1 / (1 - DISCOUNT))


def test_termination_stops_bootstrapping() -> None:
    # Two of three steps continue; the observation does not show which: q = 1 + 2/3 · discount · q.
    # Which actions were tried in the third step is random, so only their mean is known.
    mean = values(learn(TerminatedUnseen), 0.0).mean()
    assert mean == pytest.approx(1 / (1 - DISCOUNT * 2 / 3), abs=2 * TOLERANCE)


def test_termination_in_sight_gives_the_finite_sum() -> None:
    agent = learn(TerminatedInSight, updates=800)
    for time in range(3):
        assert_worth(agent, time / 3, sum(DISCOUNT**step for step in range(3 - time)))
