"""Step 1: the replay buffer."""

import copy
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from td3.algorithm.transitions import Transitions
from td3.seeding import Stream, Streams, as_seeds


class Batch(NamedTuple):
    """Transitions, in the order of the walk-throughs. Each tensor is (agents, batch, width)."""

    state: Tensor
    next_state: Tensor
    action: Tensor
    reward: Tensor
    done: Tensor


class ReplayBuffer:
    """Step 1: a ring of (state, next_state, action, reward, done), sampled uniformly.

    Old experience stays useful because TD3 learns off-policy: a transition is true whoever chose
    its action. Uniform sampling from a large ring breaks the correlation between the consecutive
    steps of an episode. When the ring is full the oldest transition makes room.

    A transition is one row of one tensor, so that sampling is one gather. Every agent has a ring
    of its own, drawn from with its own stream; for one agent that axis is invisible.
    """

    def __init__(
        self,
        max_size: float = 1_000_000,
        *,
        seed: int | Iterable[int] | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.capacity = int(max_size)
        if self.capacity < 1:
            raise ValueError(f"max_size must be at least 1, not {max_size}")
        self.streams: list[Stream] = [Streams.from_seed(s).replay for s in as_seeds(seed)]
        self.agents = len(self.streams)
        self.device, self.dtype = torch.device(device), dtype
        self.added = np.zeros(self.agents, dtype=np.int64)
        """Transitions each agent has ever stored; the next one goes to `added % capacity`."""
        self.rows: Tensor | None = None
        """(agents, capacity, width); made when the first transition shows the widths."""
        self.state_dim = self.action_dim = 0

    def __len__(self) -> int:
        return int(self.sizes.max())

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many transitions each agent can sample from."""
        return np.minimum(self.added, self.capacity)

    @property
    def filled(self) -> bool:
        """Whether every agent has something to sample from."""
        return int(np.count_nonzero(self.added)) == self.agents

    @property
    def max_size(self) -> int:
        return self.capacity

    def allocate(self, state_dim: int, action_dim: int) -> None:
        """Reserve the ring. Pages that are never written take no memory."""
        self.state_dim, self.action_dim = state_dim, action_dim
        width = row_width(state_dim, action_dim)
        self.rows = torch.zeros(
            self.agents, self.capacity, width, dtype=self.dtype, device=self.device
        )

    def add(self, transition: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike, ArrayLike]) -> None:
        """Store one transition of every agent: (state, next_state, action, reward, done).

        `done` means *terminated*: a state after which nothing can follow. A time limit is not one.
        """
        state, next_state, action, reward, done = (
            np.asarray(part, dtype=np.float64).reshape(self.agents, -1) for part in transition
        )
        widths = {
            "next_state": (next_state, state.shape[1]),
            "reward": (reward, 1),
            "done": (done, 1),
        }
        for name, (part, width) in widths.items():
            if part.shape[1] != width:
                raise ValueError(f"{name} has {part.shape[1]} numbers per agent instead of {width}")
        self.add_rows(
            np.arange(self.agents),
            np.hstack([state, next_state, action, reward, done]),
            state.shape[1],
            action.shape[1],
        )

    def store(self, transitions: Transitions, state_dim: int, action_dim: int) -> None:
        """Put transitions into the rings of their owners."""
        self.add_rows(transitions.owners, transitions.rows, state_dim, action_dim)

    def add_rows(
        self, agents: NDArray[np.int64], rows: NDArray[np.floating], state_dim: int, action_dim: int
    ) -> None:
        """Store rows (columns in the order of Batch); row i belongs to agent `agents[i]`."""
        if self.rows is None:
            self.allocate(state_dim, action_dim)
        assert self.rows is not None
        if (state_dim, action_dim) != (self.state_dim, self.action_dim):
            raise ValueError(
                f"this buffer holds states of {self.state_dim} and actions of {self.action_dim} "
                f"numbers, not {state_dim} and {action_dim}"
            )
        if self.agents == 1 and len(rows) == 1:  # the common case, without index arithmetic
            self.rows[0, self.added[0] % self.capacity] = torch.from_numpy(rows[0])
            self.added[0] += 1
            return
        for agent, row in zip(agents, torch.from_numpy(rows), strict=True):
            self.rows[agent, self.added[agent] % self.capacity] = row
            self.added[agent] += 1

    def draw(self, batch_size: int) -> NDArray[np.int64]:
        """Which rows to sample: (agents, batch), from each agent's own stream.

        A uniform number times the size, not a bounded integer: the stream then moves by the same
        amount whatever the size, so draws can be made ahead in blocks.
        """
        if not self.filled:
            raise ValueError("cannot sample from an empty buffer; add a transition first")
        return self.places(np.stack([stream.random(batch_size) for stream in self.streams]))

    def places(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """The rows that uniform numbers (agents, batch) pick."""
        return (uniform * self.sizes[:, None]).astype(np.int64)

    def gather(self, indices: NDArray[np.int64], device: torch.device | str | None = None) -> Batch:
        """The transitions at `indices` (agents, batch), as tensors on the ring's or a `device`."""
        rows = self.gather_rows(indices).view(*indices.shape, -1).to(device or self.device)
        return Batch(*rows.split(self.widths, dim=-1))

    def gather_rows(self, indices: NDArray[np.int64], out: Tensor | None = None) -> Tensor:
        """The same as rows, (agents · batch, width)."""
        assert self.rows is not None
        offsets = np.arange(self.agents, dtype=np.int64)[:, None] * self.capacity
        flat = torch.from_numpy((indices + offsets).ravel()).to(self.device)
        return torch.index_select(self.rows.flatten(0, 1), 0, flat, out=out)

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of each part of a transition, in the order of Batch."""
        return (self.state_dim, self.state_dim, self.action_dim, 1, 1)

    @property
    def tables(self) -> dict[str, tuple[Tensor, NDArray[np.int64]]]:
        """Name → ring, (agents, places, width), and how many entries each agent ever wrote."""
        assert self.rows is not None
        return {"rows": (self.rows, self.added)}

    def clear(self) -> None:
        """Forget everything."""
        self.added[:] = 0

    def close(self) -> None:
        """Leave nothing behind."""

    def tensors(self) -> dict[str, Tensor]:
        """State that is not in the tables."""
        return {}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Put it back, after the tables are filled."""

    def erase(self, agent: int) -> None:
        """Set an agent's transitions to zero; those never written are not touched."""
        if self.rows is not None:
            for table, written in self.tables.values():
                table[agent, : min(int(written[agent]), table.shape[1])] = 0

    def member(self, agent: int) -> "ReplayBuffer":
        """One agent's ring as a buffer of its own, on the same memory and stream."""
        if self.rows is None:
            raise ValueError("there is no ring to share before the first transition")
        one = copy.copy(self)
        one.agents, one.streams = 1, self.streams[agent : agent + 1]
        one.added = self.added[agent : agent + 1]
        one.rows = self.rows[agent : agent + 1]
        return one

    def sample(self, batch_size: int) -> tuple[NDArray[np.floating], ...]:
        """(states, next_states, actions, rewards, dones) as NumPy arrays; rewards: (batch, 1)."""
        batch = (part.cpu().numpy() for part in self.gather(self.draw(batch_size)))
        return tuple(np.ascontiguousarray(part[0] if self.agents == 1 else part) for part in batch)


def row_width(state_dim: int, action_dim: int) -> int:
    """Numbers in one stored transition."""
    return 2 * state_dim + action_dim + 2
