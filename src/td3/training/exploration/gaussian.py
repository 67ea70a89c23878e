"""Independent Gaussian noise."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.environments.base import Arrays
from td3.training.exploration.base import Exploration

NOISE_AHEAD = 64  # steps


class GaussianExploration(Exploration):
    """Independent Gaussian noise in every step and every action component, as in the paper."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.use(np.empty((0, len(self.standard_deviation), self.shape[1])))

    def draw(self, begins: NDArray[np.bool_]) -> NDArray[np.float64]:
        if self.used == len(self.normal):
            self.draw_block()
        noise: NDArray[np.float64] = self.noise[self.used]
        self.used += 1
        return noise

    def prepare(self) -> None:
        """Draw the next block early, unless no noise was needed so far."""
        if 0 < len(self.normal) == self.used:
            self.draw_block()

    def draw_block(self) -> None:
        """Draw noise for many steps: one call takes about as long for many numbers as for few."""
        shape = (NOISE_AHEAD, *self.shape)
        self.use(np.concatenate([stream.standard_normal(shape) for stream in self.streams], axis=1))

    def use(self, normal: NDArray[np.float64]) -> None:
        """Take these standard normal numbers, (steps, environments, action_dim), from now on."""
        self.normal, self.used = normal, 0
        self.noise = normal * self.standard_deviation

    def restart(self, agent: int) -> None:
        left, rows = len(self.normal) - self.used, self.rows_of(agent)
        if left:
            fresh = self.streams[agent].standard_normal((left, *self.shape))
            self.normal[self.used :, rows] = fresh
            self.noise[self.used :, rows] = fresh * self.standard_deviation[rows]

    def state(self) -> Arrays:
        return {"noise": self.normal[self.used :]} if self.used < len(self.normal) else {}

    def restore(self, arrays: Arrays) -> None:
        if "noise" in arrays:
            self.use(arrays["noise"].reshape(-1, *self.normal.shape[1:]))
