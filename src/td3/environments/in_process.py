"""Environments in this process, stepped one after the other."""

import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.base import Arrays, Steps
from td3.environments.replayable import Slot
from td3.errors import RunStopped
from td3.seeding import Stream


def located(error: RunStopped, index: int, time: int) -> RunStopped:
    """The same error, saying in which environment and when."""
    return RunStopped(f"{error} in environment {index} at step {time}")


def strayed_sentence(env_id: str, strayed: list[int]) -> str:
    """Why these environments began anew instead of going on."""
    return (
        f"{env_id} did not repeat itself: environment {', '.join(map(str, strayed))} came to "
        "another state from the same seed and actions, and began a new episode"
    )


class InProcess:
    """Environments in this process, one after the other."""

    remark = ""

    def __init__(self, config: EnvironmentConfig, streams: list[Stream], remake_every: int) -> None:
        """One environment per stream."""
        self.slots = [Slot(config, stream, remake_every) for stream in streams]
        self.task = self.slots[0].environment.task
        self.states = np.stack([slot.state for slot in self.slots])
        plural = "s" if len(streams) > 1 else ""
        self.arrangement = f"{len(streams)} environment{plural} in this process"

    def step(self, actions: NDArray[np.float32], time: int) -> Steps:
        self.send(actions, time)
        return self.receive()

    def send(self, actions: NDArray[np.float32], time: int) -> None:
        self.sent = actions, time

    def receive(self) -> Steps:
        actions, time = self.sent
        steps = Steps.empty(*self.states.shape)
        states = np.empty_like(self.states)
        for index, (slot, action) in enumerate(zip(self.slots, actions, strict=True)):
            try:
                next_state, reward, terminated, truncated = slot.step(action, time)
            except RunStopped as error:
                raise located(error, index, time) from error
            steps.next_states[index], states[index] = next_state, slot.state
            steps.rewards[index] = reward
            steps.terminated[index], steps.truncated[index] = terminated, truncated
        self.states = states
        return steps

    def snapshot(self) -> Arrays:
        return {
            f"{index}.{key}": array
            for index, slot in enumerate(self.slots)
            for key, array in slot.snapshot().items()
        }

    def restore(self, arrays: Arrays) -> tuple[list[int], str]:
        """Bring every environment back; returns those that began anew instead, and why."""
        strayed = [
            index
            for index, slot in enumerate(self.slots)
            if not slot.restore({key: arrays[f"{index}.{key}"] for key in slot.KEYS})
        ]
        self.states = np.stack([slot.state for slot in self.slots])
        return strayed, strayed_sentence(self.task.id, strayed)

    def close(self) -> None:
        for slot in self.slots:
            slot.environment.close()
