"""Random numbers for many updates, drawn ahead by threads while the last block is used."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.seeding import Stream, restore_stream, stream_state

DrawOwn = Callable[[Stream, NDArray[np.float32]], None]


class RandomBlocks:
    """Uniform numbers for step 4 and normal numbers for step 6, in blocks for several updates.

    A variant's own numbers come before the normal ones. A block contains the same numbers as single
    draws would, in the same order of each stream.
    """

    def __init__(
        self,
        replay: Sequence[Stream],
        smooth: Sequence[Stream],
        buffers: Sequence[Mapping[str, NDArray[Any]]],
        threads: int,
        draw_own: DrawOwn,
    ) -> None:
        """`buffers`: arrays `uniform`, `normal` and perhaps `own` to fill in turn.

        Each is (agents, updates, …). `draw_own` fills one entry of `own`.
        """
        self.streams = [*replay, *smooth]
        self.agents = len(replay)
        self.shares = [range(first, self.agents, threads) for first in range(threads)]
        """The agents of each thread."""
        self.buffers, self.draw_own = buffers, draw_own
        self.pool = ThreadPoolExecutor(threads, "td3-draws")
        self.turn = 0
        """The buffer of the block that is drawn now or next."""
        self.pending: list[Future[None]] = []
        self.before: list[dict[str, Any]] = []
        """States of the streams before the block that is drawn now."""
        self.taken: list[list[dict[str, Any]]] = []
        """States of the streams before each block that was taken and is not finished."""

    def begin(self) -> None:
        """Start to draw the next block."""
        self.before = [{} for _ in self.streams]
        buffers = self.buffers[self.turn]
        self.pending = [
            self.pool.submit(self.draw_share, share, buffers, self.before) for share in self.shares
        ]

    def draw_share(
        self,
        agents: range,
        buffers: Mapping[str, NDArray[Any]],
        before: list[dict[str, Any]],
    ) -> None:
        for agent in agents:
            for stream in (agent, self.agents + agent):
                before[stream] = stream_state(self.streams[stream])
            self.draw(agent, {name: buffer[agent] for name, buffer in buffers.items()})

    def take(self) -> int:
        """Wait for the next block and return the index of its buffer."""
        if not self.pending:
            self.begin()
        for drawn in self.pending:
            drawn.result()
        ready, self.pending = self.turn, []
        self.taken.append(self.before)
        self.turn = (self.turn + 1) % len(self.buffers)
        return ready

    def finish(self) -> None:
        """Forget the oldest block that was taken: it is used up."""
        self.taken.pop(0)

    def rewind(self, used: int) -> None:
        """Set the streams to the state after `used` updates of the oldest block taken."""
        wait(self.pending)
        drawn = [*self.taken, *([self.before] if self.pending else [])]
        self.pending = []
        if drawn:
            for stream, state in zip(self.streams, drawn[0], strict=True):
                restore_stream(stream, state)
        if self.taken:
            buffers = self.buffers[self.turn].items()
            for agent in range(self.agents):
                self.draw(agent, {name: buffer[agent, :used] for name, buffer in buffers})
        self.taken = []

    def draw(self, agent: int, block: Mapping[str, NDArray[Any]]) -> None:
        """Fill the block of one agent, whose arrays are (updates, …)."""
        self.streams[agent].random(out=block["uniform"])
        smooth = self.streams[self.agents + agent]
        if "own" not in block:
            smooth.standard_normal(out=block["normal"], dtype=np.float32)
            return
        for own, normal in zip(block["own"], block["normal"], strict=True):
            self.draw_own(smooth, own)
            smooth.standard_normal(out=normal, dtype=np.float32)

    def close(self) -> None:
        self.pool.shutdown()
