"""Intervals keep their promise, also with few seeds."""

import numpy as np
import pytest

from td3.report.intervals import (
    Moments,
    bootstrap,
    difference_interval,
    interquartile_mean,
    mean_interval,
    next_mean_interval,
    probability_of_improvement,
    standard_errors,
)
from td3.report.reference import Reference


@pytest.mark.parametrize(
    ("seeds", "known"), [(2, 12.7062), (3, 4.30265), (10, 2.26216), (31, 2.04227), (1001, 1.96234)]
)
def test_students_numbers_are_those_of_the_table(seeds: int, known: float) -> None:
    assert standard_errors(0.95, seeds) == pytest.approx(known, rel=1e-5)


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_the_true_mean_lies_inside_as_often_as_promised(seeds: int) -> None:
    drawn = np.random.default_rng(0).normal(5.0, 2.0, (seeds, 20_000))
    low, high = mean_interval(drawn)
    assert ((low < 5.0) & (high > 5.0)).mean() == pytest.approx(0.95, abs=0.006)


@pytest.mark.parametrize(("count", "others"), [(5, 5), (100, 10), (100, 100)])
def test_the_next_mean_lies_inside_as_often_as_promised(count: int, others: int) -> None:
    stream, inside = np.random.default_rng(count + others), []
    for _ in range(4000):
        known, more = stream.normal(3, 2, count), stream.normal(3, 2, others)
        low, high = next_mean_interval(known.mean(), known.std(), count, others, 0.9)
        inside.append(low < more.mean() < high)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.015)


def test_times_are_treated_alike_and_one_seed_has_none() -> None:
    column = np.arange(6.0)
    low, high = mean_interval(np.stack([column, column], axis=1))
    assert low[0] == low[1] < column.mean() < high[0] == high[1]
    np.testing.assert_array_equal(mean_interval(column), [low[0], high[0]])
    assert mean_interval([3.0]) == (3.0, 3.0)
    with pytest.raises(ValueError, match="at least one seed"):
        mean_interval([])


def test_the_interquartile_mean_leaves_out_half() -> None:
    assert interquartile_mean([100.0, 2.0, 3.0, -50.0]) == 2.5
    assert interquartile_mean([7.0]) == 7.0
    assert interquartile_mean([0.0, 1.0, 5.0]) == pytest.approx((0.0 / 12 + 1 / 3 + 5 / 12) * 2)
    many = np.random.default_rng(1).normal(size=(100, 70))
    assert interquartile_mean(many) == pytest.approx(float(np.median(many)), abs=0.05)


def test_each_group_is_resampled_by_itself() -> None:
    """Groups far apart do not add to the width: between them nothing is drawn."""
    stream = np.random.default_rng(2)
    groups = [stream.normal(centre, 1.0, 40) for centre in (0.0, 1000.0)]
    low, high = bootstrap(lambda found: float(np.mean([g.mean() for g in found])), groups)
    error = 1.96 * (2 / 40) ** 0.5 / 2
    centre = np.mean([group.mean() for group in groups])
    assert low == pytest.approx(centre - error, abs=0.06)
    assert high == pytest.approx(centre + error, abs=0.06)
    same = bootstrap(lambda found: float(found[0].mean()), groups)
    assert same == bootstrap(lambda found: float(found[0].mean()), groups)


def test_improvement_counts_pairs() -> None:
    assert probability_of_improvement([3.0, 4.0], [1.0, 2.0]) == 1.0
    assert probability_of_improvement([1.0, 2.0], [1.0, 2.0]) == 0.5
    assert probability_of_improvement([1.0, 2.5], [2.0]) == 0.5


def test_what_others_published_is_as_uncertain_as_the_same_seeds_of_ours() -> None:
    values = np.array([[1.0, 5.0], [2.0, 9.0], [4.0, 7.0]])
    steps, moments = np.array([10.0, 20.0]), (values.mean(axis=0), values.std(axis=0))
    published = Reference("Task-v0", steps, *moments, seeds=3)
    low, high = mean_interval(values)
    np.testing.assert_allclose(published.mean + published.error, high)
    np.testing.assert_allclose(published.deviation, values.std(axis=0, ddof=1))
    assert published.best.moments == pytest.approx(Moments.of(values[:, 1]))
    assert published.moments == pytest.approx((values.mean(), published.std.mean(), 3))
    # Against what is certain, Welch's interval is Student's.
    known = Moments(0.0, 0.0, 3)
    found = difference_interval(Moments.of(values[:, 0]), known)
    assert found == pytest.approx((low[0], high[0]))
    assert difference_interval(known, known) == (0.0, 0.0)
