"""Metrics of training: sums on the device, records of floats, and the sinks that take them."""

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
SATURATED = 0.99  # beyond this an action has hardly any gradient


class Sink(Protocol):
    """A destination of records: TensorBoard, W&B or the progress display."""

    def write(self, record: Record) -> None: ...
    def close(self) -> None: ...


class Guarded:
    """A sink that may fail without ending the run; after a failure it is not used again."""

    def __init__(self, name: str, sink: Sink, report: Callable[[str], None]) -> None:
        self.name, self.sink, self.report = name, sink, report
        self.broken = False

    def write(self, record: Record) -> None:
        self.attempt(self.sink.write, record)

    def close(self) -> None:
        with contextlib.suppress(Exception, SystemExit):  # the run is over
            self.sink.close()

    def attempt(self, action: Callable[..., None], *given: Any) -> None:
        if self.broken:
            return
        try:
            action(*given)
        except (Exception, SystemExit) as error:  # rich exits on a broken pipe
            self.broken = True
            self.report(f"{self.name} failed and was disabled: {first_line(error)}")


class Interval:
    """Sums over one logging interval, per agent; losses stay on the device until it ends."""

    NAMES = ("critic_loss", "q", "actor_loss")

    def __init__(self, agents: int, device: torch.device, names: Sequence[str] = ()) -> None:
        self.agents = agents
        self.sums = torch.zeros(agents, len(self.NAMES), dtype=torch.float64, device=device)
        self.counts = np.zeros((agents, len(self.NAMES)), dtype=np.int64)
        self.episodes = np.zeros((agents, 3))
        """Per agent: number of episodes that ended, sum of their returns, sum of their lengths."""
        self.info = {name: np.zeros((agents, 2)) for name in names}
        """Per name of `environment.info` and agent: sum over episodes, number of episodes."""
        self.actions = np.zeros((agents, 2))
        """Per agent: number of saturated action components, number of all components."""
        self.acted = 0
        """Number of steps since the last `fold`."""
        self.saturated = np.zeros(0, dtype=np.int64)
        """How often each action component was saturated in these steps."""

    def add_update(self, diagnostics: Diagnostics, agent: int | None = None) -> None:
        """Add one update of all agents, or of one agent that was trained alone."""
        rows = slice(None) if agent is None else slice(agent, agent + 1)
        for column, name in enumerate(self.NAMES):
            value = getattr(diagnostics, name)
            if value is not None:
                self.sums[rows, column] += value
                self.counts[rows, column] += 1

    def member(self, agent: int) -> "Interval":
        """A view of one agent's sums."""
        one = copy.copy(self)
        one.agents, rows = 1, slice(agent, agent + 1)
        one.sums, one.counts = self.sums[rows], self.counts[rows]
        one.episodes, one.actions = self.episodes[rows], self.actions[rows]
        one.info = {name: table[rows] for name, table in self.info.items()}
        one.acted = 0
        return one

    def add_episode(
        self, agent: int, episode_return: float, length: int, numbers: Mapping[str, float] = {}
    ) -> None:
        self.episodes[agent] += (1, episode_return, length)
        for name, value in numbers.items():
            self.info[name][agent] += (value, 1)

    def add_actions(self, actions: NDArray[np.floating]) -> None:
        """Add the actors' actions before exploration noise, (agents, …)."""
        if not self.acted:
            self.saturated = np.zeros(actions.shape, dtype=np.int64)
        self.saturated += np.abs(actions) > SATURATED
        self.acted += 1

    def fold(self) -> None:
        """Sum the counts of `add_actions`, which is called too often to do it itself."""
        if self.acted:
            counts = self.saturated.reshape(self.agents, -1)
            self.actions += np.stack(
                [counts.sum(axis=1), np.full(self.agents, self.acted * counts.shape[1])], axis=1
            )
            self.acted = 0

    def records(self, step: int, seeds: Sequence[int], updates: Sequence[int]) -> list[Record]:
        """One record per agent; then start a new interval."""
        self.fold()
        sums = self.sums.cpu().numpy()
        records = []
        for agent, seed in enumerate(seeds):
            ended, returns, lengths = self.episodes[agent]
            losses = {
                name: mean(sums[agent, column], self.counts[agent, column])
                for column, name in enumerate(self.NAMES)
            }
            info = {
                name: float(total / count)
                for name, (total, count) in ((own, t[agent]) for own, t in self.info.items())
                if count
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
                    **({"info": info} if info else {}),
                }
            )
        for tensor in self.tensors().values():  # in place: a captured GPU graph adds to them
            tensor.zero_()
        return records

    def tensors(self) -> dict[str, Tensor]:
        self.fold()
        return {
            "sums": self.sums,
            "counts": torch.from_numpy(self.counts),
            "episodes": torch.from_numpy(self.episodes),
            "actions": torch.from_numpy(self.actions),
            # Only what was reported: a task without such numbers has the checkpoints as before.
            **{f"info.{k}": torch.from_numpy(own) for k, own in self.info.items() if own.any()},
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for name, table in self.info.items():
            if (saved := tensors.get(f"info.{name}")) is not None:
                table[:] = saved.numpy()
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])


def mean(total: float, count: float) -> float | None:
    return float(total / count) if count else None


def diverged(record: Record) -> str:
    """The name of a metric in the record that is not finite, or an empty string."""
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
    successes: NDArray[np.float64] | None = None,
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
        **({} if successes is None else {"success": float(successes.mean())}),
    }
