"""Images from any task: Gymnasium's wrappers by setting, and what they cannot wrap."""

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


def made(env_id: str, **settings: Any) -> Environment:
    return Environment(EnvironmentConfig(env_id, **settings))


def test_pixels_are_what_the_task_renders() -> None:
    env = made("Pendulum-v1", pixels=True)
    assert env.task.layout == {"image": [500, 500, 3]}
    state = env.reset(seed=0)
    np.testing.assert_array_equal(state.reshape(500, 500, 3), env.env.render())
    env.close()


def test_a_task_that_observes_an_image_keeps_its_own() -> None:
    env = made("CarRacing-v3", pixels=True, resize=48)
    assert env.task.layout == {"image": [48, 48, 3]}
    env.close()
    env = made(FIND, pixels=True)
    assert "dict" in env.task.layout
    env.close()


@pytest.mark.parametrize("grey", [False, True])
def test_small_grey_and_stacked(grey: bool) -> None:
    env = made("Pendulum-v1", pixels=True, resize=24, grey=grey, frame_stack=3)
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


def test_a_stack_of_an_array_that_is_used_again() -> None:
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
        env = made("Reused-v0", frame_stack=3)
        env.reset(seed=0)
        found = [env.step(np.zeros(1))[0].tolist() for _ in range(3)]
    finally:
        gym.registry.pop("Reused-v0")
    assert found == [[0, 0, 1], [0, 1, 2], [1, 2, 3]]


def test_mujoco_draws_in_the_size_that_is_wanted() -> None:
    env = made("HalfCheetah-v5", pixels=True, resize=32)
    assert env.env.render().shape == (32, 32, 3)  # type: ignore[union-attr]
    env.close()


def test_an_action_lasts_as_long_as_it_is_repeated() -> None:
    once, thrice = made("Pendulum-v1"), made("Pendulum-v1", action_repeat=3)
    once.reset(seed=3)
    thrice.reset(seed=3)
    steps = [once.step(np.full(1, 0.3)) for _ in range(3)]
    state, reward, _, _ = thrice.step(np.full(1, 0.3))
    np.testing.assert_array_equal(state, steps[-1][0])
    assert reward == pytest.approx(sum(step[1] for step in steps))
    length = 1
    while not thrice.step(np.zeros(1))[3]:
        length += 1
    assert length + 1 == 67  # 200 steps of the simulator


@pytest.mark.parametrize(
    ("env_id", "setting", "said"),
    [
        (
            "HalfCheetah-v5",
            {"resize": 84},
            r"resize changes .* observes numbers of shape \(17,\)",
        ),
        ("HalfCheetah-v5", {"grey": True}, r"grey changes a picture, but HalfCheetah-v5 observes"),
        (FIND, {"resize": 8}, r"resize changes a picture, but .* a Dict space; leave it out"),
    ],
)
def test_what_does_not_fit_is_said(env_id: str, setting: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        made(env_id, **setting)


@pytest.mark.parametrize("setting", [{"resize": 8}, {"grey": True}])
def test_channels_have_to_lie_behind(setting: dict[str, Any]) -> None:
    class First(gym.Env[Any, Any]):
        observation_space = gym.spaces.Box(0, 255, (3, 16, 16), np.uint8)
        action_space = gym.spaces.Box(-1, 1, (1,))

    gym.register("First-v0", First)
    try:
        with pytest.raises(UserError, match="needs channels behind height and width"):
            made("First-v0", **setting)
    finally:
        gym.registry.pop("First-v0")


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: Any) -> None:
        raise gym.error.DependencyNotInstalled("opencv is not installed")

    monkeypatch.setattr("gymnasium.wrappers.ResizeObservation", missing)
    with pytest.raises(UserError, match=r"environment.resize needs .* pip install 'td3\[pixels\]'"):
        made("CarRacing-v3", resize=48)


@pytest.mark.parametrize("who", ["sync", "async", "envpool"])
@pytest.mark.parametrize("setting", [{"frame_stack": 2}, {"grey": True}, {"action_repeat": 2}])
def test_vectors_of_others_are_not_wrapped(who: Any, setting: dict[str, Any]) -> None:
    environment = EnvironmentConfig("Pendulum-v1", vectorization=who, **setting)
    with pytest.raises(UserError, match=r"does not work with .*; set that to auto"):
        check(Config(environment=environment))
