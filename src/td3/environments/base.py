"""The interface of several environments that are stepped together."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from td3.environments.episode_info import EpisodeInfo
from td3.environments.task import Task
from td3.errors import RunStopped

Arrays = dict[str, NDArray[Any]]


class Steps(NamedTuple):
    """One step of every environment, one row each."""

    next_states: NDArray[np.float32]
    """The state after the action; at the end of an episode its last state, not a reset one."""
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    real: NDArray[np.bool_] | None = None
    """False where the environment only reset, so that there is no transition; None: all real."""
    infos: Mapping[int, EpisodeInfo] | None = None
    """What the environments reported whose episode ended, by index; None: nothing."""

    @classmethod
    def empty(cls, count: int, state_dim: int) -> "Steps":
        """Return uninitialized arrays with one row per environment."""
        terminated, truncated = np.empty((2, count), dtype=np.bool_)
        states = np.empty((count, state_dim), dtype=np.float32)
        return cls(states, np.empty(count), terminated, truncated)


class Environments(ABC):
    """Several environments stepped together; those whose episode ended reset themselves."""

    task: Task
    states: NDArray[np.float32]
    """The current state of every environment, one row each."""
    description: str
    """How many environments there are and where they run."""
    warning: str = ""
    """What a reader of the results should know about them; usually empty."""
    resetting: NDArray[np.bool_] | None = None
    """Which environments will ignore the next action and only reset; None: never."""
    keep_info: bool = False
    """Whether `Steps.infos` contains the last `info` of each episode; may be set at any time."""

    def step(self, actions: NDArray[np.float32], time: int) -> Steps:
        """Step all environments and wait for them."""
        self.send(actions, time)
        return self.receive()

    def send(self, actions: NDArray[np.float32], time: int) -> None:
        """Begin a step. Workers compute it until `receive`; others compute it in `receive`."""
        self.sent = actions, time

    @abstractmethod
    def receive(self) -> Steps:
        """Wait for the step that `send` began."""

    @abstractmethod
    def snapshot(self) -> Arrays:
        """Return what `restore` needs."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> tuple[list[int], str]:
        """Restore a snapshot; return the environments that restarted instead, and why."""

    def begin_again(self, indices: Sequence[int], time: int) -> None:
        """Replace these environments by new ones with new seeds; the others continue.

        `time`: the step that was sent last.
        """
        raise NotImplementedError

    def explain_restart(self, indices: list[int]) -> str:
        """Why these environments restarted in `restore` instead of continuing."""
        return (
            f"{self.task.id} is not deterministic: environment {', '.join(map(str, indices))} "
            "reached a different state from the same seed and actions; it restarted with a new "
            "episode"
        )

    @abstractmethod
    def close(self) -> None: ...


def count_environments(count: int) -> str:
    return f"{count} environment{'s' if count > 1 else ''}"


def with_location(error: RunStopped, index: int, time: int) -> RunStopped:
    """Add the environment and the step to an error."""
    return RunStopped(f"{error} in environment {index} at step {time}")
