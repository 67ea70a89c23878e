"""Confidence intervals for results over a few seeds."""

import functools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Student's t interval (low, high) for the mean over the first axis, the seeds.

    `values` is seeds × times, or seeds alone. With few seeds a bootstrap interval would be too
    narrow. For one seed both ends are its value.
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
    """Mean, 95 % interval and population standard deviation; the last two are None for one seed."""
    array = np.asarray(values, dtype=np.float64)
    low = high = std = None
    if len(array) > 1:
        low, high = map(float, mean_interval(array))
        std = float(array.std())
    return {name: float(array.mean()), f"{name}_low": low, f"{name}_high": high, f"{name}_std": std}


@functools.cache
def standard_errors(confidence: float, seeds: float) -> float:
    """Half the width of Student's interval for a mean over seeds, in standard errors.

    This is scipy.stats.t.ppf((1 + confidence) / 2, seeds - 1); scipy is not a requirement of td3.
    """
    # With t = √freedom · tan(angle), Student's density becomes cos(angle) ** (freedom - 1). Its
    # integral from 0 is concave, so Newton's method from 0 converges without overshooting.
    power = seeds - 2
    whole = math.exp(math.lgamma((power + 1) / 2) - math.lgamma(power / 2 + 1)) * math.pi**0.5 / 2
    nodes, weights = np.polynomial.legendre.leggauss(64)
    angle = 0.0
    for _ in range(30):
        inside = angle / 2 * float(weights @ np.cos(angle / 2 * (nodes + 1)) ** power)
        angle += (confidence * whole - inside) / math.cos(angle) ** power
    return float((seeds - 1) ** 0.5 * math.tan(angle))


def next_mean_interval(
    mean: float, std: float, count: int, others: int, confidence: float = 0.99
) -> tuple[float, float]:
    """Prediction interval for the mean of `others` new values, given `count` known ones (≥ 2)."""
    sample_std = std * (count / (count - 1)) ** 0.5
    reach = standard_errors(confidence, count) * sample_std * (1 / count + 1 / others) ** 0.5
    return mean - reach, mean + reach
