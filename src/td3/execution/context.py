"""What the updates of a learner work on: all members at once, or one of them."""

from dataclasses import dataclass
from typing import Any, Protocol

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.execution.trace import Settings
from td3.training.metrics import Interval
from td3.training.population import Population


class RowLearner(Protocol):
    """A learner whose replay buffer stores whole transitions."""

    agent: TD3
    replay: ReplayBuffer
    interval: Interval
    population: Population


@dataclass(frozen=True)
class UpdateContext:
    """An agent, its replay buffer, its diagnostics and its hyperparameters."""

    agent: TD3
    replay: ReplayBuffer
    interval: Interval
    batch_size: int
    policy_freq: int
    settings: Settings

    @classmethod
    def for_all(cls, learner: RowLearner) -> "UpdateContext":
        numbers = learner.population.hyperparameters
        return cls(learner.agent, learner.replay, learner.interval, **split_off_settings(numbers))

    @classmethod
    def for_member(cls, learner: RowLearner, member: int) -> "UpdateContext":
        numbers = learner.population.hyperparameters_of(member)
        return cls(
            learner.agent.member(member),
            learner.replay.member(member),
            learner.interval.member(member),
            **split_off_settings(numbers),
        )


def split_off_settings(numbers: dict[str, Any]) -> dict[str, Any]:
    """Separate the numbers that the traced update takes from those that control it."""
    outer = {name: numbers.pop(name) for name in ("batch_size", "policy_freq")}
    return {**outer, "settings": numbers}
