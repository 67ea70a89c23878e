"""A small world in which every value is zero, so whatever critics promise is an error."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

SIZE, ACTIONS, LENGTH = 2, 6, 25


class NoisyWorld(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Rewards are noise, whatever the action. States are drawn at random.

    The actor finds the actions whose noise was good. Without the smaller of two values, nothing
    counteracts that.

    Args:
        noise: Standard deviation of the noise on each reward.
    """

    def __init__(self, noise: float = 3.0) -> None:
        self.noise, self.taken = noise, 0
        self.observation_space = spaces.Box(-1, 1, (SIZE,), np.float32)
        self.action_space = spaces.Box(-1, 1, (ACTIONS,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.taken = 0
        return self.draw(), {}

    def draw(self) -> NDArray[np.float32]:
        self.state = self.np_random.uniform(-1, 1, SIZE).astype(np.float32)
        return self.state

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        reward = self.noise * float(self.np_random.standard_normal())
        self.taken += 1
        return self.draw(), reward, False, self.taken % LENGTH == 0, {}
