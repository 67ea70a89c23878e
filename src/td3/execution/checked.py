"""A fast learner that gives the numbers of the agent's own methods, or steps aside.

The first updates and actions of a run are computed twice: by the fast path, and by plain PyTorch.
If the results differ, or if a method cannot be traced, the run continues with plain PyTorch and
reports why.
"""

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay_base import Replay
from td3.algorithm.state import AgentState
from td3.algorithm.tensors import rows_of_agents
from td3.execution.guard import Guard, NotTraceable
from td3.execution.trace import keep_random_state
from td3.seeding import restore_stream, stream_state
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population

CHECKED = 4  # updates; with policy_freq 2, two of each kind
MOST_TRACES = 10
# Largest distance after one update as a share of how far it moved a tensor, and as a share of the
# tensor. Adam turns tiny gradients into whole steps, so parameters differ more than moments.
TOLERANCE = {"float64": (1e-6, 1e-12), "float32": (0.02, 1e-6), "tf32": (0.3, 1e-6)}
STRICTER = 0.2  # for moments
ACTION_TOLERANCE = 0.01
DIVERGING = 1e15  # the square of larger numbers may overflow in one path and not in the other
Report = Callable[[str], None]


def warn(message: str) -> None:
    """Report with a Python warning, for classes that are used without a run."""
    warnings.warn(message, RuntimeWarning, stacklevel=2)


class CheckedLearner(Learner):
    """A learner with a fast path, in subclasses: `learn_fast`, `act_fast`, `forget_traces`.

    Args:
        agent: All agents.
        replay: Their replay buffer.
        interval: Sums of the diagnostics.
        population: Their settings.
        check: Whether to compare the first updates and actions with plain PyTorch.
        report: Gets the reason if the fast path is not used.
    """

    mode = "Fast execution"
    precision = "float32"

    def __init__(
        self,
        agent: TD3,
        replay: Replay,
        interval: Interval,
        population: Population,
        *,
        check: bool = False,
        report: Report = warn,
    ) -> None:
        super().__init__(agent, replay, interval, population)
        self.report = report
        self.to_check = dict.fromkeys([None, *range(agent.agents)], CHECKED if check else 0)
        """How many updates will be checked: of all agents together, and of each alone."""
        self.acts_to_check = CHECKED if check else 0
        self.learns_eagerly = self.acts_eagerly = False
        self.guard: Guard | None = None
        self.traces = 0
        self.forget_traces()
        if is_overridden(agent, "train"):
            self.fall_back("its train method is overridden")

    # What subclasses implement.

    def learn_fast(self, updates: int, member: int | None) -> None:
        """Run the traced update this many times, for all agents or for one.

        Raises NotTraceable, before anything is changed, if there can be no trace.
        """
        raise NotImplementedError

    def act_fast(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """`act`, traced. Raises NotTraceable if there can be no trace."""
        raise NotImplementedError

    def forget_traces(self) -> None:
        """Release everything that was traced; the next call traces again."""

    # Learning

    def learn(self, updates: int) -> None:
        self.learn_checked(updates, None)

    def learn_member(self, agent: int, updates: int) -> None:
        self.learn_checked(updates, agent)

    def learn_checked(self, updates: int, member: int | None) -> None:
        while updates and self.to_check[member] and not self.learns_eagerly:
            self.to_check[member] -= 1
            updates -= 1
            self.check_update(member)
        if updates:
            self.learn_unchecked(updates, member)

    def learn_unchecked(self, updates: int, member: int | None) -> None:
        if not self.learns_eagerly:
            try:
                self.renew_traces()
                return self.learn_fast(updates, member)
            except NotTraceable as reason:
                self.fall_back(str(reason))
        return self.learn_eagerly(updates, member)

    def learn_eagerly(self, updates: int, member: int | None) -> None:
        if member is None:
            super().learn(updates)
        else:
            super().learn_member(member, updates)

    def check_update(self, member: int | None) -> None:
        """Run one update on both paths; if they differ, keep the plain one's results."""
        self.streams()  # undo draws made ahead
        before, eager = Snapshot(self), self.eager_copy()
        self.learn_unchecked(1, member)
        if self.learns_eagerly:
            return
        with keep_random_state(self.agent):
            eager.learn_eagerly(1, member)
        if name := self.difference(before.agent, eager.agent):
            self.fall_back(f"its {name} would differ from that of plain PyTorch")
            before.restore(self)
            self.learn_eagerly(1, member)

    def eager_copy(self) -> "CheckedLearner":
        """A learner with copies of all that an update changes, on the same transitions."""
        agent, interval = copy.deepcopy(self.agent), Interval(self.agent.agents, self.agent.device)
        agent.execution = "eager"
        return CheckedLearner(agent, self.replay.reading_copy(), interval, self.population)

    def difference(self, before: Mapping[str, Tensor], eager: TD3) -> str:
        """The name of a tensor that the two paths changed differently; empty if there is none."""
        kind = "float64" if self.agent.dtype == torch.float64 else self.precision
        share, floor = TOLERANCE[kind]
        agents = self.agent.agents
        mine, right, start = (
            {name: rows_of_agents(tensor.double(), agents) for name, tensor in part.items()}
            for part in (self.agent.tensors(), eager.tensors(), before)
        )
        sound = healthy_agents(right)
        for name in right:
            limit = share * (STRICTER if "_optimizer." in name else 1)
            rows = (part[name][sound.to(part[name].device)] for part in (mine, right, start))
            if not is_close(rows, limit, floor):
                return name
        return ""

    def plain_parts(self) -> list[str]:
        parts = {"learning": self.learns_eagerly, "acting": self.acts_eagerly}
        return [name for name, is_plain in parts.items() if is_plain]

    def resume(self, plain: list[str]) -> None:
        """Decide as before, without another check: it would change the numbers of the run."""
        if self.agent.updates.any():
            self.to_check = dict.fromkeys(self.to_check, 0)
            self.acts_to_check = 0
        self.learns_eagerly |= "learning" in plain
        self.acts_eagerly |= "acting" in plain

    # Acting

    def act(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.acts_eagerly:
            return super().act(states)
        try:
            self.renew_traces()
            actions = self.act_fast(states)
        except NotTraceable as reason:
            return self.act_eagerly(states, str(reason))
        if self.acts_to_check:
            self.acts_to_check -= 1
            limit = ACTION_TOLERANCE * float(self.agent.actor.max_action.abs().max())
            if not np.allclose(actions, super().act(states), 0, limit, equal_nan=True):
                return self.act_eagerly(states, "its actions would differ from plain PyTorch's")
        return actions

    def act_eagerly(self, states: NDArray[np.float32], reason: str) -> NDArray[np.float32]:
        """Act with plain PyTorch from now on, and say why."""
        self.acts_eagerly = True
        self.report(f"{self.mode} disabled for acting: {reason}.")
        return super().act(states)

    # Traces

    def renew_traces(self) -> None:
        """Trace again if a number or a flag of the agent changed since the last trace."""
        if self.guard and self.guard.holds():
            return
        if self.guard:
            self.traces += 1
            self.release_traces()
            if self.traces == MOST_TRACES:
                raise NotTraceable(f"self.{self.guard.first_change} changes too often")
        self.guard = Guard(self.agent)

    def release_traces(self) -> None:
        self.streams()  # undo draws made ahead
        self.forget_traces()

    def fall_back(self, reason: str) -> None:
        """Learn with plain PyTorch from now on, and say why."""
        self.release_traces()
        self.learns_eagerly = True
        name = type(self.agent).__name__
        self.report(f"{self.mode} disabled for {name}.update: {reason}. It runs as plain PyTorch.")


class Snapshot:
    """What an update changes, before it."""

    def __init__(self, learner: Learner) -> None:
        self.agent, self.interval, self.replay = (
            {name: tensor.clone() for name, tensor in part.tensors().items()}
            for part in (learner.agent, learner.interval, learner.replay)
        )
        streams = [*learner.agent.smooth, *learner.replay.streams]
        self.streams = [(stream, stream_state(stream)) for stream in streams]

    def restore(self, learner: Learner) -> None:
        learner.agent.restore(self.agent)
        learner.interval.restore(self.interval)
        learner.replay.restore(self.replay)
        for stream, state in self.streams:
            restore_stream(stream, state)


def healthy_agents(tensors: Mapping[str, Tensor]) -> Tensor:
    """Which agents have only numbers of a size that both paths can represent."""
    largest = [rows.abs().amax(dim=1).cpu() for rows in tensors.values() if rows.numel()]
    return torch.stack(largest, dim=1).lt(DIVERGING).all(dim=1)  # false for NaN


def is_close(rows: Iterable[Tensor], share: float, floor: float) -> bool:
    """Whether a tensor changed in the same way on both paths: fast, plain, and before."""
    mine, right, before = rows
    allowed = share * (right - before).norm() + floor * right.norm()
    return bool((right - mine).norm() <= allowed)


def is_overridden(agent: TD3, method: str) -> bool:
    """Whether a method of an agent is not that of `TD3`."""
    own = getattr(TD3, method, None) or getattr(AgentState, method)
    return method in vars(agent) or getattr(type(agent), method) is not own
