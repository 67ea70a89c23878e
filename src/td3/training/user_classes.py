"""Import classes that the user names as module:Class."""

import functools
import importlib
from typing import Any

from td3.errors import UserError, first_line, nearest


def load_class(path: str, base: type[Any], setting: str) -> Any:
    """Import the class at `path`, such as my_module:MyNoise.

    Call this only for paths that the user named, on the command line or in the run's own
    config.toml, because importing a module runs its code.

    Args:
        path: module:Class.
        base: The class that it must be a subclass of.
        setting: The setting that contains the path, for error messages.

    Returns:
        The class.

    Raises:
        UserError: The path is malformed, cannot be imported, or is no subclass of `base`.
    """
    module_name, _, name = path.partition(":")
    if not (module_name and name):
        raise UserError(f"{setting} must be module:Class, e.g. my_module:MyClass, got {path!r}.")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        raise UserError(
            f"Cannot import {module_name}, which {setting} names: {first_line(error)}."
        ) from error
    try:
        found: Any = functools.reduce(getattr, name.split("."), module)
    except AttributeError as error:
        hint = nearest(name, vars(module))
        raise UserError(f"{setting}: {module_name} has no {name!r}.{hint}") from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise UserError(f"{setting}: {path} must be a subclass of td3.{base.__name__}.")
    return found
