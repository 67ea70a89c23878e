"""One environment with flat observations and actions in [-1, 1], checked at every step."""

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.episode_info import EpisodeNumbers
from td3.environments.simulators import make, silence_pybullet
from td3.environments.task import Task
from td3.environments.user_code import must_return
from td3.environments.watch import CALL, as_run_stopped, calling
from td3.environments.wrappers import stack_frames
from td3.errors import RunStopped
from td3.layout import Observation


class Environment:
    """One simulator behind the interface that td3 uses: `reset`, `step`, `close` and `task`."""

    def __init__(self, config: EnvironmentConfig, render_mode: str | None = None) -> None:
        with silence_pybullet(config.id):
            single = make(config, render_mode)
            self.space = single.observation_space
            self.env = stack_frames(single, config)
        self.task = Task.of(config.id, self.space, self.env.action_space, config.frame_stack)
        self.is_closed = False
        self.is_fresh = True
        """Whether it has never been reset. Some simulators replay exactly only from there."""
        self.numbers = EpisodeNumbers(config.info)
        """The numbers of this episode that are logged."""
        self.info: dict[str, Any] = {}
        """What the simulator reported at the last step."""

    def reset(self, seed: int | None = None) -> Observation:
        self.is_fresh = False
        self.info = {}
        self.numbers.start()
        with calling(self.task.id, "reset"), silence_pybullet(self.task.id):
            answer: Any = self.env.reset(seed=seed)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            given = f"{len(answer)} values" if isinstance(answer, tuple) else type(answer).__name__
            raise RunStopped(f"{self.task.id}: {must_return('reset', given)}")
        return self.task.observation(answer[0])

    def step(
        self, action: NDArray[np.floating], scaled: NDArray[Any] | None = None
    ) -> tuple[Observation, float, bool, bool]:
        """Return (observation, reward, terminated, truncated).

        A terminated episode has no future rewards; a truncated one was only cut off. `scaled`: the
        action in the simulator's range, if the caller has it already.
        """
        if scaled is None:
            scaled = self.task.bounds.scale(action)
        CALL.enter(self.task.id, "step")
        try:
            observation, reward, terminated, truncated, info = self.env.step(scaled)
        except BaseException as error:
            raise as_run_stopped(self.task.id, error) from error
        finally:
            CALL.leave()
        self.info = info if isinstance(info, dict) else {}
        if self.numbers.names:
            self.numbers.add(self.info)
        task, state = self.task, self.task.observation(observation)
        ends = task.flag("terminated", terminated), task.flag("truncated", truncated)
        return state, task.reward(reward), *ends

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        with contextlib.suppress(RunStopped), calling(self.task.id, "close"):
            self.env.close()  # it is not needed any more
