"""Frames of every kind become a video, or are refused with one sentence."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from td3.config import EnvironmentConfig
from td3.environments.factories import name_environment
from td3.errors import UserError
from td3.policy import video
from td3.policy.video import add_caption, can_film, encode, make_renderable, play, render


def environment(picture: Any) -> Any:
    drawn = SimpleNamespace(render=lambda: picture)
    return SimpleNamespace(env=drawn, task=SimpleNamespace(id="Some-v0"))


@pytest.mark.parametrize("shape", [(60, 80), (60, 80, 1), (60, 80, 3), (60, 80, 4)])
def test_render_greyscale_or_colour_gives_enlarged_rgb(shape: tuple[int, ...]) -> None:
    picture = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    frame = render(environment(picture))
    assert frame.shape == (240, 320, 3)
    expected = picture.reshape(60, 80, -1)[..., :3]
    assert (frame[::4, ::4] == expected).all()


@pytest.mark.parametrize("picture", [None, "text", np.zeros((0, 5, 3)), np.zeros((5, 5, 2))])
def test_render_without_image_is_refused(picture: Any) -> None:
    with pytest.raises(UserError, match="Some-v0 cannot be filmed: accept render_mode="):
        render(environment(picture))


class Bare(gym.Env[Any, Any]):
    """Renders nothing."""

    observation_space = action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, **options: Any) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), 0.0, False, False, {}


class Draws(Bare):
    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.zeros((40, 40, 3), np.uint8)


class Registered(Bare):
    """Gymnasium, not td3, passes `render_mode` to it."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012


def test_environment_without_render_is_told_what_filming_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = (
        ' cannot be filmed: accept render_mode="rgb_array" in its constructor and return an image '
        "from render()."
    )
    name, _ = name_environment(Bare)
    with pytest.raises(UserError) as caught:
        render(make_renderable(EnvironmentConfig(name)))
    assert str(caught.value) == name + expected
    spec = EnvSpec("Registered-v0", Registered)
    monkeypatch.setitem(gym.registry, "Registered-v0", spec)
    with pytest.raises(UserError) as caught:
        make_renderable(EnvironmentConfig("Registered-v0"))
    assert str(caught.value) == "Registered-v0" + expected


@pytest.mark.parametrize(("kind", "expected"), [(Bare, False), (Draws, True)])
def test_can_film_only_what_renders_frames(kind: type[Bare], expected: bool) -> None:
    assert can_film(EnvironmentConfig(name_environment(kind)[0])) is expected


def test_encode_frames_of_different_sizes_is_refused(tmp_path: Path) -> None:
    frames = [np.zeros((40, 40, 3), np.uint8), np.zeros((40, 42, 3), np.uint8)]
    with pytest.raises(UserError, match="Frames differ in size"):
        encode(tmp_path / "film.mp4", frames, 10, [])


def test_encode_ffmpeg_error_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        encode(tmp_path / "none" / "film.mp4", [np.zeros((40, 40, 3), np.uint8)], 10, [])
    assert "\n" not in str(caught.value)


def test_encode_that_fails_keeps_the_older_film(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, film = tmp_path / "ffmpeg", tmp_path / "film.mp4"
    film.write_bytes(b"older")
    program.write_text('#!/bin/sh\nfor last; do :; done\ncat > "$last"\necho full >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(video, "find_ffmpeg", lambda: str(program))
    with pytest.raises(UserError, match=r"film.mp4: full\.$"):
        encode(film, [np.zeros((40, 40, 3), np.uint8)], 10, [])
    assert film.read_bytes() == b"older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ffmpeg", "film.mp4"]


def test_encode_does_not_write_through_a_link_in_a_run(tmp_path: Path) -> None:
    (tmp_path / "config.toml").touch()
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / ".writing-film.mp4").symlink_to(tmp_path / "mine.mp4")
    with pytest.raises(UserError, match="is a symbolic link"):
        encode(tmp_path / "videos" / "film.mp4", [np.zeros((40, 40, 3), np.uint8)], 10, [])
    assert not (tmp_path / "mine.mp4").exists()


@pytest.mark.parametrize("text", ["Task-v0 · step 1,000", "a name that does not fit " * 3])
def test_add_caption_puts_text_into_a_bar_below_the_frame(text: str) -> None:
    frame = np.full((240, 320, 3), 77, np.uint8)
    captioned = add_caption(frame, text)
    height, width, _ = captioned.shape
    assert width == 320
    assert 240 < height <= 260
    assert (captioned[:240] == frame).all()
    bar = captioned[240:]
    assert bar.max() > 150, "no text"
    assert (bar[:, -3:] == bar[0, 0]).all(), "the text touches the edge"


@pytest.mark.parametrize(("caption", "heights"), [(True, {257}), (False, {240})])
def test_film_caption_can_be_turned_off(
    caption: bool, heights: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = environment(np.zeros((240, 320, 3), np.uint8))
    task.env.unwrapped, task.env.metadata = task.env, {"render_fps": 10}
    task.reset, task.close = lambda seed: np.zeros(1), lambda: None
    task.step = lambda action: (action, 1.0, False, False)
    acting: Any = SimpleNamespace(
        act=lambda state: state,
        check_fits=lambda task: None,
        step=5000,
        task_to_play=lambda *rest: SimpleNamespace(id="Some-v0", action_repeat=1),
    )
    written: list[Any] = []
    monkeypatch.setattr(video, "make_renderable", lambda config: task)
    monkeypatch.setattr(video, "encode", lambda path, frames, *rest: written.extend(frames))
    video.film(acting, tmp_path / "film", seconds=1, caption=caption)
    assert len(written) == 2 * 10
    assert {len(frame) for frame in written} == heights


def test_play_yields_return_so_far() -> None:
    rewards = iter([1.0, 2.0, 4.0])
    acting: Any = SimpleNamespace(act=lambda state: state)
    task = environment(np.zeros((240, 240, 3), np.uint8))
    task.reset = lambda seed: np.zeros(1)
    task.step = lambda action: (action, reward := next(rewards), reward == 4.0, False)
    assert [earned for _, earned in play(acting, task, seed=0, limit=9)] == [0.0, 1.0, 3.0, 7.0]
