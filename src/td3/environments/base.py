"""What several environments stepped together look like to the trainer."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from td3.environments.task import Task

Arrays = dict[str, NDArray[Any]]


class Steps(NamedTuple):
    """One step of every environment, one row each."""

    next_states: NDArray[np.float32]
    """Where the action led; at an episode's end its last state, not the next one's first."""
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    real: NDArray[np.bool_] | None = None
    """False where the environment only reset and nothing was experienced; None: nowhere."""

    @classmethod
    def empty(cls, count: int, state_dim: int) -> "Steps":
        """To be filled, one row per environment."""
        terminated, truncated = np.empty((2, count), dtype=np.bool_)
        states = np.empty((count, state_dim), dtype=np.float32)
        return cls(states, np.empty(count), terminated, truncated)


class Environments(Protocol):
    """Several environments stepped together; those that end start anew by themselves."""

    task: Task
    states: NDArray[np.float32]
    arrangement: str
    """How many there are and who steps them, in words."""
    remark: str
    """What a reader of the results should know of that; mostly nothing."""

    def step(self, actions: NDArray[np.float32], time: int) -> Steps:
        """`send` and `receive`."""

    def send(self, actions: NDArray[np.float32], time: int) -> None:
        """Begin a step; what is done until `receive` may overlap with it."""

    def receive(self) -> Steps: ...
    def snapshot(self) -> Arrays: ...
    def restore(self, arrays: Arrays) -> tuple[list[int], str]: ...
    def close(self) -> None: ...
