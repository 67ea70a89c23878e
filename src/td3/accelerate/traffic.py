"""One CUDA graph per step: states and waiting transitions to the device, actions back."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.accelerate.graph import Graph
from td3.accelerate.sending import pinned
from td3.agent import TD3
from td3.replay import ReplayBuffer, row_width

Parts = dict[str, tuple[tuple[int, ...], torch.dtype]]
ALIGNED = 64  # bytes


class Traffic:
    """States and transitions to the device in one copy, actions back.

    A transition waits on the host until the next states are sent, or until it is flushed.
    """

    def __init__(self, agent: TD3, replay: ReplayBuffer, sizes: Tensor, environments: int) -> None:
        self.agent, self.replay, self.sizes = agent, replay, sizes
        width = row_width(agent.state_dim, agent.action_dim)
        parts: Parts = {
            "states": ((environments, agent.state_dim), torch.float32),
            "rows": ((environments, width), torch.float32),
            "places": ((environments,), torch.int64),
            "sizes": ((agent.agents, 1), torch.int64),
        }
        self.here = pinned(packed_size(parts), dtype=torch.uint8)
        self.there = torch.zeros_like(self.here, device=agent.device)
        here = {name: part.numpy() for name, part in unpack(self.here, parts).items()}
        self.states, self.rows = here["states"], here["rows"]
        self.places, self.new_sizes = here["places"], here["sizes"]
        self.given = unpack(self.there, parts)
        self.chosen = pinned(environments, agent.action_dim)
        self.chosen_here = self.chosen.numpy()
        self.graphs: dict[tuple[bool, bool], Graph] = {}
        self.done, self.in_flight, self.waiting = torch.cuda.Event(), False, False
        self.per_agent = environments // agent.agents
        self.next_places = np.arange(self.per_agent)
        self.rings = np.arange(agent.agents)[:, None] * replay.capacity

    def act(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """Actions for these states; meanwhile what waits is stored. Here a step waits."""
        self.await_device()
        self.states[:] = states
        self.launch(act=True, store=self.waiting)
        self.await_device()
        actions: NDArray[np.float32] = self.chosen_here.copy()
        return actions

    def store(self, rows: NDArray[np.float32]) -> None:
        """Keep one row of each environment until the next states go to the device."""
        self.flush()
        self.await_device()
        replay = self.replay
        self.rows[:] = rows
        places = (replay.added[:, None] + self.next_places) % replay.capacity
        places += self.rings
        self.places[:] = places.reshape(-1)
        replay.added += self.per_agent
        self.new_sizes[:] = replay.sizes[:, None]
        self.waiting = True

    def flush(self) -> None:
        """Have stored what waits."""
        if self.waiting:
            self.await_device()
            self.launch(act=False, store=True)

    def launch(self, act: bool, store: bool) -> None:
        """Replay the graph that does this; capture it the first time."""
        if (act, store) not in self.graphs:
            work = self.work(act, store)
            self.graphs[act, store] = Graph(work, warm_up=work)  # harmless if done twice
        self.graphs[act, store].replay()
        self.done.record()
        self.in_flight, self.waiting = True, self.waiting and not store

    def await_device(self) -> None:
        """Until the device has read what it was given, that must not be overwritten."""
        if self.in_flight:
            self.done.synchronize()
            self.in_flight = False

    def work(self, act: bool, store: bool) -> Callable[[], None]:
        """What the graph does."""
        agent, given = self.agent, self.given
        if store and self.replay.rows is None:
            self.replay.allocate(agent.state_dim, agent.action_dim)

        def exchange() -> None:
            self.there.copy_(self.here, non_blocking=True)
            if act:
                states = given["states"].to(agent.dtype).view(agent.agents, -1, agent.state_dim)
                self.chosen.copy_(agent.act(states).flatten(0, 1), non_blocking=True)
            if store:
                assert self.replay.rows is not None
                ring = self.replay.rows.flatten(0, 1)
                ring.index_copy_(0, given["places"], given["rows"].to(ring.dtype))
                self.sizes.copy_(given["sizes"])

        return exchange


def packed_size(parts: Parts) -> int:
    """Bytes that hold all parts, each beginning at a multiple of ALIGNED."""
    return sum(room(shape, dtype) for shape, dtype in parts.values())


def unpack(packed: Tensor, parts: Parts) -> dict[str, Tensor]:
    """Views of the parts."""
    found, start = {}, 0
    for name, (shape, dtype) in parts.items():
        size = int(np.prod(shape)) * dtype.itemsize
        found[name] = packed[start : start + size].view(dtype).view(shape)
        start += room(shape, dtype)
    return found


def room(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    return -(-int(np.prod(shape)) * dtype.itemsize // ALIGNED) * ALIGNED
