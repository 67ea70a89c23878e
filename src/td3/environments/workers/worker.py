"""A process that steps some of the environments for `pool.py`.

Started as `python -m td3.environments.workers.worker`. It does not import torch, which would take
seconds.
"""

import json
import math
import sys
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.environments.episode_info import plain_values
from td3.environments.replayable import ReplayableEnvironment, with_index
from td3.environments.workers.messages import receive
from td3.environments.workers.processes import describe_error, register_spec, serve_parent
from td3.environments.workers.shared_memory import Command, SharedBlock


class RemoteEnvironment(ReplayableEnvironment):
    """A replayable environment whose seeds come from the learner's process."""

    def __init__(self, config: EnvironmentConfig, remake_every: int) -> None:
        self.config, self.remake_every = config, remake_every
        self.environment = Environment(config)
        self.start(time=0)

    def start(self, time: int) -> None:
        self.needs_seed, self.made_at = True, time

    def begin(self, seed: int, time: int) -> None:
        self.needs_seed = False
        super().begin(seed, time)


class Worker:
    """Some of the environments, and the commands that they understand."""

    def __init__(self, connection: Connection, descriptor: int, facts: dict[str, Any]) -> None:
        self.connection, self.number = connection, int(facts["worker"])
        self.block = SharedBlock(descriptor, *facts["shape"])
        self.indices = range(*facts["indices"])
        self.current = self.indices.start
        """The environment that is being used, for error messages."""
        self.remake_every = int(facts["remake_every"])
        register_spec(facts["spec"])
        self.config = EnvironmentConfig(**facts["config"])
        self.threads = int(facts["threads"])
        self.environments: list[RemoteEnvironment] = []

    def serve(self) -> None:
        """Run commands until the learner closes the connection."""
        commands = {
            Command.STEP: self.step,
            Command.SEED: self.seed,
            Command.SNAPSHOT: self.snapshot,
            Command.RESTORE: self.restore,
            Command.STEP_WITH_INFO: self.step_with_info,
        }
        while True:
            command, now = self.block.wait_for_command(self.number, self.connection)
            failed = False
            try:
                answer = commands[command](now)
            except Exception as error:
                failed, answer = True, json.dumps(describe_error(error, self.current)).encode()
            self.block.report(self.number, self.connection, failed)
            if answer is not None:
                self.connection.send_bytes(answer)

    def step(self, now: int) -> None:
        block, first = self.block, self.indices.start
        actions = block.actions[first : self.indices.stop].copy()
        scaled = self.environments[0].environment.task.bounds.scale(actions)
        for index, one in enumerate(self.environments, start=first):
            self.current, place = index, index - first
            next_state, reward, terminated, truncated = one.step(
                actions[place], now, scaled[place, ...]
            )
            block.next_states[index], block.states[index] = next_state, one.state
            block.rewards[index] = reward
            block.terminated[index], block.truncated[index] = terminated, truncated
            if terminated or truncated:
                numbers = one.ended.numbers
                block.numbers[index] = [numbers.get(name, math.nan) for name in self.config.info]
            if one.needs_seed:
                block.needs_seed[index] = True

    def step_with_info(self, now: int) -> bytes | None:
        """Step; return the last `info` of each episode that ended, or None if none did."""
        self.step(now)
        ended = self.block.terminated | self.block.truncated
        finals = {
            index: plain_values(one.ended.final)
            for one, index in zip(self.environments, self.indices, strict=True)
            if ended[index]
        }
        return json.dumps(finals).encode() if finals else None

    def seed(self, now: int) -> None:
        """Seed the new objects with the seeds in the block.

        An environment that the learner wants to begin again is made again.
        """
        if not self.environments:
            self.environments = [
                RemoteEnvironment(self.config, self.remake_every) for _ in self.indices
            ]
            if torch := sys.modules.get("torch"):  # the environment itself may use it
                torch.set_num_threads(self.threads)
        for one, index in zip(self.environments, self.indices, strict=True):
            self.current = index
            if self.block.needs_seed[index]:
                if not one.needs_seed:
                    one.remake()
                    one.start(now)
                one.begin(int(self.block.seeds[index]), one.made_at)
                self.block.states[index], self.block.needs_seed[index] = one.state, False

    def snapshot(self, now: int) -> bytes:
        return save(
            {
                f"{index}.{key}": np.ascontiguousarray(array)
                for one, index in zip(self.environments, self.indices, strict=True)
                for key, array in one.snapshot().items()
            }
        )

    def restore(self, now: int) -> None:
        arrays = load(receive(self.connection))
        for one, index in zip(self.environments, self.indices, strict=True):
            self.current = index
            self.block.needs_seed[index] = not one.restore(with_index(index, arrays))
            self.block.states[index] = one.state

    def close(self) -> None:
        for one in self.environments:
            one.environment.close()


def main(parent: int, descriptor: int, memory: int) -> None:
    def serve(connection: Connection, facts: dict[str, Any]) -> None:
        worker = Worker(connection, memory, facts)
        try:
            worker.serve()
        finally:
            worker.close()

    serve_parent(parent, descriptor, serve)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
