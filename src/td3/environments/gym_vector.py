"""Gymnasium's vector environments, in all three autoreset modes."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.base import Arrays, Environments, Steps, with_location
from td3.environments.episode_info import (
    OUTCOMES,
    EpisodeInfo,
    EpisodeNumbers,
    plain_values,
)
from td3.environments.simulators import register, silence_pybullet
from td3.environments.task import Task
from td3.environments.watch import CALL, Interrupted, as_run_stopped, calling
from td3.errors import RunStopped, UserError, first_line
from td3.seeding import Stream
from td3.signals import block_signals, end_with


class GymVector(Environments):
    """A Gymnasium vector environment as `Environments`.

    The autoreset modes differ in what they return when an episode ends:
    NEXT_STEP returns the last state; the next step ignores the action and resets.
    SAME_STEP returns the first state of the new episode, and the last state in `infos`.
    DISABLED returns the last state and waits for a reset.
    """

    resetting: NDArray[np.bool_]

    def __init__(
        self,
        vector: "VectorEnv[Any, Any, Any]",
        env_id: str,
        streams: list[Stream],
        names: Sequence[str] = OUTCOMES,
    ) -> None:
        self.numbers = [EpisodeNumbers(names) for _ in streams]
        self.vector, self.streams, self.broken = vector, streams, False
        self.space = vector.observation_space  # EnvPool creates a new one at each access
        self.task = Task.of(env_id, vector.single_observation_space, vector.single_action_space)
        self.mode = vector.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        kind = type(vector.unwrapped).__name__
        self.description = f"{len(streams)} environments in Gymnasium's {kind}"
        self.start()

    def start(self) -> None:
        """Begin a new episode in every environment."""
        seeds: Any = [int(stream.integers(2**31)) for stream in self.streams]
        with calling(self.task.id, "reset"), silence_pybullet(self.task.id):
            observations, _ = self.vector.reset(seed=seeds)
        self.begin(observations)

    def begin(self, observations: Any) -> None:
        self.resetting = np.zeros(self.vector.num_envs, dtype=np.bool_)
        for numbers in self.numbers:
            numbers.start()
        self.states = self.flat(observations, time=0)

    @classmethod
    def make(cls, config: EnvironmentConfig, streams: list[Stream]) -> "GymVector":
        register(config.id)
        kwargs: dict[str, Any] = dict(config.kwargs)
        if config.vectorization == "async":
            kwargs["wrappers"] = [partial(end_copy_with, os.getpid())]
        try:
            # This process closes its workers itself, with SIGTERM.
            with block_signals(signal.SIGINT, signal.SIGHUP):
                vector = gym.make_vec(
                    config.id,
                    num_envs=len(streams),
                    vectorization_mode=config.vectorization,
                    **kwargs,
                )
        except (gym.error.Error, TypeError, ValueError) as error:
            reason = first_line(error)
            raise UserError(
                f"Cannot make a {config.vectorization} vector of {config.id}: {reason}."
            ) from error
        return cls(vector, config.id, streams, config.info)

    def receive(self) -> Steps:
        actions, time = self.sent
        scaled = np.stack([self.task.bounds.scale(action) for action in actions])
        CALL.enter(self.task.id, "step")
        try:
            observations, rewards, terminated, truncated, infos = self.vector.step(scaled)
        except (EOFError, ConnectionError) as error:
            self.broken = True
            raise RunStopped(
                f"A worker process of the {self.task.id} vector ended{self.describe_exit()}"
            ) from error
        except BaseException as error:
            self.broken |= isinstance(error, Interrupted)
            raise as_run_stopped(self.task.id, error) from error
        finally:
            CALL.leave()
        ended = terminated | truncated
        real = ~self.resetting
        reported = self.read_infos(infos, real, ended & real)
        next_states = self.flat(observations, time)
        self.states = next_states
        if self.mode == AutoresetMode.SAME_STEP:
            next_states = next_states.copy()
            for index in np.flatnonzero(ended):
                next_states[index] = self.checked(infos["final_obs"][index], int(index), time)
        elif self.mode == AutoresetMode.NEXT_STEP:
            self.resetting = ended
        elif ended.any():
            observations, _ = self.vector.reset(options={"reset_mask": ended})
            self.states = self.flat(observations, time)
        finite = np.array([self.checked_reward(r, i, time) for i, r in enumerate(rewards)])
        return Steps(next_states, finite, terminated, truncated, real, reported)

    def read_infos(
        self, infos: dict[str, Any], real: NDArray[np.bool_], ended: NDArray[np.bool_]
    ) -> dict[int, EpisodeInfo] | None:
        """Add the numbers of one step; return those of the episodes that ended."""
        last = infos.get("final_info", {}) if self.mode == AutoresetMode.SAME_STEP else infos
        names = self.numbers[0].names
        if not ended.any() and not any(name in infos for name in names):
            return None
        found = {}
        for index, numbers in enumerate(self.numbers):
            if not ended[index]:
                numbers.add(row_of(infos, index, names) if real[index] else {})
                continue
            numbers.add(row_of(last, index, names))
            final = plain_values(row_of(last, index, list(last))) if self.keep_info else {}
            found[index] = EpisodeInfo(numbers.means(), final)
            numbers.start()
        return found

    def flat(self, observations: Any, time: int) -> NDArray[np.float32]:
        """Return the observations of all environments, one row each."""
        each = enumerate(iterate(self.space, observations))
        return np.stack([self.checked(observation, index, time) for index, observation in each])

    def checked(self, observation: Any, index: int, time: int) -> NDArray[np.float32]:
        try:
            return self.task.observation(observation)
        except RunStopped as error:
            raise with_location(error, index, time) from error

    def checked_reward(self, reward: float, index: int, time: int) -> float:
        try:
            return self.task.reward(reward)
        except RunStopped as error:
            raise with_location(error, index, time) from error

    def snapshot(self) -> Arrays:
        return {}

    def restore(self, arrays: Arrays) -> tuple[list[int], str]:
        self.start()
        everyone = list(range(self.vector.num_envs))
        return everyone, "vector environments cannot be restored; they restarted with new episodes"

    @property
    def processes(self) -> list[Any]:
        """The processes of an asynchronous vector; other vectors have none."""
        return list(getattr(self.vector.unwrapped, "processes", ()))

    def describe_exit(self) -> str:
        """Return which process ended, and how."""
        for index, process in enumerate(self.processes):
            process.join(0.1)
            if process.exitcode is not None:
                code = process.exitcode
                how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
                return f": environment {index}, {how}"
        return ""

    def close(self) -> None:
        if not self.broken:
            with suppress(RunStopped), calling(self.task.id, "close"):
                self.vector.close()
            return
        for process in self.processes:  # closing in order would wait for the one that ended
            process.kill()
            process.join()
        self.vector.closed = True


def end_copy_with(parent: int, env: "gym.Env[Any, Any]") -> "gym.Env[Any, Any]":
    """Let a worker process of an asynchronous vector end with its parent, which has a copy too."""
    if os.getpid() != parent:
        end_with(parent)
    return env


def row_of(infos: dict[str, Any], index: int, names: Sequence[str]) -> dict[str, Any]:
    """Return what one environment reported, from the infos of a vector.

    Gymnasium marks in `_name` which environments reported `name`.
    """
    row = {}
    for name in names:
        values, reporting = infos.get(name), infos.get(f"_{name}")
        if name.startswith("_") or (reporting is not None and not reporting[index]):
            continue
        if isinstance(values, dict):
            row[name] = row_of(values, index, list(values))
        elif isinstance(values, np.ndarray) and index < len(values):
            row[name] = values[index]
    return row
