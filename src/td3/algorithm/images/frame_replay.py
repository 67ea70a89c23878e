"""Step 1 for images, stacked observations and n-step returns: each observation is stored once.

A state may be a stack of observations, and its next state has all but one of them in common. So
this buffer stores single observations, images as bytes, and `FrameIndex` records which of them a
transition consists of. Sampling rebuilds the states:

    FrameIndex.follow        n steps from a transition: reward, done, last observation of each state
    FrameIndex.stack_slots   the other observations of each state
    gather_states            copies them side by side, and shifts images at random
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.images.frame_index import Environment, FrameIndex, to_device
from td3.algorithm.images.frame_storage import (
    allocate_on_disk,
    observation_capacity,
    observation_widths,
    overwrite_margin,
)
from td3.algorithm.images.random_shift import check_shift, shift_images
from td3.algorithm.replay import Batch
from td3.algorithm.replay_base import Replay, Spans
from td3.algorithm.transitions import Transitions
from td3.files import remove
from td3.layout import Layout, Part, layout_size, parts_of, unstack_layout


class FrameReplay(Replay):
    """Transitions over shared observations.

    A transition can be sampled until an observation of its stack may have been overwritten.

    Args:
        max_size: Number of transitions to keep, per agent.
        layout: What a state consists of.
        environments: Number of environments per agent.
        n_step: Number of rewards in a return.
        discount: Discount between the rewards of a return, one number or one per agent.
        random_shift: Largest shift of an image when sampled, in pixels.
        file: Where to keep images that do not fit into memory.
    """

    stores_frames = True
    per_agent = ("streams", "added", "rows", "images", "numbers", "discount")
    index_tables = ("ends", "links")

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
        super().__init__(max_size, seed=seed, device=device, dtype=dtype)
        self.layout, self.n_step, self.random_shift = layout, n_step, random_shift
        self.file = file
        self.discount = torch.as_tensor(discount, dtype=dtype, device=device).expand(self.agents)
        self.stack, single = unstack_layout(layout)
        self.parts, self.observation_dim = parts_of(single), layout_size(single)
        check_shift(random_shift, self.parts)
        margin = overwrite_margin(layout, environments)
        observations = observation_capacity(self.capacity, margin)
        self.index = FrameIndex(self.added, self.capacity, observations, margin, self.device)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return self.added - self.index.oldest

    def allocate(self, state_dim: int, action_dim: int) -> None:
        # Pages that are never written take no memory.
        if state_dim != layout_size(self.layout):
            raise ValueError(f"state has {state_dim} numbers, not {layout_size(self.layout)}")
        self.state_dim, self.action_dim = state_dim, action_dim
        image_bytes, numbers = observation_widths(self.parts)
        shape = (self.agents, self.index.observation_capacity, image_bytes)
        self.images = (
            allocate_on_disk(self.file, shape)
            if self.file
            else torch.zeros(shape, dtype=torch.uint8, device=self.device)
        )
        own: dict[str, Any] = {"dtype": self.dtype, "device": self.device}
        self.numbers = torch.zeros(*shape[:2], numbers, **own)
        """The parts of observations that are not images."""
        self.rows = torch.zeros(self.agents, self.capacity, action_dim + 2, **own)
        """Action, reward, done."""
        self.index.allocate()

    def store(self, transitions: Transitions, state_dim: int, action_dim: int) -> None:
        if not len(transitions.rows):  # all environments were resetting
            return
        if self.rows is None:
            self.allocate(state_dim, action_dim)
        rows, owners = transitions.rows, transitions.owners.tolist()
        observations: list[NDArray[np.float32]] = []
        for i, agent in enumerate(owners):
            environment = agent, int(transitions.environments[i])
            if transitions.begins[i] or environment not in self.index.current:
                observations += self.begin_episode(environment, rows[i, :state_dim])
            observations.append(rows[i, 2 * state_dim - self.observation_dim : 2 * state_dim])
            self.index.add_transition(environment)
        self.write(np.stack(observations), rows[:, 2 * state_dim :])
        for agent in set(owners):
            self.index.expire(agent)

    def begin_episode(
        self, environment: Environment, state: NDArray[np.float32]
    ) -> list[NDArray[np.float32]]:
        """Split the first state of an episode into its observations.

        The stack usually repeats the first observation, which is stored once.
        """
        stack = state.reshape(self.stack, self.observation_dim)
        first = 0
        while first < self.stack - 1 and (stack[first] == stack[first + 1]).all():
            first += 1
        self.index.add_first_observation(environment)
        for _ in range(first + 1, self.stack):
            self.index.add_next_observation(environment)
        return list(stack[first:])

    def write(self, observations: NDArray[np.float32], rows: NDArray[np.float32]) -> None:
        """Write one step; on a GPU without waiting for it. `rows`: action, reward, done."""
        assert self.rows is not None
        observation_slots, transition_slots = self.index.write()
        for table, is_image in ((self.images, True), (self.numbers, False)):
            parts = [
                observations[:, part.start : part.start + part.size]
                for part in self.parts
                if bool(part.image) == is_image
            ]
            if parts:
                values = np.concatenate(parts, axis=1)
                if is_image:
                    values = values.astype(np.uint8)  # a quarter of the bytes to send
                sent = to_device(values, self.device).to(table.dtype)
                table.flatten(0, 1).index_copy_(0, observation_slots, sent)
        sent = to_device(np.ascontiguousarray(rows), self.device).to(self.dtype)
        self.rows.flatten(0, 1).index_copy_(0, transition_slots, sent)

    def draw(self, batch_size: int) -> NDArray[np.int64]:
        """(agents, batch, 5): the transition, and by how many pixels to shift the images of its
        state (down, right) and of its next state (down, right)."""
        uniform = self.draw_uniform(batch_size)
        drawn = np.zeros((self.agents, batch_size, 5), dtype=np.int64)
        drawn[..., 0] = (uniform * self.sizes[:, None]).astype(np.int64)
        drawn[..., 0] += self.index.oldest[:, None]
        if most := self.random_shift:
            for stream, shifts in zip(self.streams, drawn[..., 1:], strict=True):
                shifts[:] = stream.integers(-most, most + 1, (batch_size, 4))
        return drawn

    def gather(self, indices: NDArray[np.int64], device: torch.device | str | None = None) -> Batch:
        batch = self.assemble(torch.from_numpy(indices).to(self.device))
        return Batch(*(part.to(device or self.device) for part in batch))

    def assemble(self, drawn: Tensor) -> Batch:
        """Rebuild the transitions that `draw` chose; runs on the buffer's device alone."""
        assert self.rows is not None
        transitions = drawn[..., 0]
        steps = self.index.follow(transitions, self.rows, self.discount, self.n_step)
        agents = torch.arange(self.agents, device=self.device)[:, None]
        action = self.rows[agents, transitions % self.capacity, : self.action_dim]
        state = self.gather_states(steps.state_end, drawn[..., 1:3])
        next_state = self.gather_states(steps.next_state_end, drawn[..., 3:5])
        return Batch(state, next_state, action, steps.reward[..., None], steps.done[..., None])

    def gather_states(self, ends: Tensor, shifts: Tensor) -> Tensor:
        """The states that end with these observations, (agents, batch, state_dim).

        Bytes if a state has images only: the encoder converts them, at a quarter of the traffic.
        """
        slots = self.index.stack_slots(ends, self.stack)
        numbers = self.numbers.flatten(0, 1).index_select(0, slots.flatten())
        numbers = numbers.view(*slots.shape, -1)
        pieces, image_start, number_start = [], 0, 0
        for part in self.parts:
            if part.image:
                pieces.append(self.gather_images(part, image_start, slots, shifts))
                image_start += part.size
            else:
                pieces.append(numbers[..., number_start : number_start + part.size])
                number_start += part.size
        together = torch.cat(pieces, dim=-1) if len(pieces) > 1 else pieces[0]
        return together.flatten(2)

    def gather_images(self, part: Part, start: int, slots: Tensor, shifts: Tensor) -> Tensor:
        """One image of each observation, from byte `start` on, shifted."""
        assert part.image
        stored = self.images.flatten(0, 1)[:, start : start + part.size]
        images = stored.index_select(0, slots.flatten()).view(*slots.shape, -1)
        return shift_images(images, part.image, shifts) if self.random_shift else images

    def member(self, agent: int) -> Self:
        one = super().member(agent)
        one.index = self.index.member(agent)
        return one

    def clear(self) -> None:
        self.index.clear()

    def restart(self, agent: int) -> None:
        super().restart(agent)
        self.index.restart(agent)

    @property
    def filled(self) -> bool:
        return int(np.count_nonzero(self.sizes)) == self.agents

    def forget(self, lost: Sequence[Mapping[str, Spans]]) -> None:
        for agent in range(self.agents):
            transition = max(file["rows"]["stop"][agent] for file in lost)
            observation = max(file["links"]["stop"][agent] for file in lost)
            if observation:
                self.index.forget(agent, transition, observation)
        self.index.restore_starts()

    def take_over(self, other: Self, sources: Sequence[int]) -> None:
        super().take_over(other, sources)
        if self.rows is not None:
            self.index.oldest[:] = other.index.oldest[list(sources)]
            self.index.restore_starts()

    def close(self) -> None:
        if self.file:
            remove(self.file)

    @property
    def tables(self) -> dict[str, tuple[Tensor, NDArray[np.int64]]]:
        assert self.rows is not None
        return {
            "rows": (self.rows, self.added),
            "ends": (self.index.ends, self.added),
            "images": (self.images, self.index.observed),
            "numbers": (self.numbers, self.index.observed),
            "links": (self.index.links, self.index.observed),
        }

    def tensors(self) -> dict[str, Tensor]:
        return self.index.tensors()

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.index.restore(tensors)
        if self.rows is not None:
            self.index.restore_starts()
