"""Gaussian noise that is held for several steps."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.environments.base import Arrays
from td3.errors import UserError
from td3.training.exploration.gaussian import NOISE_AHEAD, GaussianExploration


class ZetaExploration(GaussianExploration):
    """Gaussian noise held for k steps, where k has probability ∝ k^-exponent, as in FlashSAC.

    k is at most `longest`. With the defaults, noise is held for 2.1 steps on average. An episode
    begins with new noise.
    """

    def __init__(self, *given: Any, exponent: float = 2.0, longest: int = 16) -> None:
        super().__init__(*given)
        if isinstance(longest, bool) or not isinstance(longest, int) or longest < 1:
            raise UserError(
                f"longest of zeta noise must be a whole number of 1 or more, got {longest}."
            )
        sums = np.cumsum(np.arange(1, longest + 1) ** -float(exponent))
        self.cumulative = sums / sums[-1]
        """Probability that k is at most 1, 2, …"""
        environments = len(self.standard_deviation)
        self.durations = np.empty((0, environments), dtype=np.int64)
        """k for noise that begins in each step of the block."""
        self.held = np.zeros((environments, self.shape[1]))
        self.left = np.zeros(environments, dtype=np.int64)
        """Steps for which the noise will still be held."""

    def draw_block(self) -> None:
        super().draw_block()
        shape = (NOISE_AHEAD, self.shape[0])
        draws = np.concatenate([stream.random(shape) for stream in self.streams], axis=1)
        self.durations = 1 + np.searchsorted(self.cumulative, draws, side="right")

    def draw(self, begins: NDArray[np.bool_]) -> NDArray[np.float64]:
        fresh = super().draw(begins)
        over = begins | (self.left == 0)
        self.held = np.where(over[:, None], fresh, self.held)
        self.left = np.where(over, self.durations[self.used - 1], self.left) - 1
        return self.held

    def restart(self, agent: int) -> None:
        super().restart(agent)
        if left := len(self.normal) - self.used:
            draws = self.streams[agent].random((left, self.shape[0]))
            durations = 1 + np.searchsorted(self.cumulative, draws, side="right")
            self.durations[self.used :, self.rows_of(agent)] = durations
        self.left[self.rows_of(agent)] = 0

    def state(self) -> Arrays:
        block = super().state()
        if block:
            block["durations"] = self.durations[self.used :]
        return block | {"held": self.held, "left": self.left}

    def restore(self, arrays: Arrays) -> None:
        if "held" not in arrays:  # noise of another kind has no durations
            return
        super().restore(arrays)
        if (arrays["held"].shape, arrays["left"].shape) != (self.held.shape, self.left.shape):
            raise ValueError("its noise is of another number of environments or actions")
        self.held, self.left = arrays["held"], arrays["left"]
        if "durations" in arrays:
            self.durations = arrays["durations"]
