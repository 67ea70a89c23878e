"""Random numbers for many updates, drawn ahead by other threads while the last are being used."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.seeding import Stream, restore_stream, stream_state


class Draws:
    """Uniform numbers for step 4 and normal ones for step 6, in blocks of several updates.

    One block is what as many single draws would give: the streams do not notice.
    """

    def __init__(
        self,
        replay: Sequence[Stream],
        smooth: Sequence[Stream],
        uniform: Sequence[NDArray[np.float64]],
        normal: Sequence[NDArray[np.float32]],
        threads: int,
    ) -> None:
        """`uniform` and `normal`: buffers to fill in turn, (agents, updates, …) each."""
        self.streams = [*replay, *smooth]
        self.agents = len(replay)
        self.buffers = list(zip(uniform, normal, strict=True))
        self.pool = ThreadPoolExecutor(threads, "td3-draws")
        self.turn = 0
        self.pending: list[Future[None]] = []
        self.before: list[dict[str, Any]] = []
        """Where the streams stood before the block in use."""
        self.next_before: list[dict[str, Any]] = []

    def block(self) -> int:
        """Wait for the next block; returns which buffer holds it."""
        if not self.pending:
            self.begin()
        for drawn in self.pending:
            drawn.result()
        ready, self.before = self.turn, self.next_before
        self.turn = (self.turn + 1) % len(self.buffers)
        self.pending = []
        return ready

    def begin(self) -> None:
        """Start to draw the next block, into the buffer whose turn it is."""
        self.next_before = [stream_state(stream) for stream in self.streams]
        uniform, normal = self.buffers[self.turn]
        self.pending = [
            self.pool.submit(self.draw, agent, uniform[agent], normal[agent])
            for agent in range(self.agents)
        ]

    def draw(self, agent: int, uniform: NDArray[np.float64], normal: NDArray[np.float32]) -> None:
        self.streams[agent].random(out=uniform)
        self.streams[self.agents + agent].standard_normal(out=normal, dtype=np.float32)

    def rewind(self, used: int) -> None:
        """Put the streams to where `used` updates of the block in use have left them."""
        wait(self.pending)
        self.pending = []
        for stream, state in zip(self.streams, self.before, strict=False):
            restore_stream(stream, state)
        if self.before:
            uniform, normal = self.buffers[self.turn]
            for agent in range(self.agents):
                self.draw(agent, uniform[agent, :used], normal[agent, :used])
        self.before = []

    def close(self) -> None:
        self.pool.shutdown()
