"""Ornstein–Uhlenbeck noise."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.environments.base import Arrays
from td3.errors import UserError
from td3.training.exploration.gaussian import GaussianExploration


class OrnsteinUhlenbeckExploration(GaussianExploration):
    """Noise that drifts back to zero (Uhlenbeck & Ornstein, 1930), as in DDPG.

    Each step keeps `1 - theta` of the noise and adds fresh Gaussian noise, as much as keeps the
    standard deviation at its setting. An episode begins with independent noise. Libraries with a
    time step `dt` have `theta * dt` here.
    """

    def __init__(self, *given: Any, theta: float = 0.15) -> None:
        super().__init__(*given)
        if not 0 < theta <= 1:
            raise UserError(
                f"theta of Ornstein-Uhlenbeck noise must be above 0 and at most 1, got {theta}."
            )
        self.kept = 1 - theta
        self.fresh = math.sqrt(1 - self.kept**2)
        self.last: NDArray[np.float64] | None = None
        """The noise of the last step."""

    def draw(self, begins: NDArray[np.bool_]) -> NDArray[np.float64]:
        normal = super().draw(begins)
        if self.last is None:
            self.last = normal
        else:
            drifted = self.kept * self.last + self.fresh * normal
            self.last = np.where(begins[:, None] | np.isnan(self.last), normal, drifted)
        return self.last

    def restart(self, agent: int) -> None:
        super().restart(agent)
        if self.last is not None:
            self.last[self.rows_of(agent)] = np.nan

    def state(self) -> Arrays:
        return super().state() | ({} if self.last is None else {"last": self.last})

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self.last = arrays.get("last")
        if self.last is not None and self.last.shape != self.normal.shape[1:]:
            raise ValueError("its noise is of another number of environments or actions")
