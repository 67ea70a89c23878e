"""Statistics over seeds: Welch's interval, bootstrap, interquartile mean.

scipy.stats.bootstrap draws other random numbers, and scipy.stats.trim_mean drops whole values
only, so two functions are written here: the published figures depend on them.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from td3.intervals import Floats, Moments

RESAMPLES = 2000


def welch_interval(one: Moments, other: Moments) -> tuple[float, float]:
    """Return the 95 % interval of the difference of two means, each of two seeds or more."""
    parts = [group.std**2 / (group.seeds - 1) for group in (one, other)]  # std has ddof = 0
    centre, variance = one.mean - other.mean, sum(parts)
    if variance == 0:
        return centre, centre
    freedom = variance**2 / sum(
        part**2 / (group.seeds - 1) for part, group in zip(parts, (one, other), strict=True)
    )
    low, high = stats.t.interval(0.95, freedom, loc=centre, scale=variance**0.5)
    return float(low), float(high)


def bootstrap_interval(
    statistic: Callable[[list[Floats]], float], groups: Sequence[Floats]
) -> tuple[float, float]:
    """Return the 95 % percentile interval; each group of seeds is resampled separately."""
    stream = np.random.default_rng(0)
    found = [
        statistic([group[stream.integers(len(group), size=len(group))] for group in groups])
        for _ in range(RESAMPLES)
    ]
    return percentile_interval(found)


def percentile_interval(values: Floats | list[float]) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def interquartile_mean(values: ArrayLike) -> float:
    """Return the mean of the middle half; values at its edges count in part."""
    array = np.sort(np.asarray(values, dtype=np.float64), axis=None)
    edges = np.linspace(0, 1, len(array) + 1)
    weights = np.diff(np.clip(edges, 0.25, 0.75))
    return float(array @ weights / weights.sum())


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike) -> float:
    """Return the probability that a seed of ours beats one of theirs; ties count half.

    This is scipy.stats.mannwhitneyu's U divided by the number of pairs, without its p-value, which
    would take minutes in the resampling.
    """
    one, other = np.asarray(ours)[:, None], np.asarray(theirs)[None]
    return float((one > other).mean() + (one == other).mean() / 2)
