"""Numbers out of training: the only place where tensors become floats, and where they go."""

import contextlib
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.settings import Diagnostics
from td3.errors import first_line

Record = dict[str, Any]
SATURATED = 0.99  # an action nearer to its bound than this hardly has a gradient


class Sink(Protocol):
    """Something that takes records: a file, TensorBoard, the progress bar."""

    def write(self, record: Record) -> None: ...
    def close(self) -> None: ...


class Guarded:
    """A sink that may break without ending the run: it is left out from then on."""

    def __init__(self, name: str, sink: Sink, report: Callable[[str], None]) -> None:
        self.name, self.sink, self.report = name, sink, report
        self.broken = False

    def write(self, record: Record) -> None:
        self.attempt(self.sink.write, record)

    def close(self) -> None:
        with contextlib.suppress(Exception, SystemExit):  # nothing is left to be lost
            self.sink.close()

    def attempt(self, action: Callable[..., None], *given: Any) -> None:
        if self.broken:
            return
        try:
            action(*given)
        except (Exception, SystemExit) as error:  # the latter is how rich takes a broken pipe
            self.broken = True
            self.report(f"{self.name} takes no more records: {first_line(error)}")


class Interval:
    """Sums over one logging interval, per agent. Losses stay on the device until it ends."""

    NAMES = ("critic_loss", "q", "actor_loss")

    def __init__(self, agents: int, device: torch.device) -> None:
        self.agents = agents
        self.sums = torch.zeros(agents, len(self.NAMES), dtype=torch.float64, device=device)
        self.counts = np.zeros((agents, len(self.NAMES)), dtype=np.int64)
        self.episodes = np.zeros((agents, 3))
        """Episodes ended, the sum of their returns, the sum of their lengths."""
        self.actions = np.zeros((agents, 2))
        """Saturated action components, all action components."""
        self.acted = 0
        """Steps since the last `fold`."""
        self.saturated = np.zeros(0, dtype=np.int64)
        """How often each action component was saturated in them."""

    def add_update(self, diagnostics: Diagnostics, agent: int | None = None) -> None:
        """Take in one update: of all agents, or of one trained by itself."""
        rows = slice(None) if agent is None else slice(agent, agent + 1)
        for column, value in enumerate(diagnostics):
            if value is not None:
                self.sums[rows, column] += value
                self.counts[rows, column] += 1

    def member(self, agent: int) -> "Interval":
        """One agent's sums, on the same memory."""
        one = copy.copy(self)
        one.agents, rows = 1, slice(agent, agent + 1)
        one.sums, one.counts = self.sums[rows], self.counts[rows]
        one.episodes, one.actions = self.episodes[rows], self.actions[rows]
        one.acted = 0
        return one

    def add_episode(self, agent: int, episode_return: float, length: int) -> None:
        self.episodes[agent] += (1, episode_return, length)

    def add_actions(self, actions: NDArray[np.floating]) -> None:
        """Take in the actors' own actions, (agents, …), before exploration noise."""
        if not self.acted:
            self.saturated = np.zeros(actions.shape, dtype=np.int64)
        self.saturated += np.abs(actions) > SATURATED
        self.acted += 1

    def fold(self) -> None:
        """Sum up what `add_actions` took in, which happens too often to do more each time."""
        if self.acted:
            counts = self.saturated.reshape(self.agents, -1)
            self.actions += np.stack(
                [counts.sum(axis=1), np.full(self.agents, self.acted * counts.shape[1])], axis=1
            )
            self.acted = 0

    def records(self, step: int, seeds: Sequence[int], updates: Sequence[int]) -> list[Record]:
        """One record per agent."""
        self.fold()
        sums = self.sums.cpu().numpy()
        records = []
        for agent, seed in enumerate(seeds):
            ended, returns, lengths = self.episodes[agent]
            losses = {
                name: mean(sums[agent, column], self.counts[agent, column])
                for column, name in enumerate(self.NAMES)
            }
            records.append(
                {
                    "kind": "train",
                    "step": step,
                    "agent": agent,
                    "seed": seed,
                    "episodes": int(ended),
                    "episode_return": mean(returns, ended),
                    "episode_length": mean(lengths, ended),
                    **losses,
                    "saturated": mean(*self.actions[agent]),
                    "updates": int(updates[agent]),
                }
            )
        for tensor in self.tensors().values():  # in place: a captured update adds to them
            tensor.zero_()
        return records

    def tensors(self) -> dict[str, Tensor]:
        self.fold()
        return {
            "sums": self.sums,
            "counts": torch.from_numpy(self.counts),
            "episodes": torch.from_numpy(self.episodes),
            "actions": torch.from_numpy(self.actions),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])


def mean(total: float, count: float) -> float | None:
    return float(total / count) if count else None


def diverged(record: Record) -> str:
    """The name of a figure in the record that is not finite, or nothing."""
    for name in Interval.NAMES:
        value = record.get(name)
        if value is not None and not math.isfinite(value):
            return name
    return ""


def evaluation_record(
    step: int,
    agent: int,
    seed: int,
    returns: NDArray[np.float64],
    lengths: NDArray[np.int64],
    best: bool,
) -> Record:
    return {
        "kind": "evaluation",
        "step": step,
        "agent": agent,
        "seed": seed,
        "mean_return": float(returns.mean()),
        "std_return": float(returns.std()),
        "returns": returns.tolist(),
        "lengths": lengths.tolist(),
        "best": best,
    }
