"""Pictures of every kind become a film, or are refused before anything is written."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from td3.errors import UserError
from td3.policy.video import encode, render


def environment(picture: Any) -> Any:
    drawn = SimpleNamespace(render=lambda: picture)
    return SimpleNamespace(env=drawn, task=SimpleNamespace(id="Some-v0"))


@pytest.mark.parametrize("shape", [(60, 80), (60, 80, 1), (60, 80, 3), (60, 80, 4)])
def test_grey_and_colour(shape: tuple[int, ...]) -> None:
    picture = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    frame = render(environment(picture))
    assert frame.shape == (240, 320, 3)
    expected = picture.reshape(60, 80, -1)[..., :3]
    assert (frame[::4, ::4] == expected).all()


@pytest.mark.parametrize("picture", [None, "text", np.zeros((0, 5, 3)), np.zeros((5, 5, 2))])
def test_what_is_no_picture_is_refused(picture: Any) -> None:
    with pytest.raises(UserError, match="Some-v0 gives no picture when rendered as rgb_array"):
        render(environment(picture))


def test_pictures_that_change_their_size_are_refused(tmp_path: Path) -> None:
    frames = [np.zeros((40, 40, 3), np.uint8), np.zeros((40, 42, 3), np.uint8)]
    with pytest.raises(UserError, match="change their size"):
        encode(tmp_path / "film.mp4", frames, 10, [])


def test_what_ffmpeg_says_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        encode(tmp_path / "none" / "film.mp4", [np.zeros((40, 40, 3), np.uint8)], 10, [])
    assert "\n" not in str(caught.value)
