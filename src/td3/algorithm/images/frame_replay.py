"""Step 1 for states that are large or overlap: every observation is stored once.

A state may be a stack of observations, and the next state is almost the same stack; with n-step
returns the next state is that of a later transition. So the ring holds observations, images as
bytes, and a transition says only where its states end. Stacks are put together when sampled.
"""

import copy
import math
import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.replay import Batch, ReplayBuffer
from td3.algorithm.transitions import Transitions
from td3.errors import UserError
from td3.files import check_file, remove
from td3.layout import Layout, Part, channel_axis, channels_first, layout_size, parts_of, unstacked

SPARE = 64  # of so many observations, one may be the last of an episode, which starts no transition


class FrameReplay(ReplayBuffer):
    """A ring of transitions over a ring of observations.

    Observation and transition numbers count from 0 for ever; a number's place in its ring is the
    remainder. Each observation knows the one before it in its episode; the first knows itself,
    which repeats it where a stack reaches back too far, as Gymnasium does. A transition can be
    sampled until the oldest observation of its stack is overwritten.
    """

    def __init__(
        self,
        max_size: float,
        layout: Layout,
        *,
        environments: int = 1,
        n_step: int = 1,
        discount: float | Tensor = 0.99,
        random_shift: int = 0,
        file: Path | None = None,
        seed: int | Iterable[int] | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """`environments`: of each agent; `discount`: of each reward after the first of n; `file`:
        where to keep images that are too many for memory."""
        super().__init__(max_size, seed=seed, device=device, dtype=dtype)
        self.layout, self.n_step, self.random_shift = layout, n_step, random_shift
        self.file = file
        self.discount = torch.as_tensor(discount, dtype=dtype, device=device).expand(self.agents)
        self.stack, single = unstacked(layout)
        self.parts, self.single_dim = parts_of(single), layout_size(single)
        for shape in (part.image for part in self.parts if part.image):
            if random_shift >= min(channels_first(shape)[1:]):
                raise UserError(
                    f"agent.random_shift {random_shift} would shift images {shape} out of sight; "
                    "choose a smaller one."
                )
        self.reach = reach_of(layout, environments)
        self.room = observations_for(self.capacity, self.reach)
        self.written = np.zeros(self.agents, dtype=np.int64)
        """Observations that each agent has ever stored."""
        self.oldest = np.zeros(self.agents, dtype=np.int64)
        """The first transition of each agent that can still be sampled."""
        self.at: dict[tuple[int, int], int] = {}
        """(agent, environment) → the observation where it is now."""

    def allocate(self, state_dim: int, action_dim: int) -> None:
        """Reserve the rings. Pages that are never written take no memory."""
        if state_dim != layout_size(self.layout):
            raise ValueError(f"states have {state_dim} numbers, not {layout_size(self.layout)}")
        self.state_dim, self.action_dim = state_dim, action_dim
        images, numbers = widths_of(self.parts)
        own: dict[str, Any] = {"device": self.device}
        self.rows = torch.zeros(self.agents, self.capacity, action_dim + 2, dtype=self.dtype, **own)
        """Action, reward, done."""
        shape = (self.agents, self.room, images)
        self.images = (
            on_disk(self.file, shape) if self.file else torch.zeros(shape, dtype=torch.uint8, **own)
        )
        self.numbers = torch.zeros(self.agents, self.room, numbers, dtype=self.dtype, **own)
        self.sources = np.zeros((self.agents, self.capacity), dtype=np.int64)
        """The first of `ends`, for the host."""
        where: dict[str, Any] = {"dtype": torch.int64, **own}
        self.ends = torch.zeros(self.agents, self.capacity, 2, **where)
        """The observations where a transition's state and next state end."""
        self.links = torch.zeros(self.agents, self.room, 2, **where)
        """The observation before each, and the transition that starts at it; -1: none."""

    def store(self, transitions: Transitions, state_dim: int, action_dim: int) -> None:
        if not len(transitions.rows):  # all environments were resetting
            return
        if self.rows is None:
            self.allocate(state_dim, action_dim)
        rows, step = transitions.rows, Step()
        before, after = rows[:, :state_dim], rows[:, state_dim : 2 * state_dim]
        for index, agent in enumerate(transitions.owners.tolist()):
            key = agent, int(transitions.environments[index])
            if transitions.begins[index] or key not in self.at:
                self.at[key] = self.note_stack(step, agent, before[index])
            source = self.at[key]
            target = self.note(step, agent, after[index, -self.single_dim :], source)
            number = int(self.added[agent])
            step.transitions.append(agent * self.capacity + number % self.capacity)
            step.ends.append((source, target))
            step.starts.append((agent * self.room + source % self.room, number))
            self.sources[agent, number % self.capacity] = source
            self.added[agent] += 1
            self.at[key] = target
        self.write(step, rows[:, 2 * state_dim :])
        for agent in set(transitions.owners.tolist()):
            self.forget(agent)

    def note_stack(self, step: "Step", agent: int, state: NDArray[np.float32]) -> int:
        """A state's observations as an episode's beginning; returns the last."""
        singles = state.reshape(self.stack, self.single_dim)
        # As a rule all are the first one, repeated.
        fresh = 0
        while fresh < self.stack - 1 and (singles[fresh] == singles[fresh + 1]).all():
            fresh += 1
        last = self.note(step, agent, singles[fresh], None)
        for single in singles[fresh + 1 :]:
            last = self.note(step, agent, single, last)
        return last

    def note(
        self, step: "Step", agent: int, single: NDArray[np.float32], before: int | None
    ) -> int:
        """One observation that is to be written; returns its number."""
        number = int(self.written[agent])
        step.observations.append(agent * self.room + number % self.room)
        step.singles.append(single)
        step.links.append((number if before is None else before, -1))
        self.written[agent] += 1
        return number

    def write(self, step: "Step", rest: NDArray[np.float32]) -> None:
        """Everything of a step at once; on a GPU without waiting for it."""
        assert self.rows is not None
        singles = np.stack(step.singles)
        images, numbers = (
            [singles[:, p.start : p.start + p.size] for p in self.parts if bool(p.image) == image]
            for image in (True, False)
        )
        observations = self.sent(np.array(step.observations))
        for table, found, kind in ((self.images, images, np.uint8), (self.numbers, numbers, None)):
            if found:
                values = np.concatenate(found, axis=1).astype(kind or singles.dtype)
                table.flatten(0, 1).index_copy_(0, observations, self.sent(values).to(table.dtype))
        self.links.flatten(0, 1).index_copy_(0, observations, self.sent(np.array(step.links)))
        starts = self.sent(np.array(step.starts))
        self.links.flatten(0, 1)[:, 1].index_copy_(0, starts[:, 0], starts[:, 1])
        places = self.sent(np.array(step.transitions))
        self.ends.flatten(0, 1).index_copy_(0, places, self.sent(np.array(step.ends)))
        given = self.sent(np.ascontiguousarray(rest)).to(self.dtype)
        self.rows.flatten(0, 1).index_copy_(0, places, given)

    def sent(self, array: NDArray[Any]) -> Tensor:
        """On the ring's device."""
        tensor = torch.from_numpy(array)
        if self.device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def forget(self, agent: int) -> None:
        """Leave out transitions whose observations, or which themselves, are overwritten."""
        alive = int(self.written[agent]) - self.room + self.reach
        first = max(int(self.oldest[agent]), int(self.added[agent]) - self.capacity)
        while first < self.added[agent] and self.sources[agent, first % self.capacity] < alive:
            first += 1
        self.oldest[agent] = first

    @property
    def sizes(self) -> NDArray[np.int64]:
        return self.added - self.oldest

    def draw(self, batch_size: int) -> NDArray[np.int64]:
        """(agents, batch, 5): which transition, and how to shift its state's and next state's
        images down and to the right."""
        if not self.filled:
            raise ValueError("cannot sample from an empty buffer; add a transition first")
        drawn = np.zeros((self.agents, batch_size, 5), dtype=np.int64)
        for agent, stream in enumerate(self.streams):
            uniform = stream.random(batch_size)
            drawn[agent, :, 0] = self.oldest[agent] + (uniform * self.sizes[agent]).astype(int)
            if self.random_shift:
                most = self.random_shift
                drawn[agent, :, 1:] = stream.integers(-most, most + 1, (batch_size, 4))
        return drawn

    def gather(self, indices: NDArray[np.int64], device: torch.device | str | None = None) -> Batch:
        """The transitions that `draw` chose, as tensors on the ring's or a `device`."""
        batch = self.collected(torch.from_numpy(indices).to(self.device))
        return Batch(*(part.to(device or self.device) for part in batch))

    def collected(self, drawn: Tensor) -> Batch:
        """The transitions, with stacks put together and rewards added up."""
        assert self.rows is not None
        taken = self.taken(drawn[..., 0])
        agents = torch.arange(self.agents, device=self.device)[:, None]
        action = self.rows[agents, drawn[..., 0] % self.capacity, : self.action_dim]
        state, next_state = (
            self.states(ends, drawn[..., 1 + 2 * k : 3 + 2 * k])
            for k, ends in enumerate((taken.source, taken.target))
        )
        reward, done = taken.reward[..., None], taken.done[..., None]
        return Batch(state, next_state, action, reward, done)

    def taken(self, numbers: Tensor) -> "Taken":
        """The rewards of up to n steps from these transitions on, and where they lead.

        Only the next value's weight changes in step 9: what the steps between take from it is in
        `done`, which is then a share.
        """
        assert self.rows is not None
        agents = torch.arange(self.agents, device=self.device)[:, None]
        weight = torch.ones(numbers.shape, dtype=self.dtype, device=self.device)
        reward, goes_on = torch.zeros_like(weight), torch.ones_like(weight)
        going = torch.ones_like(numbers, dtype=torch.bool)
        source = target = self.ends[agents, numbers % self.capacity, 0]
        for _ in range(self.n_step):
            rows = self.rows[agents, numbers % self.capacity]
            reward = reward + torch.where(going, weight * rows[..., -2], 0)
            goes_on = torch.where(going, (1 - rows[..., -1]) * weight, goes_on)
            target = torch.where(going, self.ends[agents, numbers % self.capacity, 1], target)
            following = self.links[agents, target % self.room, 1]
            going = going & (following >= 0) & (rows[..., -1] == 0)
            numbers = torch.where(going, following, numbers)
            weight = weight * self.discount[:, None]
        return Taken(source, target, reward, 1 - goes_on)

    def states(self, ends: Tensor, shifts: Tensor) -> Tensor:
        """The stacks that end with these observations, (agents, batch, state_dim)."""
        agents = torch.arange(self.agents, device=self.device)[:, None]
        numbers = [ends]
        for _ in range(self.stack - 1):
            numbers.append(self.links[agents, numbers[-1] % self.room, 0])
        places = torch.stack(numbers[::-1], dim=-1) % self.room  # (agents, batch, stack)
        places = places + agents[..., None] * self.room
        others = (
            self.numbers.flatten(0, 1).index_select(0, places.flatten()).view(*places.shape, -1)
        )
        pieces, image, number = [], 0, 0
        for part in self.parts:
            if part.image:
                pieces.append(self.pictures(part, image, places, shifts))
                image += part.size
            else:
                pieces.append(others[..., number : number + part.size])
                number += part.size
        together = torch.cat(pieces, dim=-1) if len(pieces) > 1 else pieces[0]
        return together.flatten(2)  # bytes, if there are images only: a quarter of the traffic

    def pictures(self, part: Part, start: int, places: Tensor, shifts: Tensor) -> Tensor:
        """The part that begins at byte `start` of the images at these places, shifted."""
        assert part.image
        stored = self.images.flatten(0, 1)[:, start : start + part.size]
        found = stored.index_select(0, places.flatten()).view(*places.shape, -1)
        return shifted(found, part.image, shifts) if self.random_shift else found

    def member(self, agent: int) -> "FrameReplay":
        one = copy.copy(self)
        if self.rows is None:
            raise ValueError("there is no ring to share before the first transition")
        own = slice(agent, agent + 1)
        one.agents, one.streams = 1, self.streams[own]
        one.discount = self.discount[own]
        for name in (
            "added",
            "written",
            "oldest",
            "rows",
            "images",
            "numbers",
            "ends",
            "links",
            "sources",
        ):
            setattr(one, name, getattr(self, name)[own])
        return one

    @property
    def tables(self) -> dict[str, tuple[Tensor, NDArray[np.int64]]]:
        assert self.rows is not None
        return {
            "rows": (self.rows, self.added),
            "ends": (self.ends, self.added),
            "images": (self.images, self.written),
            "numbers": (self.numbers, self.written),
            "links": (self.links, self.written),
        }

    def erase(self, agent: int) -> None:
        if self.rows is not None:
            for name in ("rows", "images", "numbers"):  # where they lie may stay
                table, written = self.tables[name]
                table[agent, : min(int(written[agent]), table.shape[1])] = 0

    def clear(self) -> None:
        for counts in (self.added, self.written, self.oldest):
            counts[:] = 0
        self.at = {}

    def close(self) -> None:
        if self.file:
            remove(self.file)

    def tensors(self) -> dict[str, Tensor]:
        at = [(*key, number) for key, number in self.at.items()]
        return {
            "at": torch.tensor(at, dtype=torch.int64).view(-1, 3),
            "oldest": torch.from_numpy(self.oldest.copy()),
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.at = {(agent, env): number for agent, env, number in tensors["at"].tolist()}
        self.oldest[:] = tensors["oldest"].numpy()
        if self.rows is None:
            return
        # An observation is written before it is known which transition starts at it.
        for agent, (first, stop) in enumerate(zip(self.oldest, self.added, strict=True)):
            numbers = torch.arange(int(first), int(stop), device=self.device)
            sources = self.ends[agent, numbers % self.capacity, 0]
            self.sources[agent] = self.ends[agent, :, 0].cpu().numpy()
            self.links[agent, :, 1] = -1
            self.links[agent, sources % self.room, 1] = numbers


@dataclass
class Step:
    """What is to be written of one step: places in the flattened tables, and what goes there."""

    observations: list[int] = field(default_factory=list)
    singles: list[NDArray[np.float32]] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)
    transitions: list[int] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)
    """An observation's place, and the transition that starts there."""


class Taken(NamedTuple):
    """What came of some transitions, each (agents, batch)."""

    source: Tensor
    target: Tensor
    reward: Tensor
    done: Tensor


def observations_for(transitions: int, reach: int) -> int:
    """How many observations the ring has room for."""
    return transitions + transitions // SPARE + 2 * reach


def reach_of(layout: Layout, environments: int) -> int:
    """Stacks reach back by fewer observations: a step brings at most two of each environment."""
    return 2 * unstacked(layout)[0] * environments


def observation_bytes(layout: Layout) -> int:
    """What one stored observation takes."""
    images, numbers = widths_of(parts_of(unstacked(layout)[1]))
    return images + 4 * numbers + 16


def widths_of(parts: list[Part]) -> tuple[int, int]:
    """Bytes of images and other numbers in one observation."""
    images = sum(part.size for part in parts if part.image)
    return images, sum(part.size for part in parts) - images


def on_disk(file: Path, shape: tuple[int, ...]) -> Tensor:
    """Bytes in a file instead of memory. Its space is reserved now, lest a full disk end a run."""
    size = math.prod(shape)
    check_file(file)
    remove(file)
    try:
        with file.open("x+b") as reserved:
            os.posix_fallocate(reserved.fileno(), 0, size)
            mapped = mmap.mmap(reserved.fileno(), size)  # not by name, which may be a link by now
    except OSError as error:
        remove(file)
        raise UserError(
            f"The replay ring needs {size / 1e9:.1f} GB on disk, but {file.parent} has no room "
            f"({error.strerror}); use a smaller --loop.replay-size."
        ) from error
    return torch.frombuffer(mapped, dtype=torch.uint8).view(shape)


def shifted(images: Tensor, shape: tuple[int, ...], shifts: Tensor) -> Tensor:
    """Images (agents, batch, stack, pixels) moved by (down, right), their edges repeated."""
    axis = channel_axis(shape)
    channels, height, width = channels_first(shape)
    beside = channels if axis == 2 else 1  # numbers of one pixel that lie side by side
    device, (down, right) = images.device, shifts.flatten(0, 1).unbind(-1)
    samples, lines = len(down), images[0, 0].numel() // (width * beside)
    rows = (torch.arange(height, device=device) - down[:, None]).clamp(0, height - 1)
    columns = (torch.arange(width, device=device) - right[:, None]).clamp(0, width - 1)
    # First whole lines, then within them: index_select and gather copy in long pieces.
    firsts = torch.arange(0, samples * lines, height, device=device).view(samples, -1, 1)
    moved = images.reshape(samples * lines, -1).index_select(0, (firsts + rows[:, None]).flatten())
    numbers = (columns[..., None] * beside + torch.arange(beside, device=device)).flatten(1)
    moved = moved.view(samples, lines, -1)
    return moved.gather(2, numbers[:, None].expand(-1, lines, -1)).view(images.shape)
