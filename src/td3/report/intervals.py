"""How far results over a few seeds can be trusted: means, interquartile means, comparisons."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
RESAMPLES = 2000


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Student's interval (low, high) for the mean over the first axis, the seeds.

    `values` is seeds × times (or seeds alone). It keeps its promise with few seeds too, where
    resampling them would be too sure. One seed says nothing about others: both ends are its value.
    """
    array = np.asarray(values, dtype=np.float64)
    seeds = len(array)
    if seeds == 0:
        raise ValueError("an interval needs at least one seed")
    if seeds == 1:
        return array[0], array[0]
    error = standard_errors(confidence, seeds) * array.std(axis=0, ddof=1) / seeds**0.5
    return array.mean(axis=0) - error, array.mean(axis=0) + error


def over_seeds(name: str, values: ArrayLike) -> dict[str, float | None]:
    """The mean by this name, its 95 % interval, and the spread; one seed says nothing of those."""
    array = np.asarray(values, dtype=np.float64)
    low = high = std = None
    if len(array) > 1:
        low, high = map(float, mean_interval(array))
        std = float(array.std())
    return {name: float(array.mean()), f"{name}_low": low, f"{name}_high": high, f"{name}_std": std}


@functools.cache
def standard_errors(confidence: float, seeds: float) -> float:
    """How many standard errors to either side of a mean over so many seeds are needed."""
    # With t = √freedom · tan(angle), Student's density becomes cos(angle) ** (freedom - 1).
    freedom, angles = seeds - 1, np.linspace(0, np.pi / 2, 200_001)
    density = np.cos(angles) ** (freedom - 1)
    within = np.cumsum(density[1:] + density[:-1])
    angle = np.interp(confidence, within / within[-1], angles[1:])
    return float(freedom**0.5 * np.tan(angle))


class Moments(NamedTuple):
    """What is known of a group of seeds."""

    mean: float
    std: float
    """Divided by their number, as is usually published."""
    seeds: int

    @classmethod
    def of(cls, values: Floats) -> "Moments":
        return cls(float(values.mean()), float(values.std()), len(values))

    @property
    def squared_error(self) -> float:
        """Of the mean."""
        return self.std**2 / (self.seeds - 1)


def difference_interval(
    one: Moments, other: Moments, confidence: float = 0.95
) -> tuple[float, float]:
    """Welch's interval for the mean of one group less that of another, of two seeds or more."""
    centre, error = one.mean - other.mean, one.squared_error + other.squared_error
    if error == 0:
        return centre, centre
    parts = (own.squared_error**2 / (own.seeds - 1) for own in (one, other))
    reach = standard_errors(confidence, error**2 / sum(parts) + 1) * error**0.5
    return centre - reach, centre + reach


def next_mean_interval(
    mean: float, std: float, count: int, others: int, confidence: float = 0.99
) -> tuple[float, float]:
    """Where the mean over `others` more of the same will lie, if these `count` (two or more) are
    known."""
    sample_std = std * (count / (count - 1)) ** 0.5
    reach = standard_errors(confidence, count) * sample_std * (1 / count + 1 / others) ** 0.5
    return mean - reach, mean + reach


def interquartile_mean(values: ArrayLike) -> float:
    """The mean without the lowest and the highest quarter; a value at a quarter's edge counts in
    part."""
    array = np.sort(np.asarray(values, dtype=np.float64), axis=None)
    edges = np.linspace(0, 1, len(array) + 1)
    weights = np.diff(np.clip(edges, 0.25, 0.75))
    return float(array @ weights / weights.sum())


def bootstrap(
    statistic: Callable[[list[Floats]], float],
    groups: Sequence[Floats],
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile interval of a statistic of several groups of seeds, each resampled by itself."""
    stream = np.random.default_rng(seed)
    found = [
        statistic([group[stream.integers(len(group), size=len(group))] for group in groups])
        for _ in range(RESAMPLES)
    ]
    tail = 50 * (1 - confidence)
    low, high = np.percentile(found, [tail, 100 - tail])
    return float(low), float(high)


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike) -> float:
    """How probably a seed of ours does better than one of theirs; equal ones count half."""
    one, other = np.asarray(ours)[:, None], np.asarray(theirs)[None]
    return float((one > other).mean() + (one == other).mean() / 2)
