"""Make simulators: import their packages, resolve versions, explain errors, prepare rendering."""

import contextlib
import ctypes.util
import functools
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym

from td3.config import EnvironmentConfig
from td3.environments.factories import (
    GIVEN,
    Factory,
    call_factory,
    find_factory,
    is_local,
    newest_version,
)
from td3.environments.output import no_output
from td3.environments.watch import CALL, Interrupted, as_run_stopped
from td3.environments.wrappers import add_wrappers
from td3.errors import UserError, first_line, nearest
from td3.signals import is_ctrl_c

# part of an id, in lower case → (module that registers it, extra that installs the module)
SIMULATORS = {
    "dm_control/": ("shimmy", "dm-control"),
    "bulletenv": ("pybullet_envs_gymnasium", "pybullet"),
}
# package → extra that installs it
EXTRAS = {
    "mujoco": "mujoco",
    "Box2D": "box2d",
    "pygame": "video",
    "shimmy": "dm-control",
    "dm_control": "dm-control",
    "pybullet_envs_gymnasium": "pybullet",
}


def make(config: EnvironmentConfig, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """Call `gymnasium.make`, or the class or function that makes this task; explain errors."""
    prepare_rendering()  # before a module is imported
    factory = find_factory(config.id)
    if factory is None:
        register(config.id)
    CALL.enter(config.id, "make")
    kwargs: dict[str, Any] = dict(config.kwargs)
    if config.pixels:
        render_mode = render_mode or "rgb_array"
        kwargs = render_size(config) | kwargs
    if render_mode:
        kwargs["render_mode"] = render_mode
    try:
        with warnings.catch_warnings():
            # SWIG-generated types of Box2D trigger a DeprecationWarning on Python 3.12.
            warnings.filterwarnings(
                "ignore", "builtin type .* has no __module__", DeprecationWarning
            )
            # It would appear whenever an environment is made again.
            warnings.filterwarnings("ignore", ".*Using the latest versioned", UserWarning)
            # `describe_outdated` has it in one line.
            warnings.filterwarnings("ignore", ".*environment .* out of date", DeprecationWarning)
            return add_wrappers(make_bare(config, factory, kwargs), config)
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        raise UserError(describe_missing_package(config.id, error)) from error
    except gym.error.UnregisteredEnv as error:
        hint = nearest(config.id, gym.registry)
        raise UserError(f"No environment {config.id!r} is registered.{hint}") from error
    except UserError:
        raise
    except BaseException as error:  # the environment's own code may raise anything
        if is_ctrl_c(error):
            raise
        if isinstance(error, Interrupted):
            raise as_run_stopped(config.id, error) from error
        raise UserError(f"Cannot make {config.id}: {first_line(error)}.") from error
    finally:
        CALL.leave()


def make_bare(
    config: EnvironmentConfig, factory: Factory | None, kwargs: dict[str, Any]
) -> gym.Env[Any, Any]:
    """Make the environment with its time limit, without our wrappers."""
    limit = config.max_episode_steps
    if factory is None:
        # The checker wrapper repeats in Python what `Environment` and `td3 doctor` check.
        return gym.make(config.id, limit or None, disable_env_checker=True, **kwargs)
    env = call_factory(config.id, factory, kwargs)
    return gym.wrappers.TimeLimit(env, limit) if limit else env


def render_size(config: EnvironmentConfig) -> dict[str, Any]:
    """Return the arguments that make a simulator render at the configured size, if it can."""
    size = {"width": config.resize, "height": config.resize}
    if not config.resize:
        return {}
    if config.id.startswith("dm_control/"):
        return {"render_kwargs": {**size, "camera_id": 0}}
    entry = getattr(gym.registry.get(config.id), "entry_point", "")
    return size if str(entry).startswith("gymnasium.envs.mujoco") else {}


def register(env_id: str) -> None:
    """Import the package that registers this id."""
    prepare_rendering()  # dm_control chooses its renderer when it is imported
    for part, (module, extra) in SIMULATORS.items():
        if part in env_id.lower():
            try:
                with warnings.catch_warnings():  # dm_control changes the warning filters
                    importlib.import_module(module)
            except ImportError as error:
                raise UserError(
                    f"{env_id} needs the extra {extra!r}: pip install 'td3[{extra}]'"
                ) from error
            except Exception as error:  # e.g. dm_control finds no renderer
                renderer = os.environ.get("MUJOCO_GL")
                hint = f" (MUJOCO_GL={renderer}: is its library installed?)" if renderer else ""
                raise UserError(
                    f"Cannot import {module}, which {env_id} needs: {first_line(error)}{hint}."
                ) from error


def resolve_version(env_id: str) -> str:
    """Append the version that Gymnasium would choose, so that a stored id names one task."""
    if env_id in GIVEN or is_local(env_id):
        return env_id
    register(env_id)
    import_module_of(env_id)
    version = newest_version(env_id.rpartition(":")[2])
    return env_id if version is None else f"{env_id}-v{version}"


def describe_outdated(env_id: str) -> str:
    """What to say about an id with an old version; empty for others."""
    newest = newest_version(re.sub(r"-v\d+$", "", name := env_id.rpartition(":")[2]))
    found = re.search(r"-v(\d+)$", name)
    if found is None or newest is None or int(found[1]) >= newest or env_id in GIVEN:
        return ""
    return f"{env_id} is outdated; use {env_id.removesuffix(found[0])}-v{newest}."


def import_module_of(env_id: str) -> None:
    """Import the module named by an id such as module:Env-v0; `make` reports errors."""
    if module := env_id.rpartition(":")[0]:
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(module)


def describe_missing_package(env_id: str, error: Exception) -> str:
    text = f"{error} {error.__cause__ or ''}"
    for package, extra in EXTRAS.items():
        if package.lower() in text.lower() and importlib.util.find_spec(package) is None:
            return f"{env_id} needs the extra {extra!r}: pip install 'td3[{extra}]'"
    return f"Cannot import what {env_id} needs: {first_line(error)}."


def prepare_rendering() -> None:
    """Without a display, choose off-screen rendering. Call before simulators are imported."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    for name in ("EGL", "OSMesa"):
        if sys.platform == "linux" and has_library(name):
            os.environ.setdefault("MUJOCO_GL", name.lower())


@functools.cache  # a lookup takes 20 ms or more, and environments are remade often
def has_library(name: str) -> bool:
    """Whether the system has this shared library."""
    return ctypes.util.find_library(name) is not None


@contextlib.contextmanager
def silence_pybullet(env_id: str) -> Iterator[None]:
    """Discard what PyBullet's C code prints when it connects; stdout may have to be JSON."""
    if "BulletEnv" not in env_id:
        yield
        return
    with no_output():
        yield
