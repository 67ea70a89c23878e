"""Statistics over seeds that the result pages use."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.td3_bench.seed_statistics import (
    Moments,
    bootstrap_interval,
    holm,
    interquartile_mean,
    probability_of_improvement,
    welch_interval,
    welch_p_value,
)
from td3.intervals import mean_interval
from td3.report.reference import Reference


def test_interquartile_mean_ignores_outer_quarters() -> None:
    assert interquartile_mean([100.0, 2.0, 3.0, -50.0]) == 2.5
    assert interquartile_mean([7.0]) == 7.0
    assert interquartile_mean([0.0, 1.0, 5.0]) == pytest.approx((0.0 / 12 + 1 / 3 + 5 / 12) * 2)
    many = np.random.default_rng(1).normal(size=(100, 70))
    assert interquartile_mean(many) == pytest.approx(float(np.median(many)), abs=0.05)


def test_bootstrap_resamples_each_group_separately() -> None:
    """The distance between groups does not widen the interval."""
    stream = np.random.default_rng(2)
    groups = [stream.normal(centre, 1.0, 40) for centre in (0.0, 1000.0)]
    low, high = bootstrap_interval(lambda found: float(np.mean([g.mean() for g in found])), groups)
    error = 1.96 * (2 / 40) ** 0.5 / 2
    centre = np.mean([group.mean() for group in groups])
    assert low == pytest.approx(centre - error, abs=0.06)
    assert high == pytest.approx(centre + error, abs=0.06)
    same = bootstrap_interval(lambda found: float(found[0].mean()), groups)
    assert same == bootstrap_interval(lambda found: float(found[0].mean()), groups)


def test_probability_of_improvement_counts_pairs() -> None:
    assert probability_of_improvement([3.0, 4.0], [1.0, 2.0]) == 1.0
    assert probability_of_improvement([1.0, 2.0], [1.0, 2.0]) == 0.5
    assert probability_of_improvement([1.0, 2.5], [2.0]) == 0.5


def test_moments_of_a_published_curve_average_its_steps_or_take_the_best() -> None:
    values = np.array([[1.0, 5.0], [2.0, 9.0], [4.0, 7.0]])
    mean, std = values.mean(axis=0), values.std(axis=0)
    curve = Reference("Task-v0", np.array([10.0, 20.0]), mean, std, seeds=3)
    assert Moments.published(curve) == pytest.approx((values.mean(), std.mean(), 3))
    assert Moments.best_published(curve) == pytest.approx(Moments.of(values[:, 1]))


def test_welch_interval_against_a_group_without_variance_equals_students() -> None:
    values = np.random.default_rng(3).normal(5.0, 2.0, 6)
    low, high = mean_interval(values)
    known = Moments(0.0, 0.0, 3)
    assert welch_interval(Moments.of(values), known) == pytest.approx((float(low), float(high)))
    assert welch_interval(known, known) == (0.0, 0.0)


def test_welch_interval_and_p_value_equal_scipys() -> None:
    stream = np.random.default_rng(4)
    one, other = stream.normal(5.0, 2.0, 6), stream.normal(4.0, 1.0, 9)
    known = stats.ttest_ind(one, other, equal_var=False)
    groups = Moments.of(one), Moments.of(other)
    assert welch_p_value(*groups) == pytest.approx(known.pvalue)
    assert welch_interval(*groups) == pytest.approx(tuple(known.confidence_interval()))
    assert welch_p_value(Moments(1.0, 0.0, 3), Moments(1.0, 0.0, 3)) == 1.0
    assert welch_p_value(Moments(1.0, 0.0, 3), Moments(2.0, 0.0, 3)) == 0.0


def test_holm_multiplies_the_smallest_by_the_number_and_never_decreases() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
