"""What collecting hands to the replay buffer. Apart from both: who collects needs no torch."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Transitions(NamedTuple):
    """One transition of some environments, one row each."""

    owners: NDArray[np.int64]
    """Which agent each belongs to."""
    environments: NDArray[np.int64]
    """Which environment each happened in."""
    rows: NDArray[np.float32]
    """State, next state, action, reward, done."""
    begins: NDArray[np.bool_]
    """Whether an episode begins with it."""
