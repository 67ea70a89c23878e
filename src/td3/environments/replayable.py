"""One environment that can be brought back exactly."""

import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.base import Arrays
from td3.environments.environment import Environment
from td3.seeding import Stream


class Slot:
    """One environment that can be brought back exactly.

    Simulators seldom let themselves be saved, but they repeat: the same seed and the same actions
    from a *fresh object* give the same states (from a used object some do not). So a slot keeps
    what it did since its object was made, and restoring it means doing that again. To keep this
    short, the object is remade at the first episode end after each multiple of `remake_every`.
    """

    KEYS = ("life", "actions", "resets", "state")

    def __init__(self, config: EnvironmentConfig, stream: Stream, remake_every: int) -> None:
        self.config, self.stream, self.remake_every = config, stream, remake_every
        self.environment = Environment(config)
        self.start(time=0)

    def start(self, time: int) -> None:
        """Begin the life of a fresh object, with a seed of its own."""
        self.begin(int(self.stream.integers(2**31)), time)

    def begin(self, seed: int, time: int) -> None:
        self.seed, self.made_at = seed, time
        self.actions: list[NDArray[np.float32]] = []
        self.resets: list[int] = []
        self.state = self.environment.reset(seed=self.seed)

    def step(
        self, action: NDArray[np.float32], time: int
    ) -> tuple[NDArray[np.float32], float, bool, bool]:
        self.actions.append(action)
        next_state, reward, terminated, truncated = self.environment.step(action)
        self.state = next_state
        if terminated or truncated:
            if time // self.remake_every != self.made_at // self.remake_every:
                self.environment.close()
                self.environment = Environment(self.config)
                self.start(time)
            else:
                self.resets.append(len(self.actions))
                self.state = self.environment.reset()
        return next_state, reward, terminated, truncated

    def snapshot(self) -> Arrays:
        return {
            "life": np.array([self.seed, self.made_at], dtype=np.int64),
            "actions": np.array(self.actions, dtype=np.float32).reshape(
                -1, self.environment.task.action_dim
            ),
            "resets": np.array(self.resets, dtype=np.int64),
            "state": self.state,
        }

    def restore(self, arrays: Arrays) -> bool:
        """Live the same life again; says whether it led to the same state."""
        self.environment.close()
        self.environment = Environment(self.config)
        self.seed, self.made_at = (int(number) for number in arrays["life"])
        self.actions = list(arrays["actions"])
        self.resets = arrays["resets"].tolist()
        resets = set(self.resets)
        self.state = self.environment.reset(seed=self.seed)
        for position, action in enumerate(self.actions, start=1):
            self.state, _, terminated, truncated = self.environment.step(action)
            if (terminated or truncated) != (position in resets):
                break  # it does not repeat itself: what follows would be another story
            if position in resets:
                self.state = self.environment.reset()
        else:
            if self.state.tobytes() == arrays["state"].tobytes():
                return True
        self.environment.close()
        self.environment = Environment(self.config)
        self.start(self.made_at)
        return False
