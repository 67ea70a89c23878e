"""Classes of the user: import those named as module:Class, and describe their exceptions."""

import functools
import importlib
import inspect
import traceback
import types
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from td3.errors import UserError, first_line, nearest

NOT_OF_THE_USER = {"td3", "torch", "numpy", "builtins", "abc", "typing", "collections"}


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


def describe_own_error(error: BaseException, classes: Iterable[type[Any]]) -> str:
    """One sentence about an exception in code of the user; empty if it comes from elsewhere.

    Code of the user is that of the modules that define these classes or a base of them, and of a
    script or notebook.
    """
    modules = {base.__module__ for kind in classes for base in kind.__mro__} | {"__main__"}
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        name = str(frame.f_globals.get("__name__"))
        if name in modules and name.partition(".")[0] not in NOT_OF_THE_USER:
            return describe_exception(frame.f_code.co_qualname, error, frame, line)
    return ""


def describe_last_call(error: BaseException) -> str:
    """One sentence about an exception, with the place of td3 or of the user that raised it."""
    places = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in NOT_OF_THE_USER - {"td3"}
    ]
    return describe_exception(places[-1][0].f_code.co_qualname, error, *places[-1])


def describe_exception(where: str, error: BaseException, frame: FrameType, line: int) -> str:
    """One sentence without its final point: who raised what, and its place in the code."""
    place = f"{Path(frame.f_code.co_filename).name}, line {line}"
    return f"{where} raised {type(error).__name__}: {first_line(error)} ({place})"


def functions_in(value: Any) -> list[Any]:
    """The functions behind a method, property or class method."""
    if isinstance(value, property):
        return [part for part in (value.fget, value.fset) if part is not None]
    value = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else value
    return [value] if isinstance(value, types.FunctionType) else []


def names_in(code: types.CodeType) -> set[str]:
    """Names that a function and the functions inside it look up."""
    inner = [constant for constant in code.co_consts if is_code(constant)]
    return set(code.co_names).union(*(names_in(own) for own in inner))


def is_code(value: object) -> bool:
    return isinstance(value, types.CodeType)
