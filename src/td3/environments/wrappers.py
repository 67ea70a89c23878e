"""Gymnasium wrappers that the configuration asks for."""

import copy
from typing import Any

import gymnasium as gym
from gymnasium import spaces, wrappers

from td3.config import EnvironmentConfig
from td3.environments.observations import describe, observation_layout
from td3.errors import UserError, first_line
from td3.layout import channel_axis, has_images


def wrapped(env: gym.Env[Any, Any], config: EnvironmentConfig) -> gym.Env[Any, Any]:
    """With Gymnasium's own wrappers for what the configuration asks for, all but the stack."""
    if config.pixels:
        follow(env)
    asked = {
        "action_repeat": (config.action_repeat > 1, wrappers.RepeatAction, config.action_repeat),
        "pixels": (
            config.pixels and not observes_images(env, config.id),
            wrappers.AddRenderObservation,
            True,
        ),
        "grey": (config.grey, wrappers.GrayscaleObservation, False),
        "resize": (config.resize, wrappers.ResizeObservation, (config.resize, config.resize)),
    }
    for name, (wanted, wrapper, argument) in asked.items():
        if name == "resize" and (env.observation_space.shape or ())[:2] == argument:
            continue  # drawn so
        if wanted:
            if name in ("grey", "resize"):
                check_picture(env.observation_space, name, config.id)
            try:
                if name == "pixels":  # it resets, and some cameras remember how that began
                    env.reset(seed=0)
                env = wrapper(env, argument)
            except gym.error.DependencyNotInstalled as error:
                raise UserError(
                    f"environment.{name} needs the extra 'pixels': pip install 'td3[pixels]'"
                ) from error
            except (TypeError, ValueError, AssertionError) as error:
                raise UserError(
                    f"environment.{name} does not fit {config.id}: {first_line(error)}."
                ) from error
    return env


def check_picture(space: spaces.Space[Any], option: str, env_id: str) -> None:
    """Refuse to change what is no picture, or one that Gymnasium's wrappers do not know."""
    if not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3):
        seen = f"numbers of shape {space.shape}" if space.shape else describe(space)
        raise UserError(
            f"environment.{option} changes a picture, but {env_id} observes {seen}; leave it out, "
            "or change the picture in a wrapper."
        )
    if channel_axis(space.shape) == 0:
        raise UserError(
            f"environment.{option} needs channels behind height and width, but {env_id} has them "
            f"before: {space.shape}; move them in a wrapper."
        )


def observes_images(env: gym.Env[Any, Any], env_id: str) -> bool:
    try:
        return has_images(observation_layout(env.observation_space, env_id))
    except UserError:  # nothing that td3 could see: a picture will do
        return False


def stacking(env: gym.Env[Any, Any], config: EnvironmentConfig) -> gym.Env[Any, Any]:
    if config.frame_stack == 1:
        return env
    # The stack keeps what it is given, and some environments use one array again and again.
    copied = wrappers.TransformObservation(env, copy.deepcopy, env.observation_space)
    return wrappers.FrameStackObservation(copied, config.frame_stack)


def follow(env: gym.Env[Any, Any]) -> None:
    """Let MuJoCo's camera run along; by default a fast walker leaves the picture in a second."""
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is not None:
        import mujoco

        track = mujoco.mj_name2id(renderer.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
        if track >= 0:
            renderer.camera_id = track
