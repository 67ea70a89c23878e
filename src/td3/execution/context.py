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
    whole: TD3 | None = None
    """All agents, if `agent` is one of them."""
    member: int | None = None
    """Which of them is updated alone; None: all together."""

    @classmethod
    def of(cls, learner: RowLearner, member: int | None) -> "UpdateContext":
        """What to update: one member, or all together."""
        population = learner.population
        if member is None:
            parts = (learner.agent, learner.replay, learner.interval)
            return cls(*parts, **split_off_settings(population.hyperparameters))
        return cls(
            learner.agent.member(member),
            learner.replay.member(member),
            learner.interval.member(member),
            **split_off_settings(population.hyperparameters_of(member)),
            whole=learner.agent,
            member=member,
        )


def split_off_settings(numbers: dict[str, Any]) -> dict[str, Any]:
    """Separate the numbers that the traced update takes from those that control it."""
    outer = {name: numbers.pop(name) for name in ("batch_size", "policy_freq")}
    return {**outer, "settings": numbers}
