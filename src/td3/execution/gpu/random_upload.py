"""What the device needs from the host during training, sent while it works: numbers and batches."""

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
AGENTS_PER_THREAD = 8  # one thread draws theirs in less time than their updates take


class RandomUpload:
    """Random numbers on their way to the device, where two blocks of AHEAD updates have room.

    While one is used, the next is sent beside the updates, and the one after that is drawn.
    """

    def __init__(self, agent: TD3, replay: ReplayBuffer, batch: int) -> None:
        shape, device = (agent.agents, AHEAD, batch), agent.device
        self.uniform = [pinned_zeros(*shape, dtype=torch.float64) for _ in range(3)]
        self.normal = [pinned_zeros(*shape, agent.action_dim) for _ in range(3)]
        self.copied = [torch.cuda.Event() for _ in range(3)]
        self.blocks = RandomBlocks(
            replay.streams,
            agent.smooth,
            [u.numpy() for u in self.uniform],
            [n.numpy() for n in self.normal],
            threads=min(8, usable_cores(), math.ceil(agent.agents / AGENTS_PER_THREAD)),
        )
        self.given = {
            "uniform": torch.zeros(2, *shape, dtype=torch.float64, device=device),
            "normal": torch.zeros(2, *shape, agent.action_dim, dtype=agent.dtype, device=device),
            "position": torch.zeros(1, dtype=torch.int64, device=device),
        }
        self.stream = torch.cuda.Stream()
        self.free, self.ready = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
        self.device = device
        self.reset()

    def reset(self) -> None:
        self.used, self.half = AHEAD, 1  # as if the second half had just been used up
        self.sent: list[int] = []
        """Which buffers the blocks on the device came from, the one in use first."""
        self.given["position"].zero_()

    def advance(self) -> None:
        """See to it that the numbers of the next update are there when it runs."""
        if self.used == AHEAD:
            self.switch_block()
        self.used += 1

    def send_ahead(self) -> None:
        """Half-way through a block, send the next, which has been drawn by now."""
        if self.used == AHEAD // 2:
            self.send()

    def switch_block(self) -> None:
        """Leave the block that is used up for the next."""
        if self.sent:
            self.free[self.half].record()
            self.sent.pop(0)
            self.blocks.finish()
        if not self.sent:
            self.send()
        self.half, self.used = 1 - self.half, 0
        self.ready[self.half].wait()

    def send(self) -> None:
        """Send a block to the other half, and begin to draw the next."""
        other = 1 - self.half
        drawn = self.blocks.take()
        with torch.cuda.stream(self.stream):
            self.free[other].wait()
            copy_async(self.given["uniform"][other], self.uniform[drawn])
            copy_async(self.given["normal"][other], self.normal[drawn])
            self.ready[other].record()
            self.copied[drawn].record()
        self.sent.append(drawn)
        self.copied[self.blocks.turn].synchronize()  # long ago, unless the host ran far ahead
        self.blocks.begin()

    @property
    def current_uniform(self) -> NDArray[np.float64]:
        """The numbers that pick the batch at hand, on the host."""
        numbers: NDArray[np.float64] = self.uniform[self.sent[0]].numpy()[:, self.used - 1]
        return numbers

    def rewind(self) -> None:
        """Put the streams to where the updates so far have left them."""
        torch.cuda.synchronize(self.device)
        self.blocks.rewind(self.used)
        self.reset()


def current_numbers(given: dict[str, Tensor], name: str) -> Tensor:
    """The random numbers of the update at hand, for each agent."""
    half, place = given["position"] // AHEAD, given["position"] % AHEAD
    return given[name][half, :, place].squeeze(0)


class BatchUpload:
    """Batches from a ring that stayed in host memory."""

    def __init__(self, replay: ReplayBuffer, picked: Tensor) -> None:
        self.replay, self.picked = replay, picked
        self.buffers = [pinned_zeros(*picked.shape) for _ in range(2)]
        self.sent = [torch.cuda.Event() for _ in range(2)]
        self.turn = 0

    def __call__(self, uniform: NDArray[np.float64]) -> None:
        self.turn = 1 - self.turn
        self.sent[self.turn].synchronize()
        rows = self.replay.gather_rows(self.replay.places(uniform), out=self.buffers[self.turn])
        copy_async(self.picked, rows)
        self.sent[self.turn].record()


def copy_async(target: Tensor, source: Tensor) -> None:
    """Have the device copy from pinned memory when it gets there."""
    target.copy_(source, non_blocking=True)


def pinned_zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype).pin_memory()
