"""Environments in worker processes: the transitions of `InProcess`, on more cores.

The same slots live in workers, each with several environments that it steps one after the other.
Seeds are drawn here, from the agents' streams and in the order of the environments, so a run has
the same numbers and the same checkpoints however its environments are spread.
"""

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from td3 import exchange
from td3.collect import Arrays, Slot, Steps, located, strayed_sentence
from td3.config import EnvironmentConfig
from td3.environments import SIMULATORS, Environment
from td3.errors import RunStopped, UserError
from td3.exchange import Board, Channel, Order, shared_file
from td3.seeding import Stream
from td3.signals import shielded

CLOSE_SECONDS = 10.0


class Reported(Exception):
    """What a worker wrote of an error in its process."""


@dataclasses.dataclass(frozen=True)
class Link:
    """A worker as its learner sees it."""

    number: int
    indices: range
    process: subprocess.Popen[bytes]
    channel: Channel

    @property
    def name(self) -> str:
        first, last = self.indices[0], self.indices[-1]
        held = f"environments {first}-{last}" if last > first else f"environment {first}"
        return f"Environment worker {self.number} ({held})"

    def obituary(self) -> RunStopped:
        """How it ended."""
        try:
            code = self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            return RunStopped(f"{self.name} closed its channel")
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return RunStopped(f"{self.name} {how}")

    def close(self) -> None:
        self.channel.end.close()
        try:
            self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Workers:
    """Environments in `count` worker processes."""

    remark = ""

    def __init__(
        self, config: EnvironmentConfig, streams: list[Stream], remake_every: int, count: int
    ) -> None:
        """One environment per stream."""
        self.streams, self.time, self.under_way = streams, 0, False
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
            "shape": shape, "id": config.id, "kwargs": config.kwargs, "spec": spec,
            "remake_every": remake_every, "threads": torch.get_num_threads() if torch else 1,
        }  # fmt: skip
        parts = np.array_split(np.arange(len(streams)), count)
        self.links: list[Link] = []
        try:
            for number, part in enumerate(parts):
                indices = range(int(part[0]), int(part[-1]) + 1)
                link = Link(number, indices, *start_process(memory))
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
        plural = "es" if count > 1 else ""
        self.arrangement = f"{len(streams)} environments in {count} worker process{plural}"

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
        self.gather()
        if board.waiting.any():
            self.start_lives()
        self.states = board.states.copy()
        return Steps(
            board.next_states.copy(), board.rewards.copy(), board.terminated.copy(),
            board.truncated.copy(), real=np.ones(len(self.streams), dtype=np.bool_),
        )  # fmt: skip

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
        for link in self.links:
            keys = [f"{index}.{key}" for index in link.indices for key in Slot.KEYS]
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

    def gather(self) -> None:
        """Wait until all workers have done what was ordered; raise the first failure there is."""
        failed = []
        for link in self.links:
            try:
                if self.board.await_worker(link.number, link.channel):
                    failed.append(link)
            except EOFError:
                raise link.obituary() from None
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
        if facts["kind"] == "UserError":
            return UserError(facts["message"])
        if facts["kind"] != "RunStopped":
            return RunStopped(f"{link.name} failed with {facts['message']}")
        error = RunStopped(facts["message"])
        return located(error, facts["index"], self.time) if self.time else error

    def close(self) -> None:
        for link in self.links:
            link.close()


def start_process(memory: int) -> tuple[subprocess.Popen[bytes], Channel]:
    """A worker, which imports what this process would, and the channel to it."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-P", "-W", "ignore", "-m", "td3.worker"]
    with shielded(), theirs:  # a Ctrl-C is for this process, which will close its workers
        process = subprocess.Popen(
            [*command, str(theirs.fileno()), str(memory)],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), memory),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    return process, Channel(ours)


def portable_spec(environment: Environment) -> str:
    """What another process must register to make this environment, as JSON.

    Nothing where the id itself says which module to import. Refuses a task that only we can make.
    """
    env_id, spec = environment.task.id, environment.env.spec
    if ":" in env_id or any(part in env_id for part in SIMULATORS):
        return ""
    registered = gym.registry.get(spec.id) if spec else None
    with contextlib.suppress(TypeError, ValueError):  # callables and other objects
        if registered and not str(registered.entry_point).startswith("__main__"):
            return registered.to_json()
    raise UserError(
        f"{env_id} was registered with an object that only this process has; "
        "register it with an entry_point such as 'my_package:MyEnv' to step it in workers."
    )
