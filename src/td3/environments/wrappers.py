"""Gymnasium wrappers for images: rendering, greyscale, resizing, frame stacks, the camera."""

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium import spaces, wrappers

from td3.config import EnvironmentConfig
from td3.environments.observations import describe, observation_layout
from td3.errors import UserError, first_line
from td3.layout import channel_axis, has_images

Env = gym.Env[Any, Any]


def add_wrappers(env: Env, config: EnvironmentConfig) -> Env:
    """Wrap `env` as configured, except for the frame stack (see `stack_frames`)."""
    if config.pixels:
        track_with_camera(env)
    if config.action_repeat > 1:
        env = add("action_repeat", config, wrappers.RepeatAction, env, config.action_repeat)
    if config.pixels and not observes_images(env, config.id):
        env = add("pixels", config, observe_rendering, env, True)
    if config.grey:
        check_image(env.observation_space, "grey", config.id)
        env = add("grey", config, wrappers.GrayscaleObservation, env, False)
    size = (config.resize, config.resize)
    if config.resize and (env.observation_space.shape or ())[:2] != size:
        check_image(env.observation_space, "resize", config.id)
        env = add("resize", config, wrappers.ResizeObservation, env, size)
    return env


def add(
    option: str, config: EnvironmentConfig, wrapper: Callable[..., Env], env: Env, argument: Any
) -> Env:
    """Return `wrapper(env, argument)`; errors name the option."""
    try:
        return wrapper(env, argument)
    except gym.error.DependencyNotInstalled as error:
        raise UserError(
            f"environment.{option} needs the extra 'pixels': pip install 'td3[pixels]'"
        ) from error
    except (TypeError, ValueError, AssertionError) as error:
        raise UserError(
            f"environment.{option} does not fit {config.id}: {first_line(error)}."
        ) from error


def observe_rendering(env: Env, render_only: bool) -> Env:
    """Observe the rendered image. The wrapper resets, and some cameras depend on the seed."""
    env.reset(seed=0)
    return wrappers.AddRenderObservation(env, render_only)


def check_image(space: spaces.Space[Any], option: str, env_id: str) -> None:
    """Raise UserError unless the observation is an image that Gymnasium's wrappers accept."""
    if not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3):
        seen = f"numbers of shape {space.shape}" if space.shape else describe(space)
        raise UserError(
            f"environment.{option} needs an image, but {env_id} observes {seen}; remove the "
            "option, or change the image in a wrapper."
        )
    if channel_axis(space.shape) == 0:
        raise UserError(
            f"environment.{option} needs channels after height and width, but {env_id} has them "
            f"first: {space.shape}; move them in a wrapper."
        )


def observes_images(env: Env, env_id: str) -> bool:
    try:
        return has_images(observation_layout(env.observation_space, env_id))
    except UserError:  # td3 cannot read this space, so the rendered image replaces it
        return False


def stack_frames(env: Env, config: EnvironmentConfig) -> Env:
    """Make an observation out of the last `frame_stack` ones."""
    if config.frame_stack == 1:
        return env
    # The stack stores references, and some environments return the same array at every step.
    copied = wrappers.TransformObservation(env, copy.deepcopy, env.observation_space)
    return wrappers.FrameStackObservation(copied, config.frame_stack)


def track_with_camera(env: Env) -> None:
    """Let MuJoCo's camera follow the robot; the default camera loses it within a second."""
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is not None:
        import mujoco

        track = mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
        if track >= 0:
            renderer.camera_id = track
