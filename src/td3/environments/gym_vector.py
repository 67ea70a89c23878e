"""Gymnasium's vector environments, in each of their three autoreset modes."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.base import Arrays, Steps
from td3.environments.environment import raised
from td3.environments.in_process import located
from td3.environments.simulators import hushed, register
from td3.environments.task import Task
from td3.errors import RunStopped, UserError, first_line
from td3.seeding import Stream
from td3.signals import shielded


class Vectorized:
    """A Gymnasium vector as `Environments`: one step is one step, whoever resets and when.

    After an episode ends, the modes differ in what the next observation is:
    NEXT_STEP gives the last state now, and at the next step ignores the action and resets;
    SAME_STEP gives the new episode's first state now, and the last state in `infos`;
    DISABLED gives the last state and waits to be reset.
    """

    remark = ""

    def __init__(
        self, vector: "VectorEnv[Any, Any, Any]", env_id: str, streams: list[Stream]
    ) -> None:
        self.vector, self.streams, self.broken = vector, streams, False
        self.space = vector.observation_space  # EnvPool makes it anew each time
        self.task = Task.of(env_id, vector.single_observation_space, vector.single_action_space)
        self.mode = vector.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        kind = type(vector.unwrapped).__name__
        self.arrangement = f"{len(streams)} environments in Gymnasium's {kind}"
        self.start()

    def start(self) -> None:
        """Begin new episodes everywhere."""
        seeds: Any = [int(stream.integers(2**31)) for stream in self.streams]
        with hushed(self.task.id):
            observations, _ = self.vector.reset(seed=seeds)
        self.begin(observations)

    def begin(self, observations: Any) -> None:
        self.resetting = np.zeros(self.vector.num_envs, dtype=np.bool_)
        self.states = self.flat(observations, time=0)

    @classmethod
    def make(cls, config: EnvironmentConfig, streams: list[Stream]) -> "Vectorized":
        register(config.id)
        kwargs: dict[str, Any] = dict(config.kwargs)
        try:
            with shielded():  # a Ctrl-C is for this process, which will close its workers
                vector = gym.make_vec(
                    config.id,
                    num_envs=len(streams),
                    vectorization_mode=config.vectorization,
                    **kwargs,
                )
        except (gym.error.Error, TypeError, ValueError) as error:
            reason = first_line(error)
            raise UserError(
                f"Cannot make {config.id} as {config.vectorization} vector: {reason}."
            ) from error
        return cls(vector, config.id, streams)

    def step(self, actions: NDArray[np.float32], time: int) -> Steps:
        self.send(actions, time)
        return self.receive()

    def send(self, actions: NDArray[np.float32], time: int) -> None:
        self.sent = actions, time

    def receive(self) -> Steps:
        actions, time = self.sent
        scaled = np.stack([self.task.bounds.scale(action) for action in actions])
        try:
            observations, rewards, terminated, truncated, infos = self.vector.step(scaled)
        except (EOFError, ConnectionError) as error:
            self.broken = True
            raise RunStopped(
                f"A worker process of the {self.task.id} vector is gone{self.departed()}"
            ) from error
        except Exception as error:
            raise raised(self.task.id, error) from error
        over = terminated | truncated
        real = ~self.resetting
        next_states = self.flat(observations, time)
        self.states = next_states
        if self.mode == AutoresetMode.SAME_STEP:
            next_states = next_states.copy()
            for index in np.flatnonzero(over):
                next_states[index] = self.checked(infos["final_obs"][index], int(index), time)
        elif self.mode == AutoresetMode.NEXT_STEP:
            self.resetting = over
        elif over.any():
            observations, _ = self.vector.reset(options={"reset_mask": over})
            self.states = self.flat(observations, time)
        finite = np.array([self.checked_reward(r, i, time) for i, r in enumerate(rewards)])
        return Steps(next_states, finite, terminated, truncated, real)

    def flat(self, observations: Any, time: int) -> NDArray[np.float32]:
        """Every environment's observation as one row."""
        each = enumerate(iterate(self.space, observations))
        return np.stack([self.checked(observation, index, time) for index, observation in each])

    def checked(self, observation: Any, index: int, time: int) -> NDArray[np.float32]:
        try:
            return self.task.observation(observation)
        except RunStopped as error:
            raise located(error, index, time) from error

    def checked_reward(self, reward: float, index: int, time: int) -> float:
        try:
            return self.task.reward(reward)
        except RunStopped as error:
            raise located(error, index, time) from error

    def snapshot(self) -> Arrays:
        return {}

    def restore(self, arrays: Arrays) -> tuple[list[int], str]:
        self.start()
        everyone = list(range(self.vector.num_envs))
        return everyone, "vector environments cannot be brought back; they began new episodes"

    @property
    def processes(self) -> list[Any]:
        """Those of Gymnasium's asynchronous vector; others have none."""
        return list(getattr(self.vector.unwrapped, "processes", ()))

    def departed(self) -> str:
        """Which process is gone, and how."""
        for index, process in enumerate(self.processes):
            process.join(0.1)
            if process.exitcode is not None:
                code = process.exitcode
                how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
                return f": that of environment {index}, {how}"
        return ""

    def close(self) -> None:
        if not self.broken:
            self.vector.close()
            return
        for process in self.processes:  # asked to close, the others would wait for the lost one
            process.kill()
            process.join()
        self.vector.closed = True
