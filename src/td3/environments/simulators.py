"""Make simulators: register their packages, resolve versions, explain errors."""

import contextlib
import ctypes.util
import functools
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym

from td3.config import EnvironmentConfig
from td3.environments.wrappers import wrapped
from td3.errors import UserError, first_line, nearest

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
