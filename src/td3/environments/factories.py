"""Environments that are classes or functions instead of Gymnasium ids.

Every task has a name. A class or function of a module is called `module:name`, which any process
can import. Other objects (from a notebook, a script, or a lambda) have a readable name, but only a
process that was given the object can make them.
"""

import contextlib
import functools
import importlib
import inspect
import itertools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym

from td3.errors import UserError, first_line, nearest

Factory = Callable[..., "gym.Env[Any, Any]"]

GIVEN: dict[str, Factory] = {}
"""Name → class or function that the user passed to this process."""
MADE = "_made_by_td3"


def name_environment(environment: Any) -> tuple[str, dict[str, Any]]:
    """Return the name of an id, class or function, and the keyword arguments of a partial.

    The object is remembered, so that this process can make the environment by its name.

    Raises:
        UserError: It is an environment object, or nothing that makes environments.
    """
    if isinstance(environment, str):
        return environment, {}
    factory, kwargs = split_partial(environment)
    check_factory(factory, "environment")
    name = name_factory(factory)
    GIVEN[name] = factory
    return name, kwargs


def bind_environment(env_id: str, environment: Any) -> None:
    """Let a name stand for a class or function in this process."""
    factory, _ = split_partial(environment)  # the run has stored the arguments
    check_factory(factory, "environment")
    GIVEN[env_id] = factory


def remember_environment(env_id: str) -> None:
    """Note that the user chose this task, so that its policies may be played in this process."""
    if factory := find_factory(env_id):
        GIVEN[env_id] = factory


def split_partial(environment: Any) -> tuple[Any, dict[str, Any]]:
    """Return the function and the arguments of a partial, if config.toml can hold these."""
    kwargs: dict[str, Any] = {}
    while isinstance(environment, functools.partial) and not environment.args:
        values = environment.keywords.values()
        if not all(isinstance(value, bool | int | float | str) for value in values):
            break
        environment, kwargs = environment.func, {**environment.keywords, **kwargs}
    return environment, kwargs


def check_factory(found: Any, name: str) -> None:
    """Raise UserError unless `found` can make environments."""
    is_class = isinstance(found, type)
    if not is_class and (isinstance(found, gym.Env) or hasattr(found, "action_space")):
        raise UserError(
            f"{name} is a {type(found).__name__} object, but a run makes its environments itself, "
            "also for evaluation and to resume; pass its class, or a function that returns a new "
            "environment."
        )
    if is_class and not issubclass(found, gym.Env):
        raise UserError(
            f"{name} is the class {found.__name__}, which is not a subclass of "
            "gymnasium.Env; derive it from gymnasium.Env, or pass a function that returns one."
        )
    if not callable(found):
        raise UserError(
            f"{name} must be an id such as 'Pendulum-v1', a class, or a function that returns an "
            f"environment, not {found!r}."
        )


def name_factory(factory: Factory) -> str:
    """Return `module:name` if other processes can import it, or else a readable name."""
    described = getattr(factory, "func", factory)  # of a partial that could not be split
    owner: Any = described if hasattr(described, "__qualname__") else type(described)
    name = f"{owner.__module__}:{owner.__qualname__}"
    if owner is factory and (refers_to(name, factory) or name.startswith("__main__:")):
        if "<" not in name:
            return name
    elif "<" not in name:
        name = f"<{name}>"
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    candidates = itertools.chain([name], numbered)
    return next(own for own in candidates if GIVEN.get(own, factory) is factory)


def refers_to(name: str, factory: Factory) -> bool:
    """Whether a process that imports this name gets this object."""
    module, _, path = name.rpartition(":")
    return module != "__main__" and find_attribute(sys.modules.get(module), path) is factory


def find_attribute(module: Any, path: str) -> Any:
    """Return the object at a dotted path in a module, or None."""
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


def is_local(env_id: str) -> bool:
    """Whether a name can stand only for an object that the user gives to this process."""
    return "<" in env_id or env_id.startswith("__main__:")


def is_importable(env_id: str) -> bool:
    """Whether other processes get the same environment by this name."""
    return not is_local(env_id) and (env_id not in GIVEN or refers_to(env_id, GIVEN[env_id]))


def find_factory(env_id: str) -> Factory | None:
    """Return the class or function with this name, or None if it is a Gymnasium id.

    Importing the module runs its code.

    Raises:
        UserError: The name stands for an object of another process, or nothing has this name.
    """
    if env_id in GIVEN:
        return GIVEN[env_id]
    if is_local(env_id):
        raise UserError(
            f"{env_id} exists only in the program or notebook that trained on it; move it into "
            "a module and name it as module:name."
        )
    module, _, path = env_id.rpartition(":")
    if not module or not all(part.isidentifier() for part in path.split(".")):
        return None
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # the module's own code may raise anything
        reason = f"importing {module} failed: {first_line(error)}"
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            reason += "; td3 looks in the current folder and the installed packages"
        raise UserError(f"Cannot make {env_id}: {reason}.") from error
    if path in gym.registry:
        return None
    factory = find_attribute(imported, path)
    if factory is not None:
        check_factory(factory, env_id)
        return factory  # type: ignore[no-any-return]
    if newest_version(path) is None:
        hint = nearest(path, [name for name, own in vars(imported).items() if callable(own)])
        raise UserError(f"The module {module} has no {path!r} and registers no such id.{hint}")
    return None


def import_factory(path: str) -> Factory:
    """Return the class or function that the user names as `module:name`.

    Raises:
        UserError: There is none.
    """
    if factory := find_factory(path):
        return factory
    raise UserError(f"environment must be module:name of a class or a function, got {path!r}.")


def is_registered(env_id: str) -> bool:
    """Whether Gymnasium knows this id, with or without a version."""
    return env_id in gym.registry or newest_version(env_id) is not None


def newest_version(env_id: str) -> int | None:
    """Return the newest registered version of an id without version; None if there is none."""
    with contextlib.suppress(Exception):  # `make` reports what is wrong with an id
        namespace, name, version = gym.envs.registration.parse_env_id(env_id)
        if version is None:
            return gym.envs.registration.find_highest_version(namespace, name)
    return None


def call_factory(env_id: str, factory: Factory, kwargs: Mapping[str, Any]) -> "gym.Env[Any, Any]":
    """Make an environment; `render_mode` is passed only if the class or function takes it.

    Raises:
        UserError: The result is no environment, or one that was returned before.
    """
    given = dict(kwargs)
    if not takes(factory, "render_mode"):
        given.pop("render_mode", None)
    env = factory(**given)
    if not isinstance(env, gym.Env):
        raise UserError(f"{env_id} returned {type(env).__name__}, not a gymnasium.Env.")
    if getattr(env.unwrapped, MADE, False):
        raise UserError(
            f"{env_id} returned the same environment twice; it must make a new one at each call."
        )
    setattr(env.unwrapped, MADE, True)
    return env


def takes(factory: Factory, name: str) -> bool:
    """Whether a class or function has a parameter of this name, or takes any."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return True
    any_name = any(own.kind is own.VAR_KEYWORD for own in parameters.values())
    return any_name or name in parameters
