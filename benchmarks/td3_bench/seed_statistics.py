"""Statistics over seeds: Welch's interval, bootstrap, interquartile mean.

scipy.stats.bootstrap draws other random numbers, and scipy.stats.trim_mean drops whole values
only, so two functions are written here: the published figures depend on them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from td3.intervals import Floats
from td3.report.reference import Reference

RESAMPLES = 2000


class Moments(NamedTuple):
    """Mean and spread of a group of seeds."""

    mean: float
    std: float
    """Population standard deviation (ddof = 0), as usually published."""
    seeds: int

    @classmethod
    def of(cls, values: Floats) -> "Moments":
        return cls(float(values.mean()), float(values.std()), len(values))

    @classmethod
    def published(cls, curve: Reference) -> "Moments":
        """Mean and deviation of a published curve, averaged over its steps."""
        return cls(float(curve.mean.mean()), float(curve.std.mean()), curve.seeds)

    @classmethod
    def best_published(cls, curve: Reference) -> "Moments":
        """Mean and deviation of the evaluation with the best mean."""
        return cls.published(curve.at(curve.steps[curve.mean.argmax()]))

    @property
    def squared_error(self) -> float:
        """The squared standard error of the mean."""
        return self.std**2 / (self.seeds - 1)


def welch_interval(one: Moments, other: Moments) -> tuple[float, float]:
    """Return the 95 % interval of the difference of two means, each of two seeds or more."""
    parts = [one.squared_error, other.squared_error]
    centre, variance = one.mean - other.mean, sum(parts)
    if variance == 0:
        return centre, centre
    freedom = variance**2 / sum(
        part**2 / (group.seeds - 1) for part, group in zip(parts, (one, other), strict=True)
    )
    low, high = stats.t.interval(0.95, freedom, loc=centre, scale=variance**0.5)
    return float(low), float(high)


def welch_p_value(one: Moments, other: Moments) -> float:
    """Return the p value of Welch's test for equal means."""
    if one.squared_error + other.squared_error == 0:
        return float(one.mean == other.mean)
    groups = [
        number
        for group in (one, other)
        for number in (group.mean, (group.seeds * group.squared_error) ** 0.5, group.seeds)
    ]
    return float(stats.ttest_ind_from_stats(*groups, equal_var=False).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values that are corrected for their number by Holm's method."""
    order, count = np.argsort(p_values), len(p_values)
    grown = np.asarray(p_values)[order] * (count - np.arange(count))
    corrected = np.empty(count)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(grown))
    return corrected.tolist()


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
