"""Environments in worker processes: the same transitions as `InProcess`, on more cores.

Each worker holds several replayable environments and steps them one after the other. Seeds are
drawn here, from the agents' streams and in the order of the environments. So a run has the same
numbers and the same checkpoints however many workers there are.
"""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from td3.config import EnvironmentConfig
from td3.environments.base import Arrays, Environments, Steps, count_environments, with_location
from td3.environments.environment import Environment
from td3.environments.episode_info import EpisodeInfo
from td3.environments.replayable import ReplayableEnvironment
from td3.environments.task import Task
from td3.environments.workers import shared_memory
from td3.environments.workers.messages import receive
from td3.environments.workers.processes import (
    Link,
    RemoteTraceback,
    portable_spec,
    start_patience,
    start_process,
    stop_all,
)
from td3.environments.workers.shared_memory import Command, SharedBlock
from td3.errors import RunStopped
from td3.machine import usable_cores
from td3.seeding import Stream


class WorkerPool(Environments):
    """Environments in `count` worker processes."""

    def __init__(
        self,
        config: EnvironmentConfig,
        streams: list[Stream],
        remake_every: int,
        count: int,
        task: Task | None = None,
    ) -> None:
        """Make one environment per stream. Without `task`, make one more here to read it."""
        self.streams, self.time, self.is_stepping = streams, 0, False
        self.timeout = config.patience or math.inf
        self.task = task or read_task(config)
        self.names = config.info
        sizes = (len(streams), count, self.task.state_dim, self.task.action_dim)
        spin = shared_memory.SPIN_SECONDS if count < usable_cores() else 0.0
        shape = (*sizes, shared_memory.ORDERED_STORES, len(self.names), spin)
        torch = sys.modules.get("torch")
        facts: dict[str, Any] = {
            "shape": shape,
            "config": dataclasses.asdict(config),
            "spec": portable_spec(config.id),
            "remake_every": remake_every,
            "threads": torch.get_num_threads() if torch else 1,
        }
        parts = np.array_split(np.arange(len(streams)), count)
        self.indices = [range(int(part[0]), int(part[-1]) + 1) for part in parts]
        self.links: list[Link] = []
        memory = shared_memory.create_shared_file()
        try:
            self.block = SharedBlock(memory, *shape)
            for number, indices in enumerate(self.indices):
                module, name = "td3.environments.workers.worker", worker_name(number, indices)
                self.links.append(start_process(module, name, self.timeout, memory))
                own = {"worker": number, "indices": [indices.start, indices.stop]}
                self.send_message(self.links[-1], json.dumps(facts | own).encode())
            self.connections = [link.connection for link in self.links]
            self.block.needs_seed[:] = True
            self.seed_new(start_patience(self.timeout))
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)
        self.states = self.block.states.copy()
        processes = f"{count} worker process{'es' if count > 1 else ''}"
        self.description = f"{count_environments(len(streams))} in {processes}"

    def send(self, actions: NDArray[np.float32], time: int) -> None:
        self.time = time
        self.block.actions[:] = actions
        self.sends_info = self.keep_info
        self.command(Command.STEP_WITH_INFO if self.sends_info else Command.STEP)
        self.is_stepping = True

    def receive(self) -> Steps:
        block, self.is_stepping = self.block, False
        self.wait(self.timeout)
        infos = self.read_infos()
        if np.count_nonzero(block.needs_seed):
            self.seed_new()
        self.states = block.states.copy()
        return Steps(
            block.next_states.copy(),
            block.rewards.copy(),
            block.terminated.copy(),
            block.truncated.copy(),
            infos=infos,
        )

    def read_infos(self) -> dict[int, EpisodeInfo] | None:
        """Return what the environments reported whose episode ended; None if none did."""
        over = self.block.terminated | self.block.truncated
        if not np.count_nonzero(over):
            return None
        ended = np.flatnonzero(over).tolist()
        finals: dict[int, dict[str, Any]] = {}
        for link, indices in zip(self.links, self.indices, strict=True):
            if self.sends_info and any(index in indices for index in ended):
                answer = json.loads(self.receive_message(link))
                finals |= {int(index): final for index, final in answer.items()}
        found = {}
        for index in ended:
            row = zip(self.names, self.block.numbers[index].tolist(), strict=True)
            numbers = {name: value for name, value in row if not math.isnan(value)}
            found[index] = EpisodeInfo(numbers, finals.get(index, {}))
        return found

    def seed_new(self, timeout: float | None = None) -> None:
        """Seed every new object, in the order in which `InProcess` would."""
        for index in np.flatnonzero(self.block.needs_seed):
            self.block.seeds[index] = int(self.streams[index].integers(2**31))
        self.command(Command.SEED)
        self.wait(timeout or self.timeout)

    def begin_again(self, indices: Sequence[int], time: int) -> None:
        self.time = time
        self.block.needs_seed[list(indices)] = True
        self.seed_new()
        self.states = self.block.states.copy()

    def snapshot(self) -> Arrays:
        self.command(Command.SNAPSHOT)
        self.wait()
        arrays: Arrays = {}
        for link in self.links:
            arrays |= load(self.receive_message(link))
        return in_order(arrays, range(len(self.streams)))

    def restore(self, arrays: Arrays) -> tuple[list[int], str]:
        self.command(Command.RESTORE)
        for link, indices in zip(self.links, self.indices, strict=True):
            self.send_message(link, save(in_order(arrays, indices)))
        self.wait()
        diverged = np.flatnonzero(self.block.needs_seed).tolist()
        if diverged:
            self.seed_new()
        self.states = self.block.states.copy()
        return diverged, self.explain_restart(diverged)

    def command(self, command: Command) -> None:
        if self.is_stepping:
            raise RuntimeError("a step has been sent; receive it first")
        self.block.send_command(command, self.time, self.connections)

    def wait(self, timeout: float = math.inf) -> None:
        """Wait until all workers have done the command; raise the first failure."""
        failed = []
        for number, link in enumerate(self.links):
            try:
                if self.block.wait_for_worker(number, link.connection, timeout):
                    failed.append(link)
            except EOFError:
                raise link.exit_error() from None
            except TimeoutError:
                raise link.timeout_error(timeout) from None
        if failed:
            facts = [json.loads(self.receive_message(link)) for link in failed]
            raise self.failure(failed[0], facts[0]) from RemoteTraceback(facts[0]["traceback"])

    def send_message(self, link: Link, message: bytes) -> None:
        try:
            link.connection.send_bytes(message)
        except ConnectionError:
            raise link.exit_error() from None
        except BlockingIOError:
            raise link.timeout_error(start_patience(self.timeout)) from None

    def receive_message(self, link: Link) -> bytes:
        try:
            return receive(link.connection)
        except EOFError:
            raise link.exit_error() from None

    def failure(self, link: Link, facts: dict[str, Any]) -> Exception:
        """Return a worker's error as this process would have raised it."""
        error = link.remote_error(facts)
        if isinstance(error, RunStopped) and facts["kind"] and self.time:
            return with_location(error, facts["index"], self.time)
        return error

    def close(self) -> None:
        stop_all(self.links)


def read_task(config: EnvironmentConfig) -> Task:
    environment = Environment(config)
    environment.close()
    return environment.task


def in_order(arrays: Arrays, indices: range) -> Arrays:
    """The arrays of these environments, in the order in which `InProcess` has them."""
    keys = [f"{index}.{key}" for index in indices for key in ReplayableEnvironment.KEYS]
    return {key: np.ascontiguousarray(arrays[key]) for key in keys if key in arrays}


def worker_name(number: int, indices: range) -> str:
    first, last = indices[0], indices[-1]
    held = f"environments {first}-{last}" if last > first else f"environment {first}"
    return f"Environment worker {number} ({held})"
