"""Transfers of each step: states to the device, actions back, transitions to the replay buffer.

Acting has its own CUDA stream and waits only for updates of the actor. An update that does not
change the actor continues meanwhile. Transitions are stored after the update that is running.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer, row_width
from td3.execution.gpu.graph import Graph
from td3.execution.gpu.random_upload import pinned_zeros

Parts = dict[str, tuple[tuple[int, ...], torch.dtype]]
ALIGNED = 64  # bytes


class GpuActing:
    """Upload states, compute actions and download them, as one graph."""

    def __init__(self, agent: TD3, environments: int, moved: torch.cuda.Event) -> None:
        """`moved`: an event that is recorded after each update of the actors."""
        self.agent, self.environments, self.moved = agent, environments, moved
        self.states, self.chosen = (
            pinned_zeros(environments, width) for width in (agent.state_dim, agent.action_dim)
        )
        self.states_here, self.chosen_here = self.states.numpy(), self.chosen.numpy()
        self.states_there = torch.zeros_like(self.states, device=agent.device)
        self.done = torch.cuda.Event()
        moved.record()
        self.stream = torch.cuda.Stream(priority=-1)  # short work that the environments wait for
        self.main_stream = torch.cuda.current_stream()
        self.graph = Graph(self.act, warm_up=self.act, stream=self.stream)

    def act(self) -> None:
        agent = self.agent
        self.states_there.copy_(self.states, non_blocking=True)
        states = self.states_there.to(agent.dtype).view(agent.agents, -1, agent.state_dim)
        self.chosen.copy_(agent.act(states).flatten(0, 1), non_blocking=True)

    def begin(self, states: NDArray[np.float32]) -> None:
        """Start to compute actions for these states."""
        if self.agent.normalizer:  # it changes in every step
            self.moved.record()
        self.states_here[:] = states
        torch.cuda.set_stream(self.stream)  # several times faster than a with statement
        try:
            self.moved.wait()
            self.graph.replay()
            self.done.record()
        finally:
            torch.cuda.set_stream(self.main_stream)

    def finish(self) -> NDArray[np.float32]:
        """Wait for the actions; the only place where a step waits."""
        self.done.synchronize()
        actions: NDArray[np.float32] = self.chosen_here.copy()
        return actions


class TransitionUpload:
    """Upload one transition of each environment to the replay buffer on the device."""

    def __init__(self, agent: TD3, replay: ReplayBuffer, sizes: Tensor, environments: int) -> None:
        self.replay, self.environments = replay, environments
        self.per_agent = environments // agent.agents
        self.next_places = np.arange(self.per_agent)
        self.rings = np.arange(agent.agents)[:, None] * replay.capacity
        if replay.rows is None:
            replay.allocate(agent.state_dim, agent.action_dim)
        self.slots = [TransitionSlot(agent, replay, sizes, environments) for _ in range(2)]

    def __call__(self, rows: NDArray[np.float32]) -> None:
        replay, slot = self.replay, self.slots[0]
        self.slots.reverse()
        places = (replay.added[:, None] + self.next_places) % replay.capacity
        places += self.rings
        replay.added += self.per_agent
        slot.send(rows, places.reshape(-1), replay.sizes[:, None])


class TransitionSlot:
    """Pinned memory and a graph for the transitions of one step."""

    def __init__(self, agent: TD3, replay: ReplayBuffer, sizes: Tensor, environments: int) -> None:
        parts: Parts = {
            "rows": ((environments, row_width(agent.state_dim, agent.action_dim)), torch.float32),
            "places": ((environments,), torch.int64),
            "sizes": ((agent.agents, 1), torch.int64),
        }
        packed = pinned_zeros(packed_size(parts), dtype=torch.uint8)
        there = torch.zeros_like(packed, device=agent.device)
        here = {name: part.numpy() for name, part in unpack(packed, parts).items()}
        self.rows, self.places, self.sizes = here["rows"], here["places"], here["sizes"]
        self.arrived = torch.cuda.Event()
        self.deliver = make_delivery(packed, there, unpack(there, parts), replay, sizes)
        self.graph: Graph | None = None

    def send(
        self, rows: NDArray[np.float32], places: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> None:
        self.arrived.synchronize()  # no wait, unless the host is two steps ahead
        self.rows[:], self.places[:], self.sizes[:] = rows, places, sizes
        if self.graph is None:
            self.graph = Graph(self.deliver, warm_up=self.deliver)  # storing twice does no harm
        self.graph.replay()
        self.arrived.record()


def make_delivery(
    packed: Tensor, there: Tensor, given: dict[str, Tensor], replay: ReplayBuffer, sizes: Tensor
) -> Callable[[], None]:
    """A function that uploads everything in one copy, then moves each row to its place."""
    assert replay.rows is not None
    ring = replay.rows.flatten(0, 1)

    def deliver() -> None:
        there.copy_(packed, non_blocking=True)
        ring.index_copy_(0, given["places"], given["rows"].to(ring.dtype))
        replay.note_new(given["places"])
        sizes.copy_(given["sizes"])

    return deliver


def packed_size(parts: Parts) -> int:
    """Bytes for all parts, each aligned to a multiple of ALIGNED."""
    return sum(padded_bytes(shape, dtype) for shape, dtype in parts.values())


def unpack(packed: Tensor, parts: Parts) -> dict[str, Tensor]:
    """Views of the parts in one packed tensor."""
    found, start = {}, 0
    for name, (shape, dtype) in parts.items():
        size = int(np.prod(shape)) * dtype.itemsize
        found[name] = packed[start : start + size].view(dtype).view(shape)
        start += padded_bytes(shape, dtype)
    return found


def padded_bytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    return -(-int(np.prod(shape)) * dtype.itemsize // ALIGNED) * ALIGNED
