"""Exploration noise: the same numbers however it is drawn, saved and restored."""

import copy

import numpy as np
import pytest

from td3.seeding import Streams
from td3.training.exploration import NOISE_AHEAD, GaussianExploration


def make_exploration(seeds: tuple[int, ...] = (3, 4)) -> GaussianExploration:
    streams = [Streams.from_seed(seed).explore for seed in seeds]
    return GaussianExploration(streams, 2, 3, [0.1 * (k + 1) for k in range(len(seeds))])


def test_gaussian_exploration_of_one_agent_does_not_depend_on_the_others() -> None:
    both, first = make_exploration(), make_exploration((3,))
    for _ in range(NOISE_AHEAD + 2):
        np.testing.assert_array_equal(both.draw()[:2], first.draw())
    np.testing.assert_array_equal(both.random_actions()[:2], first.random_actions())


@pytest.mark.parametrize("steps", [0, 1, NOISE_AHEAD - 1, NOISE_AHEAD, NOISE_AHEAD + 5])
def test_gaussian_exploration_restored_in_the_middle_of_a_block_continues(steps: int) -> None:
    original, other = make_exploration(), make_exploration()
    for _ in range(steps):
        original.draw()
    other.streams = copy.deepcopy(original.streams)  # a checkpoint saves them separately
    other.restore({name: array.copy() for name, array in original.state().items()})
    for _ in range(2 * NOISE_AHEAD):
        np.testing.assert_array_equal(original.draw(), other.draw())


def test_gaussian_exploration_drawing_ahead_changes_no_number() -> None:
    plain, ahead = make_exploration(), make_exploration()
    for _ in range(3 * NOISE_AHEAD):
        np.testing.assert_array_equal(plain.draw(), ahead.draw())
        ahead.prepare()


def test_gaussian_exploration_prepare_draws_nothing_before_the_first_noise() -> None:
    one, other = make_exploration(), make_exploration()
    one.prepare()
    np.testing.assert_array_equal(one.random_actions(), other.random_actions())
