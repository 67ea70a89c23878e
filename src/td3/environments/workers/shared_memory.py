"""A block of shared memory through which the learner and its workers exchange steps.

A step takes microseconds, so its numbers lie in shared memory. A sequence number announces each
command, and every worker has a mailbox in the block where it reports the number that it has done:

    learner                                         worker
    ------------------------------------------      ------------------------------------------
    write actions, command and step time            WAIT until the sequence number is the next one
    increase the sequence number          ------->  run the command
    do other work                                   write the results
    WAIT until DONE is the sequence number <------  write FAILED, set DONE to the sequence number
    read the results                                (send an answer over the connection)

To WAIT is to spin on the counter for 2 ms; not at all if learner and workers are more processes
than cores, because a process that spins keeps another one from working. A side that waits longer
sets a flag (SLEEPING, or SLEEPING_FOR in the learner) and blocks on the connection until the other
side, which sees the flag, sends a wake-up. Answers and arguments that do not fit into the block
follow the counter that announces them, as messages over the connection.
"""

import contextlib
import math
import mmap
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from enum import IntEnum
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.environments.workers.messages import Countdown, read, wake

# A longer spin would waste cores while the learner evaluates. With a shorter one, workers would
# fall asleep whenever a step on a GPU takes longer, and waking ten of them takes longer still.
SPIN_SECONDS = 2e-3
RECHECK_SECONDS = 20e-3  # in case one side set its flag just after the other side looked
# x86 makes stores visible in their order: a side that sees the counter sees the numbers too. Other
# processors need a memory barrier, which Python lacks. There every counter comes with a wake-up.
ORDERED_STORES = platform.machine().lower() in ("x86_64", "amd64")


class Command(IntEnum):
    """What the learner can ask its workers to do."""

    STEP = 0
    SEED = 1
    SNAPSHOT = 2
    RESTORE = 3
    STEP_WITH_INFO = 4
    """Like STEP; a worker whose episodes ended answers with their last `info`."""


# The counters. Each side writes to its own cache lines of 8 numbers, to avoid false sharing:
# two lines of the learner (SLEEPING_FOR holds a worker's number + 1), then a mailbox per worker.
LINE = 8
SEQUENCE, COMMAND, STEP_TIME, SLEEPING_FOR = 0, 1, 2, LINE
DONE, SLEEPING, FAILED = 0, 1, 2


def mailbox(worker: int) -> int:
    """Return the position of a worker's first counter."""
    return (2 + worker) * LINE


class SharedBlock:
    """The arrays that the learner and its workers share, with one row per environment."""

    def __init__(
        self,
        descriptor: int,
        environments: int,
        workers: int,
        state_dim: int,
        action_dim: int,
        ordered: bool,
        numbers: int = 0,
        spin_seconds: float = SPIN_SECONDS,
    ) -> None:
        arrays = map_arrays(
            descriptor,
            {
                "counters": (np.int64, ((2 + workers) * LINE,)),
                "actions": (np.float32, (environments, action_dim)),
                "next_states": (np.float32, (environments, state_dim)),
                "states": (np.float32, (environments, state_dim)),
                "rewards": (np.float64, (environments,)),
                "terminated": (np.bool_, (environments,)),
                "truncated": (np.bool_, (environments,)),
                "needs_seed": (np.bool_, (environments,)),
                "seeds": (np.int64, (environments,)),
                "numbers": (np.float64, (environments, numbers)),
            },
        )
        self.actions, self.next_states = arrays["actions"], arrays["next_states"]
        self.states, self.rewards = arrays["states"], arrays["rewards"]
        self.terminated, self.truncated = arrays["terminated"], arrays["truncated"]
        self.needs_seed, self.seeds = arrays["needs_seed"], arrays["seeds"]
        """Which environments are new objects that wait for a seed, and the seeds."""
        self.numbers = arrays["numbers"]
        """The numbers of `environment.info`, written when an episode ends; NaN: not reported."""
        self.counters = memoryview(arrays["counters"].data)  # faster than NumPy for one number
        self.ordered, self.sequence, self.spin_seconds = ordered, 0, spin_seconds

    def send_command(self, command: Command, time: int, connections: Sequence[Connection]) -> None:
        """Learner: give all workers a command; wake those that sleep."""
        counters = self.counters
        self.sequence += 1
        counters[COMMAND], counters[STEP_TIME] = command, time
        counters[SEQUENCE] = self.sequence
        for worker, connection in enumerate(connections):
            if not self.ordered or counters[mailbox(worker) + SLEEPING]:
                with contextlib.suppress(ConnectionError):  # `wait_for_worker` reports it
                    wake(connection)

    def wait_for_command(self, worker: int, connection: Connection) -> tuple[Command, int]:
        """Worker: return the next command and the step that it belongs to."""
        counters = self.counters
        self.sequence += 1
        if not self.ordered:
            read(connection)
        elif not self.spin(SEQUENCE):
            counters[mailbox(worker) + SLEEPING] = 1
            self.sleep(SEQUENCE, connection)
            counters[mailbox(worker) + SLEEPING] = 0
        return Command(counters[COMMAND]), counters[STEP_TIME]

    def report(self, worker: int, connection: Connection, failed: bool) -> None:
        """Worker: the command is done."""
        counters = self.counters
        counters[mailbox(worker) + FAILED] = failed
        counters[mailbox(worker) + DONE] = self.sequence
        if not self.ordered or counters[SLEEPING_FOR] == worker + 1:
            wake(connection)

    def wait_for_worker(
        self, worker: int, connection: Connection, timeout: float = math.inf
    ) -> bool:
        """Learner: wait until this worker has done the command; return whether it failed.

        Raises:
            TimeoutError: It took longer than `timeout` seconds.
            EOFError: The worker has ended.
        """
        counters, done = self.counters, mailbox(worker) + DONE
        if not self.ordered:
            countdown = Countdown(timeout)
            while not connection.poll(RECHECK_SECONDS):
                countdown.check()
            read(connection)
        elif not self.spin(done):
            counters[SLEEPING_FOR] = worker + 1
            self.sleep(done, connection, timeout)
            counters[SLEEPING_FOR] = 0
        return bool(counters[mailbox(worker) + FAILED])

    def spin(self, position: int) -> bool:
        """Return whether a counter reaches the sequence number within `spin_seconds`."""
        counters, sequence = self.counters, self.sequence
        if counters[position] == sequence:
            return True
        limit = time.perf_counter() + self.spin_seconds
        while time.perf_counter() < limit:
            os.sched_yield()  # let others work if there are more processes than cores
            if counters[position] == sequence:
                return True
        return False

    def sleep(self, position: int, connection: Connection, timeout: float = math.inf) -> None:
        """Block on the connection until a counter reaches the sequence number."""
        counters, countdown = self.counters, Countdown(timeout)
        while counters[position] != self.sequence:
            # Messages follow their counter: what came before the counter is an old wake-up.
            if connection.poll(RECHECK_SECONDS) and counters[position] != self.sequence:
                read(connection)
            countdown.check()


def map_arrays(
    descriptor: int, sections: dict[str, tuple[type, tuple[int, ...]]]
) -> dict[str, NDArray[Any]]:
    """Map a shared file as arrays, each of which starts on a cache line of its own."""
    starts, size = {}, 0
    for name, (kind, shape) in sections.items():
        starts[name] = size
        size += -(-int(np.prod(shape)) * np.dtype(kind).itemsize // 64) * 64
    if os.fstat(descriptor).st_size < size:
        os.ftruncate(descriptor, size)
    memory = mmap.mmap(descriptor, size)
    return {
        name: np.frombuffer(memory, kind, int(np.prod(shape)), starts[name]).reshape(shape)
        for name, (kind, shape) in sections.items()
    }


def create_shared_file() -> int:
    """Return a descriptor of memory that other processes can map; it vanishes with them."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("td3")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
