"""The study of the ants' common jump."""

import numpy as np
import pytest

from benchmarks import jump
from benchmarks.lessons.notebook import PAGES
from td3.intervals import Floats


def curves_without_jump(seeds: int = 3) -> Floats:
    drawn: Floats = np.random.default_rng(0).normal(size=(seeds, 26)).cumsum(axis=1)
    return drawn


def test_common_rise_is_that_of_the_slowest_seed_in_the_best_window() -> None:
    returns = np.array([[0, 0, 5, 5], [0, 1, 3, 9]])
    assert jump.common_rise(returns) == 5  # first window: 5 and 3, second: 5 and 8


def test_chance_is_small_for_a_planted_common_jump_and_large_without() -> None:
    returns = curves_without_jump()
    assert jump.chance_if_independent(returns, 300) > 0.05
    returns[:, 20:] += 10
    assert jump.chance_if_independent(returns, 300) < 0.02


def test_triples_are_together_if_their_steepest_windows_touch() -> None:
    returns = np.zeros((4, 26))
    for seed, place in enumerate((5, 6, 6, 15)):
        returns[seed, place:] = 1
    assert jump.share_of_triples(returns) == pytest.approx(1 / 4)


def test_phases_count_from_the_first_checkpoint() -> None:
    steps = np.arange(26.0)
    after = (steps[1:] - 1) % 5 == 0  # changes right after 0, 100,000, 200,000, …
    returns = np.concatenate([[0.0], np.cumsum(after)])[None]
    phases = jump.changes_by_phase(returns)
    assert phases.shape == (5, 4)
    assert (phases[0] == 1).all()
    assert (phases[1:] == 0).all()


def test_capstone_states_the_stored_returns_of_the_jump() -> None:
    steps, returns = jump.curves(jump.ANT)
    text = " ".join((PAGES / "20-capstone.md").read_text(encoding="utf-8").split())
    for step in (380_000, 420_000):
        first, second, third = returns[:, list(steps).index(step)]
        assert f"{first:,.0f}, {second:,.0f} and {third:,.0f}" in text
    phases = jump.changes_by_phase(returns)
    changes = f"mean change was {phases[0, :-1].mean():+.0f}, and in all other intervals"
    assert f"{changes} {phases[1:].mean():+.0f}" in text
