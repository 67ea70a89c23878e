"""Make and check environments; scale actions.

Inside td3 an observation is a flat float32 vector (`observations.py`) and an action lies in [-1, 1]
in every dimension. Outside of these files nobody knows the simulator's own shapes and bounds.
"""

import contextlib

import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.simulators import hushed, make
from td3.environments.task import Task
from td3.environments.wrappers import stacking
from td3.errors import RunStopped, first_line
from td3.layout import Observation


class Environment:
    """One simulator, with flat observations and actions in [-1, 1], checked at every step."""

    def __init__(self, config: EnvironmentConfig, render_mode: str | None = None) -> None:
        with hushed(config.id):
            single = make(config, render_mode)
            self.space = single.observation_space
            self.env = stacking(single, config)
        self.task = Task.of(config.id, self.space, self.env.action_space, config.frame_stack)

    def reset(self, seed: int | None = None) -> Observation:
        try:
            with hushed(self.task.id):
                observation, _ = self.env.reset(seed=seed)
        except (Exception, SystemExit) as error:
            raise raised(self.task.id, error) from error
        return self.task.observation(observation)

    def step(self, action: NDArray[np.floating]) -> tuple[Observation, float, bool, bool]:
        """(observation, reward, terminated, truncated); terminated ends all value, truncated
        only ends the recording."""
        scaled = self.task.bounds.scale(action)
        try:
            observation, reward, terminated, truncated, _ = self.env.step(scaled)
        except (Exception, SystemExit) as error:
            raise raised(self.task.id, error) from error
        state = self.task.observation(observation)
        return state, self.task.reward(reward), bool(terminated), bool(truncated)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # whatever it was for, it is over
            self.env.close()


def raised(env_id: str, error: BaseException) -> RunStopped:
    """A simulator's own exception, as one that ends the run in order."""
    return RunStopped(f"{env_id} raised {type(error).__name__}: {first_line(error)}")
