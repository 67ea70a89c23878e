"""Between the learner's process and a worker's: shared memory, and a channel with a bell.

A step costs microseconds, so its numbers are handed over in shared memory and both sides watch
counters in it. Who waits for longer lays itself to rest on the channel, where the other rings.
"""

import contextlib
import math
import mmap
import os
import platform
import select
import socket
import struct
import tempfile
import time
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

# For so long a counter is watched. More would burn cores while the learner evaluates; less would
# put workers to sleep when a step on a GPU takes longer once, and waking ten takes longer still.
WATCH_SECONDS = 2e-3
BACKSTOP_MILLISECONDS = 20  # for the unlikely case that sleeper and ringer just missed each other
# x86 shows stores to other cores in their order: who sees the counter sees the numbers. Other
# processors need a barrier, which Python lacks and a channel has.
ORDERED = platform.machine().lower() in ("x86_64", "amd64")


class Order(IntEnum):
    """What the learner can ask of its workers."""

    STEP = 0
    START = 1
    SNAPSHOT = 2
    RESTORE = 3


# The shared counters. Each side writes into cache lines of its own, lest they fight over them:
# the learner's turn, the order and its step; whom the learner rests for (its number + 1);
# then for each worker the turn that it has done, whether it rests, and whether it has failed.
LINE = 8
TURN, ORDER, STEP_TIME, AWAITED = 0, 1, 2, LINE
RESTS, FAILED = 1, 2


def done(worker: int) -> int:
    return (2 + worker) * LINE


class Board:
    """The numbers that learner and workers share, one row per environment."""

    def __init__(
        self,
        descriptor: int,
        environments: int,
        workers: int,
        state_dim: int,
        action_dim: int,
        ordered: bool,
    ) -> None:
        sections: dict[str, tuple[type, tuple[int, ...]]] = {
            "counters": (np.int64, ((2 + workers) * LINE,)),
            "actions": (np.float32, (environments, action_dim)),
            "next_states": (np.float32, (environments, state_dim)),
            "states": (np.float32, (environments, state_dim)),
            "rewards": (np.float64, (environments,)),
            "terminated": (np.bool_, (environments,)),
            "truncated": (np.bool_, (environments,)),
            "waiting": (np.bool_, (environments,)),
            "seeds": (np.int64, (environments,)),
        }
        places, size = {}, 0
        for name, (kind, shape) in sections.items():
            places[name] = size
            size += -(-int(np.prod(shape)) * np.dtype(kind).itemsize // 64) * 64
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)
        memory = mmap.mmap(descriptor, size)
        arrays: dict[str, NDArray[Any]] = {
            name: np.frombuffer(memory, kind, int(np.prod(shape)), places[name]).reshape(shape)
            for name, (kind, shape) in sections.items()
        }
        self.actions, self.next_states = arrays["actions"], arrays["next_states"]
        self.states, self.rewards = arrays["states"], arrays["rewards"]
        self.terminated, self.truncated = arrays["terminated"], arrays["truncated"]
        self.waiting, self.seeds = arrays["waiting"], arrays["seeds"]
        """Environments whose object is new and waits for a seed; the seeds."""
        self.counters = memoryview(arrays["counters"].data)  # faster than NumPy for one number
        self.ordered, self.turn = ordered, 0

    def order(self, what: Order, time: int, channels: "list[Channel]") -> None:
        """Learner: tell all workers at once; those that rest are woken."""
        counters = self.counters
        self.turn += 1
        counters[ORDER], counters[STEP_TIME] = what, time
        counters[TURN] = self.turn
        for worker, channel in enumerate(channels):
            if not self.ordered or counters[done(worker) + RESTS]:
                with contextlib.suppress(ConnectionError):  # dead, as `await_worker` will find
                    channel.ring()

    def await_order(self, worker: int, channel: "Channel") -> tuple[Order, int]:
        """Worker: wait for the next order, and for which step it is."""
        counters = self.counters
        self.turn += 1
        if not self.ordered:
            channel.hear()
        elif not self.watch(TURN):
            counters[done(worker) + RESTS] = 1
            while counters[TURN] != self.turn:
                channel.rest()
            counters[done(worker) + RESTS] = 0
        return Order(counters[ORDER]), counters[STEP_TIME]

    def report(self, worker: int, channel: "Channel", failed: bool) -> None:
        """Worker: the order is carried out."""
        counters = self.counters
        counters[done(worker) + FAILED] = failed
        counters[done(worker)] = self.turn
        if not self.ordered or counters[AWAITED] == worker + 1:
            channel.ring()

    def await_worker(self, worker: int, channel: "Channel", patience: float = math.inf) -> bool:
        """Learner: wait until this worker has carried out the order; says whether it failed.
        TimeoutError where that takes longer than `patience` seconds."""
        counters = self.counters
        if not self.ordered:
            left = Patience(patience)
            while not channel.waiting():
                left.check()
            channel.hear()
        elif not self.watch(done(worker)):
            left = Patience(patience)
            counters[AWAITED] = worker + 1
            while counters[done(worker)] != self.turn:
                channel.rest()
                left.check()
            counters[AWAITED] = 0
        return bool(counters[done(worker) + FAILED])

    def watch(self, place: int) -> bool:
        """Whether a counter gets to this turn within a short while."""
        counters, turn = self.counters, self.turn
        if counters[place] == turn:
            return True
        limit = time.perf_counter() + WATCH_SECONDS
        while time.perf_counter() < limit:
            os.sched_yield()  # more processes than cores must not keep each other from working
            if counters[place] == turn:
                return True
        return False


class Patience:
    """So many seconds of waiting; while all processes were stopped (Ctrl-Z), nobody waited."""

    def __init__(self, seconds: float) -> None:
        self.left, self.then = seconds, time.monotonic()

    def check(self) -> None:
        now = time.monotonic()
        self.left -= min(now - self.then, 1.0)
        self.then = now
        if self.left < 0:
            raise TimeoutError


def shared_file() -> int:
    """A descriptor of memory that other processes can map, and that vanishes with them."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("td3")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Channel:
    """One end of a socket: messages, and a bell, which is an empty message.

    A message follows the counter that announces it, so what lies there unannounced should be a
    bell; a message that overtook its counter is kept for whoever will receive it.
    """

    HEAD = struct.Struct("=Q")

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.overtook = 0
        """The size of a message whose head was heard before anyone asked for it."""
        self.readable = select.poll()
        self.readable.register(end, select.POLLIN)

    def ring(self) -> None:
        self.end.sendall(self.HEAD.pack(0))

    def send(self, message: bytes) -> None:
        self.end.sendall(self.HEAD.pack(len(message)) + message)

    def receive(self, patience: float = math.inf) -> bytes:
        """The next message; EOFError where the other side is gone, TimeoutError where it does not
        even ring for longer than `patience` seconds."""
        size, self.overtook = self.overtook, 0
        while not size:
            left = Patience(patience)
            while not self.readable.poll(1000 * min(patience, 1.0)):
                left.check()
            size = self.hear()
        return self.read(size)

    def hear(self) -> int:
        """The size of the next message, 0 for a bell."""
        return int(self.HEAD.unpack(self.read(self.HEAD.size))[0])

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.end.recv(min(size - len(data), 1 << 20))
            except ConnectionError:
                part = b""
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def rest(self) -> None:
        """Sleep until the bell rings, or for a moment."""
        if not self.overtook and self.waiting():
            self.overtook = self.hear()

    def waiting(self) -> bool:
        """Whether there is something to hear, now or within a moment."""
        return bool(self.readable.poll(BACKSTOP_MILLISECONDS))
