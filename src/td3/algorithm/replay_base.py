"""What training and checkpoints need from a replay buffer, whatever it stores."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.transitions import Transitions
from td3.seeding import Stream, Streams, as_seeds

if TYPE_CHECKING:
    from td3.algorithm.replay import Batch

Spans = Mapping[str, Sequence[int]]
"""First and last entry of each agent in a file of a checkpoint: `start` and `stop`."""


class PerAgent:
    """Data of several agents, of which each can be used alone."""

    agents: int
    per_agent: ClassVar[tuple[str, ...]]
    """Attributes with one entry per agent."""

    def member(self, agent: int) -> Self:
        """One agent's part, on the same memory."""
        one = copy.copy(self)
        one.agents = 1
        for name in self.per_agent:
            setattr(one, name, getattr(self, name)[agent : agent + 1])
        return one


class Replay(PerAgent, ABC):
    """Stored transitions of one or more agents; each agent samples only its own.

    `ReplayBuffer` stores whole transitions. `FrameReplay` stores each observation once.
    """

    stores_frames: ClassVar[bool] = False
    """Whether single observations are stored instead of whole transitions."""
    per_agent: ClassVar[tuple[str, ...]] = ("streams", "added", "rows")
    index_tables: ClassVar[tuple[str, ...]] = ()
    """Tables that hold positions instead of experience."""

    def __init__(
        self,
        max_size: float,
        *,
        seed: int | Iterable[int] | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.capacity = int(max_size)
        if self.capacity < 1:
            raise ValueError(f"max_size must be at least 1, got {max_size}")
        self.streams: list[Stream] = [Streams.from_seed(s).replay for s in as_seeds(seed)]
        self.agents = len(self.streams)
        self.device, self.dtype = torch.device(device), dtype
        self.added = np.zeros(self.agents, dtype=np.int64)
        """How many transitions each agent has stored since the start; counts overwritten ones."""
        self.lives = np.zeros(self.agents, dtype=np.int64)
        """How often `restart` has emptied the buffer of each agent."""
        self.rows: Tensor | None = None
        """(agents, capacity, width), one row per transition. None before `allocate`."""
        self.state_dim = self.action_dim = 0

    def __len__(self) -> int:
        return int(self.sizes.max())

    @property
    @abstractmethod
    def sizes(self) -> NDArray[np.int64]:
        """How many transitions each agent can sample from."""

    @property
    def filled(self) -> bool:
        """Whether every agent has a transition to sample."""
        return int(np.count_nonzero(self.added)) == self.agents

    @abstractmethod
    def allocate(self, state_dim: int, action_dim: int) -> None:
        """Reserve memory for `capacity` transitions of every agent."""

    @abstractmethod
    def store(self, transitions: Transitions, state_dim: int, action_dim: int) -> None:
        """Store one environment step: each transition goes to the agent that owns it."""

    def draw_uniform(self, batch_size: int) -> NDArray[np.float64]:
        """Numbers from 0 to 1, (agents, batch), each row from its agent's own stream."""
        if not self.filled:
            raise ValueError("cannot sample from an empty buffer; add a transition first")
        uniform = np.empty((self.agents, batch_size))
        for stream, row in zip(self.streams, uniform, strict=True):
            stream.random(out=row)
        return uniform

    @abstractmethod
    def draw(self, batch_size: int) -> NDArray[np.int64]:
        """Choose transitions at random, (agents, batch, …), for `gather`."""

    @abstractmethod
    def gather(
        self, indices: NDArray[np.int64], device: torch.device | str | None = None
    ) -> "Batch":
        """The chosen transitions, as tensors on `device` (default: the buffer's device)."""

    def set_priorities(self, chosen: Any, priorities: Tensor | None) -> None:
        """Take the priorities of transitions that `draw` chose; a uniform buffer needs none."""

    def sample(self, batch_size: int) -> tuple[NDArray[np.floating], ...]:
        """Sample transitions uniformly, with replacement.

        Returns:
            NumPy arrays (states, next_states, actions, rewards, dones), each (batch, width).
            Rewards and dones have width 1. Several agents add a leading axis (agents, …).

        Raises:
            ValueError: The buffer is empty.
        """
        batch = (part.cpu().numpy() for part in self.gather(self.draw(batch_size)))
        return tuple(np.ascontiguousarray(part[0] if self.agents == 1 else part) for part in batch)

    def member(self, agent: int) -> Self:
        """One agent's transitions as a buffer that shares memory and stream with this one."""
        if self.rows is None:
            raise ValueError("a buffer has no members before its first transition")
        return super().member(agent)

    def reading_copy(self) -> Self:
        """A buffer with the same transitions, on the same memory, and with its own streams."""
        other = copy.copy(self)
        other.streams = copy.deepcopy(self.streams)
        return other

    def clear(self) -> None:
        """Forget all transitions."""
        self.added[:] = 0

    def erase(self, agent: int) -> None:
        """Overwrite an agent's transitions with zeros; unused memory stays untouched."""
        if self.rows is not None:
            for name, (table, written) in self.tables.items():
                if name not in self.index_tables:
                    table[agent, : min(int(written[agent]), table.shape[1])] = 0

    def restart(self, agent: int) -> None:
        """Empty the buffer of one agent, for a new agent in its place."""
        self.added[agent] = 0
        self.lives[agent] += 1

    def reset_priorities(self, agent: int) -> None:
        """Forget the priorities of an agent's transitions; a uniform buffer has none."""

    def take_over(self, other: Self, sources: Sequence[int]) -> None:
        """Begin with the transitions of another buffer of this kind and size.

        Agent k gets those of agent `sources[k]`.
        """
        if other.rows is None:
            return
        if self.rows is None:
            self.allocate(other.state_dim, other.action_dim)
        theirs = other.tables
        for name, (table, written) in self.tables.items():
            for agent, source in enumerate(sources):
                count = int(theirs[name][1][source])
                used = min(count, table.shape[1])
                table[agent, :used] = theirs[name][0][source, :used].to(table.device)
                written[agent] = count

    @abstractmethod
    def forget(self, lost: Sequence[Mapping[str, Spans]]) -> None:
        """Exclude entries that could not be read from a checkpoint, after `restore`.

        `lost` has the entries of each missing file, by table. Raises ValueError if this kind of
        buffer cannot do without them.
        """

    def close(self) -> None:
        """Remove temporary files."""

    # Checkpoints: the names of tables and tensors are part of the file format.

    @property
    @abstractmethod
    def tables(self) -> dict[str, tuple[Tensor, NDArray[np.int64]]]:
        """Name → table (agents, entries, width), and how many entries each agent ever wrote."""

    def tensors(self) -> dict[str, Tensor]:
        """State outside the tables."""
        return {}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Undo `tensors`, after the tables have been read."""
