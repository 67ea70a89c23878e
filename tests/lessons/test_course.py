"""The capstone's material."""

import numpy as np
import pytest

import td3
from td3.errors import UserError
from td3.lessons.course import film_strip, stored_curves


def test_stored_curves_have_one_row_for_each_seed() -> None:
    steps, returns = stored_curves("AntBulletEnv-v0")
    assert returns.shape == (3, len(steps))
    assert steps[0] == 0
    assert steps[-1] == 500_000


def test_stored_curves_of_an_unknown_task_are_an_error() -> None:
    with pytest.raises(UserError, match="no stored curves of Pendulum-v1"):
        stored_curves("Pendulum-v1")


def test_film_strip_shows_frames_of_different_moments_side_by_side() -> None:
    pytest.importorskip("pybullet")
    strip = film_strip(td3.load_policy(pretrained="AntBulletEnv-v0"), frames=3, every=10)
    first, _, last = np.split(strip, 3, axis=1)
    assert strip.dtype == np.uint8
    assert not np.array_equal(first, last)
