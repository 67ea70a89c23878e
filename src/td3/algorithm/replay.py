"""Step 1: the replay buffer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from td3.algorithm.replay_base import Replay, Spans
from td3.algorithm.transitions import Transitions


class Batch(NamedTuple):
    """Sampled transitions. Each tensor is (agents, batch, width)."""

    state: Tensor
    next_state: Tensor
    action: Tensor
    reward: Tensor
    done: Tensor


class ReplayBuffer(Replay):
    """Step 1: store transitions in a ring; sample them uniformly.

    TD3 is off-policy: a transition stays valid whichever policy chose its action, so old ones
    are kept. Consecutive steps of an episode are correlated; uniform samples from a large buffer
    are nearly independent. When the buffer is full, the newest transition replaces the oldest.

    A transition is one row of one tensor, so sampling is one gather. With several seeds there is
    one ring per agent.

    Args:
        max_size: Number of transitions to keep, per agent.
        seed: Seed of the sampling; a list of seeds makes one ring for each.
        device: Where the transitions are stored.
        dtype: How the numbers are stored.

    Example:
        >>> buffer = ReplayBuffer(1000, seed=0)
        >>> buffer.add(([0.1, 0.2], [0.2, 0.3], [1.0], 0.5, False))
        >>> state, next_state, action, reward, done = buffer.sample(32)
        >>> state.shape
        (32, 2)
    """

    def __init__(
        self,
        max_size: float = 1_000_000,
        *,
        seed: int | Iterable[int] | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(max_size, seed=seed, device=device, dtype=dtype)
        self.part_sizes: tuple[int, ...] = ()
        """How many numbers each part of a transition has, in the order of Batch."""

    @property
    def max_size(self) -> int:
        """The largest number of transitions per agent."""
        return self.capacity

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.minimum(self.added, self.capacity)

    def add(self, transition: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike, ArrayLike]) -> None:
        """Store one transition.

        Args:
            transition: (state, next_state, action, reward, done). `done` means terminated: no
                step can follow. A time limit is not termination. With several agents, each part
                has a leading axis (agents, …).

        Raises:
            ValueError: The tuple does not have five parts, or a part has the wrong size.
        """
        parts = [np.asarray(part, dtype=np.float64).reshape(self.agents, -1) for part in transition]
        self.prepare(tuple([part.shape[1] for part in parts]))
        self.write(np.arange(self.agents), np.concatenate(parts, axis=1))

    def store(self, transitions: Transitions, state_dim: int, action_dim: int) -> None:
        self.prepare(part_sizes(state_dim, action_dim))
        if len(transitions.owners) == 1:  # less overhead
            self.append(int(transitions.owners[0]), transitions.rows[0])
        else:
            self.write(transitions.owners, transitions.rows)

    def append(self, agent: int, row: NDArray[np.floating]) -> None:
        """Write one row; in a full ring, over the oldest."""
        assert self.rows is not None
        place = int(self.added[agent]) % self.capacity
        self.rows[agent, place] = torch.from_numpy(row)
        self.added[agent] += 1
        self.note_new(agent * self.capacity + place)

    def write(self, owners: NDArray[np.int64], rows: NDArray[np.floating]) -> None:
        """Write one row for each owner, in ascending order, in one copy."""
        assert self.rows is not None
        earlier = np.arange(len(owners)) - np.searchsorted(owners, owners)
        """How many rows of the same owner come before."""
        numbers = (self.added[owners] + earlier) % self.capacity + owners * self.capacity
        places = torch.from_numpy(numbers).to(self.device)
        self.rows.flatten(0, 1).index_copy_(0, places, torch.from_numpy(rows).to(self.rows))
        self.added += np.bincount(owners, minlength=self.agents)
        self.note_new(places)

    def note_new(self, places: int | Tensor) -> None:
        """Called after rows were written; `places` count through the rows of all agents."""

    def prepare(self, sizes: tuple[int, ...]) -> None:
        """Check the sizes of a transition's parts; the first transition sets them."""
        if self.rows is not None and sizes == self.part_sizes:
            return
        if len(sizes) != len(Batch._fields):
            names = ", ".join(Batch._fields)
            raise ValueError(f"a transition has 5 parts ({names}), got {len(sizes)}")
        expected = self.part_sizes or part_sizes(sizes[0], sizes[2])
        for name, size, right in zip(Batch._fields, sizes, expected, strict=True):
            if size != right:
                numbers = "1 number" if size == 1 else f"{size} numbers"
                raise ValueError(f"{name} has {numbers}, this buffer holds {right}")
        self.allocate(sizes[0], sizes[2])

    def allocate(self, state_dim: int, action_dim: int) -> None:
        # Pages that are never written take no memory.
        self.state_dim, self.action_dim = state_dim, action_dim
        self.part_sizes = part_sizes(state_dim, action_dim)
        shape = (self.agents, self.capacity, sum(self.part_sizes))
        self.rows = torch.zeros(shape, dtype=self.dtype, device=self.device)

    def draw(self, batch_size: int) -> NDArray[np.int64]:
        return self.indices(self.draw_uniform(batch_size))

    def indices(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Which rows numbers from 0 to 1 choose.

        A uniform number times the size, not a random integer: then the stream advances by the
        same amount whatever the size, so numbers can be drawn ahead in blocks.
        """
        sizes = self.sizes[:, None]
        if type(self).choose is ReplayBuffer.choose:
            return (uniform * sizes).astype(np.int64)
        given = (torch.from_numpy(array).to(self.device) for array in (uniform, sizes))
        chosen: NDArray[np.int64] = self.choose(*given).cpu().numpy()
        return chosen

    def choose(self, uniform: Tensor, sizes: Tensor) -> Tensor:
        """Step 4 on a device: which rows numbers from 0 to 1 choose, (agents, batch)."""
        return (uniform * sizes).long()

    def gather(
        self,
        indices: NDArray[np.int64],
        device: torch.device | str | None = None,
        out: Tensor | None = None,
    ) -> Batch:
        """The transitions at `indices`, (agents, batch). `out`: rows to write them to."""
        assert self.rows is not None
        offsets = np.arange(self.agents, dtype=np.int64)[:, None] * self.capacity
        flat = torch.from_numpy((indices + offsets).ravel()).to(self.device)
        rows = torch.index_select(self.rows.flatten(0, 1), 0, flat, out=out)
        return self.split(rows.view(*indices.shape, -1).to(device or self.device))

    def split(self, rows: Tensor) -> Batch:
        """Rows, (agents, batch, width), as the parts of a transition."""
        return Batch(*rows.split(self.part_sizes, dim=-1))

    def forget(self, lost: Sequence[Mapping[str, Spans]]) -> None:
        if self.has_more_per_row:
            raise ValueError(f"{type(self).__name__} cannot move its transitions")
        for agent in range(self.agents):
            stop = int(self.added[agent])
            numbers = np.arange(max(0, stop - self.capacity), stop)
            for file in lost:
                first, last = file["rows"]["start"][agent], file["rows"]["stop"][agent]
                numbers = numbers[(numbers < first) | (numbers >= last)]
            self.compact(agent, torch.from_numpy(numbers % self.capacity).to(self.device))
            self.added[agent] = len(numbers)

    def take_over(self, other: Self, sources: Sequence[int]) -> None:
        super().take_over(other, sources)
        rows = list(sources)
        self.restore({name: tensor[rows] for name, tensor in other.tensors().items()})

    def compact(self, agent: int, places: Tensor) -> None:
        """Move the rows at these places to the front, in this order."""
        assert self.rows is not None
        self.rows[agent, : len(places)] = self.rows[agent, places]

    @property
    def has_more_per_row(self) -> bool:
        """Whether a subclass keeps data for each row that its `compact` does not move."""
        own = type(self)
        return (
            own.tensors is not ReplayBuffer.tensors or own.tables is not ReplayBuffer.tables
        ) and own.compact is ReplayBuffer.compact

    @property
    def tables(self) -> dict[str, tuple[Tensor, NDArray[np.int64]]]:
        assert self.rows is not None
        return {"rows": (self.rows, self.added)}


def part_sizes(state_dim: int, action_dim: int) -> tuple[int, ...]:
    """How many numbers each part of a transition has, in the order of Batch."""
    return (state_dim, state_dim, action_dim, 1, 1)


def row_width(state_dim: int, action_dim: int) -> int:
    """How many numbers one stored transition has."""
    return sum(part_sizes(state_dim, action_dim))
