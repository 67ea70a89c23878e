"""Environments in worker processes: the transitions of `InProcess`, on more cores.

The same slots live in workers, each with several environments that it steps one after the other.
Seeds are drawn here, from the agents' streams and in the order of the environments, so a run has
the same numbers and the same checkpoints however its environments are spread.
"""

import dataclasses
import json
import math
import os
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from td3.config import EnvironmentConfig
from td3.environments.base import Arrays, Steps
from td3.environments.environment import Environment
from td3.environments.in_process import located, strayed_sentence
from td3.environments.replayable import Slot
from td3.environments.workers import shared_memory as exchange
from td3.environments.workers.processes import Link, Reported, end_all, portable_spec, start_process
from td3.environments.workers.shared_memory import Board, Order, shared_file
from td3.errors import RunStopped
from td3.seeding import Stream


class Workers:
    """Environments in `count` worker processes."""

    remark = ""

    def __init__(
        self, config: EnvironmentConfig, streams: list[Stream], remake_every: int, count: int
    ) -> None:
        """One environment per stream."""
        self.streams, self.time, self.under_way = streams, 0, False
        self.patience = config.patience or math.inf
        environment = Environment(config)
        self.task = environment.task
        spec = portable_spec(environment)
        environment.close()
        sizes = (len(streams), count, self.task.state_dim, self.task.action_dim)
        shape = (*sizes, exchange.ORDERED)
        memory = shared_file()
        self.board = Board(memory, *shape)
        torch = sys.modules.get("torch")
        facts: dict[str, Any] = {
            "shape": shape,
            "config": dataclasses.asdict(config),
            "spec": spec,
            "remake_every": remake_every,
            "threads": torch.get_num_threads() if torch else 1,
        }
        parts = np.array_split(np.arange(len(streams)), count)
        self.indices = [range(int(part[0]), int(part[-1]) + 1) for part in parts]
        self.links: list[Link] = []
        try:
            for number, indices in enumerate(self.indices):
                module = "td3.environments.workers.worker"
                link = start_process(module, named(number, indices), memory)
                self.links.append(link)
                own = {"worker": number, "indices": [indices.start, indices.stop]}
                link.channel.send(json.dumps(facts | own).encode())
            self.channels = [link.channel for link in self.links]
            self.board.waiting[:] = True
            self.start_lives()
        except ConnectionError:
            self.close()
            raise link.obituary() from None
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)
        self.states = self.board.states.copy()
        held = f"{len(streams)} environment{'s' if len(streams) > 1 else ''}"
        self.arrangement = f"{held} in {count} worker process{'es' if count > 1 else ''}"

    def step(self, actions: NDArray[np.float32], time: int) -> Steps:
        self.send(actions, time)
        return self.receive()

    def send(self, actions: NDArray[np.float32], time: int) -> None:
        """Have the workers begin a step."""
        self.time = time
        self.board.actions[:] = actions
        self.order(Order.STEP)
        self.under_way = True

    def receive(self) -> Steps:
        """The step that was begun, once all workers have done it."""
        board, self.under_way = self.board, False
        self.gather(self.patience)
        if np.count_nonzero(board.waiting):
            self.start_lives()
        self.states = board.states.copy()
        return Steps(
            board.next_states.copy(),
            board.rewards.copy(),
            board.terminated.copy(),
            board.truncated.copy(),
        )

    def start_lives(self) -> None:
        """Give every fresh object a seed, in the order in which one process would."""
        for index in np.flatnonzero(self.board.waiting):
            self.board.seeds[index] = int(self.streams[index].integers(2**31))
        self.order(Order.START)
        self.gather()

    def snapshot(self) -> Arrays:
        self.order(Order.SNAPSHOT)
        self.gather()
        arrays: Arrays = {}
        for link in self.links:
            arrays |= load(self.answer(link))
        keys = [f"{index}.{key}" for index in range(len(self.streams)) for key in Slot.KEYS]
        return {key: arrays[key] for key in keys}

    def restore(self, arrays: Arrays) -> tuple[list[int], str]:
        """Bring every environment back; returns those that began anew instead, and why."""
        self.order(Order.RESTORE)
        for link, indices in zip(self.links, self.indices, strict=True):
            keys = [f"{index}.{key}" for index in indices for key in Slot.KEYS]
            lives = {key: np.ascontiguousarray(arrays[key]) for key in keys}
            try:
                link.channel.send(save(lives))
            except ConnectionError:
                raise link.obituary() from None
        self.gather()
        strayed = np.flatnonzero(self.board.waiting).tolist()
        if strayed:
            self.start_lives()
        self.states = self.board.states.copy()
        return strayed, strayed_sentence(self.task.id, strayed)

    def order(self, what: Order) -> None:
        if self.under_way:
            raise RuntimeError("a step is under way; receive it first")
        self.board.order(what, self.time, self.channels)

    def gather(self, patience: float = math.inf) -> None:
        """Wait until all workers have done what was ordered; raise the first failure there is."""
        failed = []
        for number, link in enumerate(self.links):
            try:
                if self.board.await_worker(number, link.channel, patience):
                    failed.append(link)
            except EOFError:
                raise link.obituary() from None
            except TimeoutError:
                raise link.silence(patience) from None
        if failed:
            facts = [json.loads(self.answer(link)) for link in failed]
            raise self.failure(failed[0], facts[0]) from Reported(facts[0]["traceback"])

    def answer(self, link: Link) -> bytes:
        try:
            return link.channel.receive()
        except EOFError:
            raise link.obituary() from None

    def failure(self, link: Link, facts: dict[str, Any]) -> Exception:
        """A worker's error as this process would have raised it."""
        error = link.failure(facts)
        if isinstance(error, RunStopped) and facts["kind"] and self.time:
            return located(error, facts["index"], self.time)
        return error

    def close(self) -> None:
        end_all(self.links)


def named(number: int, indices: range) -> str:
    first, last = indices[0], indices[-1]
    held = f"environments {first}-{last}" if last > first else f"environment {first}"
    return f"Environment worker {number} ({held})"
