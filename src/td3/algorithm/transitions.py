"""The result of one environment step, for the replay buffer. Imports no torch."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Transitions(NamedTuple):
    """At most one transition of each environment."""

    owners: NDArray[np.int64]
    """The agent of each transition."""
    environments: NDArray[np.int64]
    """The environment of each transition."""
    rows: NDArray[np.float32]
    """State, next state, action, reward, done; one row per transition."""
    begins: NDArray[np.bool_]
    """Whether the transition is the first of its episode."""
