"""Intervals contain the true value as often as stated, also with few seeds."""

import numpy as np
import pytest

from td3.intervals import (
    mean_interval,
    next_mean_interval,
    standard_errors,
)
from td3.report.reference import Reference


@pytest.mark.parametrize(
    ("seeds", "known"), [(2, 12.7062), (3, 4.30265), (10, 2.26216), (31, 2.04227), (1001, 1.96234)]
)
def test_standard_errors_match_published_table(seeds: int, known: float) -> None:
    assert standard_errors(0.95, seeds) == pytest.approx(known, rel=1e-5)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("seeds", [2, 2.5, 7, 40, 2000])
def test_standard_errors_match_scipy(confidence: float, seeds: float) -> None:
    students = pytest.importorskip("scipy.stats").t.ppf((1 + confidence) / 2, seeds - 1)
    assert standard_errors(confidence, seeds) == pytest.approx(students, rel=1e-8)


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_mean_interval_covers_true_mean_at_stated_rate(seeds: int) -> None:
    drawn = np.random.default_rng(0).normal(5.0, 2.0, (seeds, 20_000))
    low, high = mean_interval(drawn)
    assert ((low < 5.0) & (high > 5.0)).mean() == pytest.approx(0.95, abs=0.006)


@pytest.mark.parametrize(("count", "others"), [(5, 5), (100, 10), (100, 100)])
def test_next_mean_interval_covers_next_mean_at_stated_rate(count: int, others: int) -> None:
    stream, inside = np.random.default_rng(count + others), []
    for _ in range(4000):
        known, more = stream.normal(3, 2, count), stream.normal(3, 2, others)
        low, high = next_mean_interval(known.mean(), known.std(), count, others, 0.9)
        inside.append(low < more.mean() < high)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.015)


def test_mean_interval_of_columns_is_independent_and_needs_a_seed() -> None:
    column = np.arange(6.0)
    low, high = mean_interval(np.stack([column, column], axis=1))
    assert low[0] == low[1] < column.mean() < high[0] == high[1]
    np.testing.assert_array_equal(mean_interval(column), [low[0], high[0]])
    assert mean_interval([3.0]) == (3.0, 3.0)
    with pytest.raises(ValueError, match="at least one seed"):
        mean_interval([])


def test_reference_has_the_interval_of_the_same_seeds() -> None:
    values = np.array([[1.0, 5.0], [2.0, 9.0], [4.0, 7.0]])
    steps, moments = np.array([10.0, 20.0]), (values.mean(axis=0), values.std(axis=0))
    published = Reference("Task-v0", steps, *moments, seeds=3)
    _, high = mean_interval(values)
    np.testing.assert_allclose(published.mean + published.error, high)
    np.testing.assert_allclose(published.deviation, values.std(axis=0, ddof=1))
