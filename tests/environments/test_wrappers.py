"""Gymnasium's wrappers by configuration, and the errors for tasks that they do not fit."""

from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from td3.config import Config, EnvironmentConfig
from td3.config.checks import check
from td3.environments.environment import Environment
from td3.errors import UserError

FIND = "support.find:Find-v0"


def make(env_id: str, **settings: Any) -> Environment:
    return Environment(EnvironmentConfig(env_id, **settings))


def test_pixels_observe_the_rendered_image() -> None:
    env = make("Pendulum-v1", pixels=True)
    assert env.task.layout == {"image": [500, 500, 3]}
    state = env.reset(seed=0)
    np.testing.assert_array_equal(state.reshape(500, 500, 3), env.env.render())
    env.close()


def test_pixels_with_an_image_task_keep_its_own_image() -> None:
    env = make("CarRacing-v3", pixels=True, resize=48)
    assert env.task.layout == {"image": [48, 48, 3]}
    env.close()
    env = make(FIND, pixels=True)
    assert "dict" in env.task.layout
    env.close()


@pytest.mark.parametrize("grey", [False, True])
def test_resize_grey_and_frame_stack_combine(grey: bool) -> None:
    env = make("Pendulum-v1", pixels=True, resize=24, grey=grey, frame_stack=3)
    shape = [24, 24] if grey else [24, 24, 3]
    assert env.task.layout == {"stack": 3, "of": {"image": shape}}
    first = env.reset(seed=0).reshape(3, -1)
    assert (first[0] == first[1]).all()
    assert (first[1] == first[2]).all()
    states = [first, *(env.step(np.ones(1))[0].reshape(3, -1) for _ in range(3))]
    for before, after in pairwise(states):
        np.testing.assert_array_equal(before[1:], after[:2])
    assert (states[-1][1] != states[-1][2]).any()
    env.close()


def test_frame_stack_of_a_reused_array_keeps_old_frames() -> None:
    class Reused(gym.Env[Any, Any]):
        observation_space = gym.spaces.Box(0, 99, (1,), np.float32)
        action_space = gym.spaces.Box(-1, 1, (1,))
        array = np.zeros(1, dtype=np.float32)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            self.array[:] = 0
            return self.array, {}

        def step(self, action: Any) -> Any:
            self.array += 1
            return self.array, 0.0, False, False, {}

    gym.register("Reused-v0", Reused)
    try:
        env = make("Reused-v0", frame_stack=3)
        env.reset(seed=0)
        found = [env.step(np.zeros(1))[0].tolist() for _ in range(3)]
    finally:
        gym.registry.pop("Reused-v0")
    assert found == [[0, 0, 1], [0, 1, 2], [1, 2, 3]]


def test_resize_makes_mujoco_render_at_that_size() -> None:
    env = make("HalfCheetah-v5", pixels=True, resize=32)
    assert env.env.render().shape == (32, 32, 3)  # type: ignore[union-attr]
    env.close()


def test_action_repeat_repeats_the_action_and_sums_rewards() -> None:
    once, repeated = make("Pendulum-v1"), make("Pendulum-v1", action_repeat=3)
    once.reset(seed=3)
    repeated.reset(seed=3)
    steps = [once.step(np.full(1, 0.3)) for _ in range(3)]
    state, reward, _, _ = repeated.step(np.full(1, 0.3))
    np.testing.assert_array_equal(state, steps[-1][0])
    assert reward == pytest.approx(sum(step[1] for step in steps))
    length = 1
    while not repeated.step(np.zeros(1))[3]:
        length += 1
    assert length + 1 == 67  # 200 simulator steps


@pytest.mark.parametrize(
    ("env_id", "setting", "message"),
    [
        (
            "HalfCheetah-v5",
            {"resize": 84},
            r"resize needs an image, .* observes numbers of shape \(17,\)",
        ),
        ("HalfCheetah-v5", {"grey": True}, r"grey needs an image, but HalfCheetah-v5 observes"),
        (FIND, {"resize": 8}, r"resize needs an image, but .* a Dict space; remove the"),
    ],
)
def test_image_option_without_an_image_raises_user_error(
    env_id: str, setting: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        make(env_id, **setting)


@pytest.mark.parametrize("setting", [{"resize": 8}, {"grey": True}])
def test_image_option_with_channels_first_raises_user_error(setting: dict[str, Any]) -> None:
    class First(gym.Env[Any, Any]):
        observation_space = gym.spaces.Box(0, 255, (3, 16, 16), np.uint8)
        action_space = gym.spaces.Box(-1, 1, (1,))

    gym.register("First-v0", First)
    try:
        with pytest.raises(UserError, match="needs channels after height and width"):
            make("First-v0", **setting)
    finally:
        gym.registry.pop("First-v0")


def test_missing_opencv_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: Any) -> None:
        raise gym.error.DependencyNotInstalled("opencv is not installed")

    monkeypatch.setattr("gymnasium.wrappers.ResizeObservation", missing)
    with pytest.raises(UserError, match=r"environment.resize needs .* pip install 'td3\[pixels\]'"):
        make("CarRacing-v3", resize=48)


@pytest.mark.parametrize("vectorization", ["sync", "async", "envpool"])
@pytest.mark.parametrize("setting", [{"frame_stack": 2}, {"grey": True}, {"action_repeat": 2}])
def test_check_refuses_wrappers_for_foreign_vectors(
    vectorization: Any, setting: dict[str, Any]
) -> None:
    environment = EnvironmentConfig("Pendulum-v1", vectorization=vectorization, **setting)
    with pytest.raises(UserError, match=r"does not work with .*; set that to auto"):
        check(Config(environment=environment))
