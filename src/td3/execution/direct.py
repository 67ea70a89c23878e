"""`agent.train(buffer, n)` as fast as a run: for code that has its own loop.

The first updates of an agent run as plain PyTorch, because tracing takes as long as some hundred of
them. Later ones run as in `td3 train` on a CPU: by a traced plan, whose first updates are checked,
on the number of threads that is fastest. Results are equal up to rounding.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.algorithm.replay_base import Replay
from td3.algorithm.settings import Diagnostics, UpdateSettings
from td3.execution.checked import CheckedLearner, is_overridden, warn
from td3.execution.cpu.learner import CpuLearner
from td3.execution.threads import fastest_threads
from td3.training.metrics import Interval
from td3.training.population import Population

EAGER_UPDATES = 200
MOST_CHANGES = 10
NUMBERS = ("discount", "tau", "policy_noise", "noise_clip")
KEY = "direct_training"
"""The attribute of an agent that holds its `DirectTraining`."""


class GivenSettings:
    """The part of a `Population` that a learner needs."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return dict(self.given)


class DirectTraining:
    """The fast path of one agent."""

    is_part_of_agent = False

    def __init__(self, agent: TD3 | None = None) -> None:
        self.agent = agent
        self.done = self.changes = 0
        self.active = False
        """Whether an update runs: then `train` is the plain one."""
        self.learner: CheckedLearner | None = None
        self.given: dict[str, Any] = {}
        """The settings of the learner."""
        self.numbers: dict[str, Tensor] = {}
        """Those of them that changed between calls, as tensors."""
        self.rows: Tensor | None = None
        self.threads = 1

    def __reduce__(self) -> tuple[Any, ...]:
        return (DirectTraining, ())  # a copy of the agent begins again

    @property
    def usable(self) -> bool:
        return self.changes <= MOST_CHANGES and not (self.learner and self.learner.learns_eagerly)

    def prepare(self, replay: ReplayBuffer, batch_size: int, settings: UpdateSettings) -> None:
        """Make a learner for this buffer and these settings, unless there is one."""
        assert self.agent is not None
        given = {"batch_size": batch_size, **vars(settings)}
        if self.learner:
            same = self.learner.replay is replay and self.rows is replay.rows
            if same and self.take_numbers(given):
                return
            self.changes += 1
            self.numbers = self.changing_numbers(given)
        self.given, self.rows = given | self.numbers, replay.rows
        population = cast(Population, GivenSettings(self.given))
        interval = Interval(self.agent.agents, self.agent.device)
        self.learner = CpuLearner(self.agent, replay, interval, population, check=True, report=warn)
        self.threads = self.choose_threads(batch_size)

    def take_numbers(self, given: dict[str, Any]) -> bool:
        """Whether the learner can have these settings, after numbers in tensors were set."""
        for name, value in given.items():
            known, is_number = self.given[name], not isinstance(value, Tensor)
            if is_number and name in self.numbers:
                self.numbers[name].fill_(value)
            elif known is not value and not (is_number and is_equal(known, value)):
                return False
        return True

    def changing_numbers(self, given: dict[str, Any]) -> dict[str, Tensor]:
        """The numbers that changed so far, as tensors: further changes need no new trace."""
        assert self.agent is not None
        return {
            name: torch.full((self.agent.agents,), float(given[name]), dtype=torch.float64)
            for name in NUMBERS
            if not isinstance(given[name], Tensor)
            and (name in self.numbers or not is_equal(self.given[name], given[name]))
        }

    def choose_threads(self, batch_size: int) -> int:
        """The fastest number of threads, but not more than the program allows."""
        agent, allowed = self.agent, torch.get_num_threads()
        if agent is None or allowed == 1:
            return 1
        sizes = (agent.state_dim, agent.action_dim, agent.hidden_sizes)
        return min(allowed, fastest_threads(*sizes, batch_size, agent.agents))

    def run(self, updates: int) -> list[Diagnostics]:
        """Run updates on the learner, and return what each of them measured."""
        assert self.learner is not None
        found, interval = [], self.learner.interval
        self.active = True
        try:
            with threads_set_to(self.threads):
                for _ in range(updates):
                    interval.sums.zero_()
                    interval.counts[:] = 0
                    self.learner.learn(1)
                    found.append(as_diagnostics(interval, self.learner.agent.dtype))
        finally:
            self.active = False
        return found


def train_fast(
    agent: TD3, replay: Replay, iterations: int, batch_size: int, settings: UpdateSettings
) -> list[Diagnostics] | None:
    """Run the updates of `TD3.train` fast; None if plain PyTorch should do it."""
    on_cpu = agent.device.type == "cpu"
    if agent.execution == "eager" or not on_cpu or is_overridden(agent, "train"):
        return None
    own: DirectTraining | None = vars(agent).get(KEY)
    if own is None or own.agent is not agent:  # new, or a copy
        own = vars(agent)[KEY] = DirectTraining(agent)
    if own.active or not own.usable:
        return None
    own.done += iterations
    if own.done <= EAGER_UPDATES or not isinstance(replay, ReplayBuffer) or not replay.filled:
        return None
    own.prepare(replay, batch_size, settings)
    return own.run(iterations) if own.usable else None


def is_equal(known: Any, value: float) -> bool:
    return not isinstance(known, Tensor) and bool(known == value)


def as_diagnostics(interval: Interval, dtype: torch.dtype) -> Diagnostics:
    """The sums of one update, which are its diagnostics."""
    critic_loss, q, actor_loss = interval.sums.to(dtype, copy=True).unbind(dim=1)
    return Diagnostics(critic_loss, q, actor_loss if interval.counts[0, 2] else None)


@contextmanager
def threads_set_to(count: int) -> Iterator[None]:
    """Use this number of CPU threads meanwhile."""
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
