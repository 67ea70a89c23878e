"""Environments in this process, stepped one after the other."""

from collections.abc import Sequence

import numpy as np

from td3.config import EnvironmentConfig
from td3.environments.base import Arrays, Environments, Steps, count_environments, with_location
from td3.environments.environment import Environment
from td3.environments.episode_info import EpisodeInfo, plain_values
from td3.environments.replayable import ReplayableEnvironment, with_index
from td3.environments.watch import CALL
from td3.errors import RunStopped
from td3.seeding import Stream


class InProcess(Environments):
    """Environments in this process, stepped one after the other."""

    def __init__(
        self,
        config: EnvironmentConfig,
        streams: list[Stream],
        remake_every: int,
        first: Environment | None = None,
    ) -> None:
        """Make one environment per stream; `first`, if given, is taken over as the first one."""
        given = [first, *[None] * (len(streams) - 1)]
        self.replayable = [
            ReplayableEnvironment(config, stream, remake_every, environment)
            for stream, environment in zip(streams, given, strict=True)
        ]
        self.task = self.replayable[0].environment.task
        self.states = np.stack([one.state for one in self.replayable])
        self.description = f"{count_environments(len(streams))} in this process"

    def receive(self) -> Steps:
        actions, time = self.sent
        steps = Steps.empty(*self.states.shape)
        states = np.empty_like(self.states)
        infos: dict[int, EpisodeInfo] = {}
        scaled = self.task.bounds.scale(actions)  # of all at once: NumPy calls take long
        for index, (one, action) in enumerate(zip(self.replayable, actions, strict=True)):
            CALL.place = index, time
            try:
                next_state, reward, terminated, truncated = one.step(
                    action, time, scaled[index, ...]
                )
            except RunStopped as error:
                raise with_location(error, index, time) from error
            steps.next_states[index], states[index] = next_state, one.state
            steps.rewards[index] = reward
            steps.terminated[index], steps.truncated[index] = terminated, truncated
            if terminated or truncated:
                final = plain_values(one.ended.final) if self.keep_info else {}
                infos[index] = EpisodeInfo(one.ended.numbers, final)
        CALL.place = None
        self.states = states
        return steps._replace(infos=infos) if infos else steps

    def snapshot(self) -> Arrays:
        return {
            f"{index}.{key}": array
            for index, one in enumerate(self.replayable)
            for key, array in one.snapshot().items()
        }

    def restore(self, arrays: Arrays) -> tuple[list[int], str]:
        diverged = [
            index
            for index, one in enumerate(self.replayable)
            if not one.restore(with_index(index, arrays))
        ]
        self.states = np.stack([one.state for one in self.replayable])
        return diverged, self.explain_restart(diverged)

    def begin_again(self, indices: Sequence[int], time: int) -> None:
        states = self.states.copy()
        for index in indices:
            self.replayable[index].remake()
            self.replayable[index].start(time)
            states[index] = self.replayable[index].state
        self.states = states

    def close(self) -> None:
        for one in self.replayable:
            one.environment.close()
