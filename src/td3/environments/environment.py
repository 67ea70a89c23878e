"""Make and check environments; scale actions.

Inside td3 an observation is a flat float32 vector (`observations.py`) and an action lies in [-1, 1]
in every dimension. Outside of these files nobody knows the simulator's own shapes and bounds.
"""

import contextlib
import copy
import ctypes.util
import functools
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces, wrappers
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.observations import describe, observation_layout
from td3.errors import RunStopped, UserError, first_line, nearest
from td3.layout import (
    Layout,
    Observation,
    channel_axis,
    flatten,
    has_images,
    layout_size,
    stack_layout,
)

# id contains, in small letters → (module that registers it, extra that installs it)
SIMULATORS = {
    "dm_control/": ("shimmy", "dm-control"),
    "bulletenv": ("pybullet_envs_gymnasium", "pybullet"),
}
EXTRAS = {
    "mujoco": "mujoco",
    "Box2D": "box2d",
    "pygame": "video",
    "shimmy": "dm-control",
    "dm_control": "dm-control",
    "pybullet_envs_gymnasium": "pybullet",
}

MAX_REWARD = float(np.finfo(np.float32).max)  # what the replay ring can hold


@dataclass(frozen=True)
class ActionBounds:
    """A Box action space, flattened, and the way from [-1, 1] into it."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    shape: tuple[int, ...]
    dtype: str

    def scale(self, action: NDArray[np.floating]) -> NDArray[Any]:
        """From [-1, 1] to the environment's own range, shape and dtype."""
        if not self.natural:
            share = (action.astype(np.float64) + 1) / 2
            # This form cannot overflow where high - low would, and meets both ends exactly.
            action = self.low * (1 - share) + self.high * share
        # np.clip costs five times this.
        kept: NDArray[Any] = np.minimum(np.maximum(action, self.low), self.high)
        return kept.astype(self.dtype).reshape(self.shape)

    @functools.cached_property
    def natural(self) -> bool:
        """Whether the environment's range is [-1, 1] itself."""
        return bool((self.low == -1).all() and (self.high == 1).all())


def action_bounds(space: spaces.Space[Any], env_id: str) -> ActionBounds:
    """The bounds of a Box action space; anything else is refused with what to do about it."""
    if not isinstance(space, spaces.Box):
        raise UserError(
            f"TD3 needs continuous actions, but {env_id} has {describe(space)}; "
            "use an environment with a Box action space (for discrete actions, DQN or PPO)."
        )
    if not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"TD3 needs continuous actions, but those of {env_id} are whole numbers "
            f"({space.dtype}); declare its Box with a float dtype."
        )
    if space.low.size == 0:
        raise UserError(
            f"The action space of {env_id} is empty; declare a Box with a number per actuator."
        )
    low, high = (bound.astype(np.float64).ravel() for bound in (space.low, space.high))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise UserError(
            f"The action bounds of {env_id} are infinite; "
            "declare its Box with the finite low and high that the actuators have."
        )
    if (low > high).any():
        raise UserError(f"The action space of {env_id} is empty: low is above high; swap them.")
    return ActionBounds(low, high, space.shape, str(space.dtype))


@dataclass(frozen=True)
class Task:
    """What td3 needs to know of an environment, whoever steps it."""

    id: str
    bounds: ActionBounds
    layout: Layout

    @property
    def state_dim(self) -> int:
        return layout_size(self.layout)

    @property
    def action_dim(self) -> int:
        return self.bounds.low.size

    @classmethod
    def of(
        cls,
        env_id: str,
        observations: spaces.Space[Any],
        actions: spaces.Space[Any],
        stack: int = 1,
    ) -> "Task":
        """Read the spaces, or refuse them in one sentence; `stack` observations make a state."""
        layout = stack_layout(observation_layout(observations, env_id), stack)
        task = cls(env_id, action_bounds(actions, env_id), layout)
        if task.state_dim == 0:
            raise UserError(f"{env_id} observes nothing: its observation space is empty.")
        return task

    def observation(self, observation: Any) -> Observation:
        """One observation as a flat vector; stops the run if it is not a proper one."""
        try:
            state = flatten(self.layout, observation)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            raise RunStopped(f"{self.id} gave an observation unlike its space: {error}") from error
        if np.count_nonzero(np.isfinite(state)) < state.size:  # a third of the time of all()
            where = int(np.flatnonzero(~np.isfinite(state))[0])
            raise RunStopped(
                f"{self.id} gave a non-finite observation ({state[where]} in dimension {where})"
            )
        return state

    def reward(self, reward: Any) -> float:
        """A reward as a float; stops the run if it is not finite."""
        try:
            value = float(reward) if isinstance(reward, float) else float(np.asarray(reward).item())
        except (TypeError, ValueError) as error:
            raise RunStopped(f"{self.id} gave a reward that is no number ({reward!r})") from error
        if not abs(value) < MAX_REWARD:
            raise RunStopped(f"{self.id} gave a non-finite reward ({value})")
        return value


class Environment:
    """One simulator, with flat observations and actions in [-1, 1], checked at every step."""

    def __init__(self, config: EnvironmentConfig, render_mode: str | None = None) -> None:
        with hushed(config.id):
            single = make(config, render_mode)
            self.space = single.observation_space
            self.env = stacking(single, config)
        self.task = Task.of(config.id, self.space, self.env.action_space, config.frame_stack)

    def reset(self, seed: int | None = None) -> Observation:
        try:
            with hushed(self.task.id):
                observation, _ = self.env.reset(seed=seed)
        except (Exception, SystemExit) as error:
            raise raised(self.task.id, error) from error
        return self.task.observation(observation)

    def step(self, action: NDArray[np.floating]) -> tuple[Observation, float, bool, bool]:
        """(observation, reward, terminated, truncated); terminated ends all value, truncated
        only ends the recording."""
        scaled = self.task.bounds.scale(action)
        try:
            observation, reward, terminated, truncated, _ = self.env.step(scaled)
        except (Exception, SystemExit) as error:
            raise raised(self.task.id, error) from error
        state = self.task.observation(observation)
        return state, self.task.reward(reward), bool(terminated), bool(truncated)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # whatever it was for, it is over
            self.env.close()


def make(config: EnvironmentConfig, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """`gymnasium.make`, with the simulator's package imported first and its errors explained."""
    register(config.id)
    kwargs: dict[str, Any] = dict(config.kwargs)
    if config.pixels:
        render_mode = render_mode or "rgb_array"
        kwargs = picture_size(config) | kwargs
    if render_mode:
        kwargs["render_mode"] = render_mode
    try:
        with warnings.catch_warnings():
            # Box2D's binding was built by a SWIG that Python 3.12 frowns upon.
            warnings.filterwarnings(
                "ignore", "builtin type .* has no __module__", DeprecationWarning
            )
            # Said at every remake otherwise.
            warnings.filterwarnings("ignore", ".*Using the latest versioned", UserWarning)
            # The checker wrapper repeats in Python what `Environment` and `td3 doctor` check.
            return wrapped(gym.make(config.id, disable_env_checker=True, **kwargs), config)
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        raise UserError(missing_package(config.id, error)) from error
    except gym.error.UnregisteredEnv as error:
        hint = nearest(config.id, gym.registry)
        raise UserError(f"No environment {config.id!r} is registered.{hint}") from error
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # whatever it raises is the task's
        raise UserError(f"Cannot make {config.id}: {first_line(error)}.") from error


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


def picture_size(config: EnvironmentConfig) -> dict[str, Any]:
    """Let a simulator that can do so draw in the size that is wanted, not larger."""
    size = {"width": config.resize, "height": config.resize}
    if not config.resize:
        return {}
    if config.id.startswith("dm_control/"):
        return {"render_kwargs": {**size, "camera_id": 0}}
    entry = getattr(gym.registry.get(config.id), "entry_point", "")
    return size if str(entry).startswith("gymnasium.envs.mujoco") else {}


def register(env_id: str) -> None:
    """Import the package that knows this id."""
    prepare_rendering()  # dm_control fixes how it draws when it is imported
    for part, (module, extra) in SIMULATORS.items():
        if part in env_id.lower():
            try:
                with warnings.catch_warnings():  # dm_control would have all deprecations shown
                    importlib.import_module(module)
            except ImportError as error:
                raise UserError(
                    f"{env_id} needs the extra {extra!r}: pip install 'td3[{extra}]'"
                ) from error
            except Exception as error:  # dm_control looks for what draws when it is imported
                way = os.environ.get("MUJOCO_GL")
                hint = f" (MUJOCO_GL={way}: is its library installed?)" if way else ""
                raise UserError(
                    f"Cannot import {module}, which {env_id} needs: {first_line(error)}{hint}."
                ) from error


def versioned(env_id: str) -> str:
    """With the version that Gymnasium takes where none is named: another one is another task."""
    name = env_id.rpartition(":")[2]
    register(env_id)
    import_module_of(env_id)
    with contextlib.suppress(Exception):  # `make` reports what is wrong with an id
        namespace, plain, version = gym.envs.registration.parse_env_id(name)
        highest = gym.envs.registration.find_highest_version(namespace, plain)
        if version is None and highest is not None:
            return f"{env_id}-v{highest}"
    return env_id


def import_module_of(env_id: str) -> None:
    """Import the module that an id of the form module:Env-v0 names; `make` reports errors."""
    if module := env_id.rpartition(":")[0]:
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(module)


def missing_package(env_id: str, error: Exception) -> str:
    text = f"{error} {error.__cause__ or ''}"
    for package, extra in EXTRAS.items():
        if package.lower() in text.lower() and importlib.util.find_spec(package) is None:
            return f"{env_id} needs the extra {extra!r}: pip install 'td3[{extra}]'"
    return f"Cannot import what {env_id} needs: {first_line(error)}."


def raised(env_id: str, error: BaseException) -> RunStopped:
    """A simulator's own exception, as one that ends the run in order."""
    return RunStopped(f"{env_id} raised {type(error).__name__}: {first_line(error)}")


def prepare_rendering() -> None:
    """Without a display, let simulators draw off screen. Has to happen before they are imported."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    for name in ("EGL", "OSMesa"):
        if sys.platform == "linux" and library(name):
            os.environ.setdefault("MUJOCO_GL", name.lower())


@functools.cache  # asking takes 20 ms and more, and environments are remade all the time
def library(name: str) -> bool:
    """Whether the system has this shared library."""
    return ctypes.util.find_library(name) is not None


@contextlib.contextmanager
def hushed(env_id: str) -> Iterator[None]:
    """PyBullet's C code prints when it connects, past Python, into what may be JSON."""
    if "BulletEnv" not in env_id:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(descriptor) for descriptor in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        for descriptor, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(nowhere)
