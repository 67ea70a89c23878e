"""A process that steps some of the environments, as `pool.py` asks it to.

Started as `python -m td3.environments.workers.worker`, without torch, which takes
seconds to import.
"""

import json
import sys
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from td3.config import EnvironmentConfig
from td3.environments.base import Arrays
from td3.environments.environment import Environment
from td3.environments.replayable import Slot
from td3.environments.workers.processes import attend, failure, register_spec
from td3.environments.workers.shared_memory import Board, Channel, Order


class RemoteSlot(Slot):
    """A slot whose seeds come from the learner's process, where the streams are."""

    def __init__(self, config: EnvironmentConfig, remake_every: int) -> None:
        self.config, self.remake_every = config, remake_every
        self.environment = Environment(config)
        self.start(time=0)

    def start(self, time: int) -> None:
        self.waits, self.made_at = True, time

    def begin(self, seed: int, time: int) -> None:
        self.waits = False
        super().begin(seed, time)


class Worker:
    """Some of the environments, and what can be asked of them."""

    def __init__(self, channel: Channel, descriptor: int, facts: dict[str, Any]) -> None:
        self.channel, self.number = channel, int(facts["worker"])
        self.board = Board(descriptor, *facts["shape"])
        self.indices = range(*facts["indices"])
        self.at = self.indices.start
        """The environment at work, for the one who reads of its failure."""
        self.remake_every = int(facts["remake_every"])
        register_spec(facts["spec"])
        self.config = EnvironmentConfig(**facts["config"])
        self.threads = int(facts["threads"])
        self.slots: list[RemoteSlot] = []

    def serve(self) -> None:
        """Carry out orders until the learner closes the channel."""
        orders = {
            Order.STEP: self.step,
            Order.START: self.start,
            Order.SNAPSHOT: self.snapshot,
            Order.RESTORE: self.restore,
        }
        while True:
            order, now = self.board.await_order(self.number, self.channel)
            failed = False
            try:
                answer = orders[order](now)
            except Exception as error:
                failed, answer = True, json.dumps(failure(error, self.at)).encode()
            self.board.report(self.number, self.channel, failed)
            if answer is not None:
                self.channel.send(answer)

    def step(self, now: int) -> None:
        board = self.board
        for slot, index in zip(self.slots, self.indices, strict=True):
            self.at = index
            next_state, reward, terminated, truncated = slot.step(board.actions[index].copy(), now)
            board.next_states[index], board.states[index] = next_state, slot.state
            board.rewards[index] = reward
            board.terminated[index], board.truncated[index] = terminated, truncated
            if slot.waits:
                board.waiting[index] = True

    def start(self, now: int) -> None:
        """Begin the lives of fresh objects with the seeds that are there now."""
        if not self.slots:
            self.slots = [RemoteSlot(self.config, self.remake_every) for _ in self.indices]
            if torch := sys.modules.get("torch"):  # an environment may compute with it
                torch.set_num_threads(self.threads)
        for slot, index in zip(self.slots, self.indices, strict=True):
            self.at = index
            if slot.waits:
                slot.begin(int(self.board.seeds[index]), slot.made_at)
                self.board.states[index], self.board.waiting[index] = slot.state, False

    def snapshot(self, now: int) -> bytes:
        return save(
            {
                f"{index}.{key}": np.ascontiguousarray(array)
                for slot, index in zip(self.slots, self.indices, strict=True)
                for key, array in slot.snapshot().items()
            }
        )

    def restore(self, now: int) -> None:
        arrays = load(self.channel.receive())
        for slot, index in zip(self.slots, self.indices, strict=True):
            self.at = index
            life: Arrays = {key: arrays[f"{index}.{key}"] for key in slot.KEYS}
            self.board.waiting[index] = not slot.restore(life)
            self.board.states[index] = slot.state

    def close(self) -> None:
        for slot in self.slots:
            slot.environment.close()


def main(channel: int, memory: int) -> None:
    def serve(link: Channel, facts: dict[str, Any]) -> None:
        worker = Worker(link, memory, facts)
        try:
            worker.serve()
        finally:
            worker.close()

    attend(channel, serve)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
