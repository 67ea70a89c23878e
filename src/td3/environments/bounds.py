"""The range of actions: from [-1, 1] to what the environment expects. Needs NumPy only."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ActionBounds:
    """A flattened Box action space and the mapping from [-1, 1] into it."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    shape: tuple[int, ...]
    dtype: str

    def scale(self, action: NDArray[np.floating]) -> NDArray[Any]:
        """Map an action from [-1, 1] to the environment's range, shape and dtype.

        Leading axes of a batch stay.
        """
        if not self.is_unit_range:
            share = (action.astype(np.float64) + 1) / 2
            # high - low could overflow; this form cannot, and it reaches both ends exactly.
            action = self.low * (1 - share) + self.high * share
        # np.clip takes five times as long.
        clipped: NDArray[Any] = np.minimum(np.maximum(action, self.low), self.high)
        return clipped.astype(self.dtype).reshape(action.shape[:-1] + self.shape)

    @functools.cached_property
    def is_unit_range(self) -> bool:
        """Whether the environment's range is [-1, 1] already."""
        return bool((self.low == -1).all() and (self.high == 1).all())
