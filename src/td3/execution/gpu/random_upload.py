"""Uploads that run while the device computes: random numbers, and batches from the host."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.execution.gpu.random_blocks import RandomBlocks
from td3.machine import usable_cores

AHEAD = 32  # updates per block of random numbers
AGENTS_PER_THREAD = 8  # one thread draws their numbers faster than they are used
TORCH_TYPES = {np.float64: torch.float64, np.float32: torch.float32}
Numbers = dict[str, tuple[tuple[int, ...], type[np.floating]]]


def numbers_per_update(agent: TD3, batch: int) -> Numbers:
    """Shape and type of the random numbers that one update of one agent takes, by name."""
    numbers: Numbers = {
        "uniform": ((batch,), np.float64),
        "normal": ((batch, agent.action_dim), np.float32),
    }
    if agent.own_numbers:
        numbers["own"] = ((agent.own_numbers,), np.float32)
    return numbers


def draw_threads(agents: int) -> int:
    """How many threads draw random numbers."""
    return min(8, usable_cores(), math.ceil(agents / AGENTS_PER_THREAD))


class RandomUpload:
    """Uploads random numbers to the device, in blocks for AHEAD updates.

    The device has memory for two blocks. While it uses one, the next is uploaded on another stream,
    and the block after that is drawn.
    """

    def __init__(self, agent: TD3, replay: ReplayBuffer, batch: int) -> None:
        agents, device = agent.agents, agent.device
        numbers = numbers_per_update(agent, batch)
        self.blocks_on_host = [
            {
                name: pinned_zeros(agents, AHEAD, *shape, dtype=TORCH_TYPES[dtype])
                for name, (shape, dtype) in numbers.items()
            }
            for _ in range(3)
        ]
        self.copied = [torch.cuda.Event() for _ in range(3)]
        self.blocks = RandomBlocks(
            replay.streams,
            agent.smooth,
            [{name: t.numpy() for name, t in block.items()} for block in self.blocks_on_host],
            threads=draw_threads(agents),
            draw_own=agent.draw_own,
        )
        on_device = {"uniform": torch.float64}
        self.given = {
            name: torch.zeros(2, agents, AHEAD, *shape, dtype=on_device.get(name, agent.dtype))
            for name, (shape, _) in numbers.items()
        }
        self.given["position"] = torch.zeros(1, dtype=torch.int64)
        self.given = {name: tensor.to(device) for name, tensor in self.given.items()}
        self.stream = torch.cuda.Stream()
        self.free, self.ready = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
        self.device = device
        self.reset()

    def reset(self) -> None:
        self.used, self.half = AHEAD, 1  # as if the second half were used up
        self.sent: list[int] = []
        """The host buffers of the blocks on the device; the block in use is first."""
        self.given["position"].zero_()

    def advance(self) -> None:
        """Make sure that the numbers of the next update arrive before it runs."""
        if self.used == AHEAD:
            self.switch_block()
        self.used += 1

    def send_ahead(self) -> None:
        """Upload the next block when half of the current one is used; it is drawn by then."""
        if self.used == AHEAD // 2:
            self.send()

    def switch_block(self) -> None:
        """Switch from the used block to the next."""
        if self.sent:
            self.free[self.half].record()
            self.sent.pop(0)
            self.blocks.finish()
        if not self.sent:
            self.send()
        self.half, self.used = 1 - self.half, 0
        self.ready[self.half].wait()

    def send(self) -> None:
        """Upload a block to the other half and start to draw the next."""
        other = 1 - self.half
        drawn = self.blocks.take()
        with torch.cuda.stream(self.stream):
            self.free[other].wait()
            for name, block in self.blocks_on_host[drawn].items():
                copy_async(self.given[name][other], block)
            self.ready[other].record()
            self.copied[drawn].record()
        self.sent.append(drawn)
        self.copied[self.blocks.turn].synchronize()  # no wait, unless the host is far ahead
        self.blocks.begin()

    @property
    def current_uniform(self) -> NDArray[np.float64]:
        """The uniform numbers of the current update, on the host."""
        uniform = self.blocks_on_host[self.sent[0]]["uniform"]
        numbers: NDArray[np.float64] = uniform.numpy()[:, self.used - 1]
        return numbers

    def rewind(self) -> None:
        """Set the streams to the state after the updates so far."""
        torch.cuda.synchronize(self.device)
        self.blocks.rewind(self.used)
        self.reset()


def current_numbers(given: dict[str, Tensor], name: str) -> Tensor:
    """The random numbers of the current update, for each agent."""
    half, place = given["position"] // AHEAD, given["position"] % AHEAD
    return given[name][half, :, place].squeeze(0)


class BatchUpload:
    """Uploads batches from a replay buffer in host memory."""

    def __init__(self, replay: ReplayBuffer, picked: Tensor) -> None:
        self.replay, self.picked = replay, picked
        self.buffers = [pinned_zeros(*picked.shape) for _ in range(2)]
        self.sent = [torch.cuda.Event() for _ in range(2)]
        self.turn = 0

    def __call__(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Send the rows that these numbers choose; returns which."""
        self.turn = 1 - self.turn
        self.sent[self.turn].synchronize()
        rows = self.buffers[self.turn]
        chosen = self.replay.indices(uniform)
        self.replay.gather(chosen, out=rows)
        copy_async(self.picked, rows)
        self.sent[self.turn].record()
        return chosen


def copy_async(target: Tensor, source: Tensor) -> None:
    """Copy from pinned memory without waiting, in the order of the current stream."""
    target.copy_(source, non_blocking=True)


def pinned_zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Host memory from which the device can copy asynchronously."""
    return torch.zeros(shape, dtype=dtype).pin_memory()
