"""Which code an environment executes, so that `td3 resume` notices when it has changed."""

import contextlib
import hashlib
import importlib.metadata
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from td3.environments.environment import Environment
from td3.environments.factories import find_factory
from td3.environments.user_code import is_own

NOTED = {"td3", "gymnasium", "builtins"}
"""Packages whose versions a run records anyway."""


def describe_code(environment: Environment) -> str:
    """Versions of installed packages, and a hash of other files, that an environment is made of.

    The files are the modules of its classes and of the function that makes it, the modules that
    these use, and its MuJoCo model.
    """
    kinds = list(kinds_of(environment.env))
    factory = find_factory(environment.task.id)
    modules = {sys.modules.get(own.__module__) for own in [*kinds, *([factory] if factory else [])]}
    packages = set()
    contents = {}
    for module in with_used(modules - {None}):  # type: ignore[arg-type]
        file = file_of(module)
        if file and module.__name__ != "__main__":
            contents[module.__name__] = file.read_bytes()
        elif not file:
            packages.add(module.__name__.partition(".")[0])
    for kind in kinds:
        if kind.__module__ == "__main__":  # a script or notebook changes for other reasons too
            contents[kind.__qualname__] = source_of(kind)
    model = getattr(environment.env.unwrapped, "fullpath", "")
    if isinstance(model, str) and model and is_own(Path(model)):
        contents[Path(model).name] = Path(model).read_bytes()
    found = [version for name in sorted(packages - NOTED) if (version := version_of(name))]
    if contents:
        checksum = hashlib.sha256(repr(sorted(contents.items())).encode())
        found.append(f"source {checksum.hexdigest()[:16]}")
    return ", ".join(found)


def kinds_of(env: Any) -> Iterator[type]:
    """The classes of an environment, of its wrappers, and their bases."""
    while env is not None:
        yield from type(env).__mro__
        env = vars(env).get("env")


def with_used(modules: set[ModuleType]) -> set[ModuleType]:
    """These modules and, if they are the user's, all that they use."""
    found, left = set(modules), list(modules)
    while left:
        module = left.pop()
        if not file_of(module):
            continue
        for value in list(vars(module).values()):
            name = value.__name__ if isinstance(value, ModuleType) else module_name(value)
            used = sys.modules.get(name)
            if used and used not in found and file_of(used):
                found.add(used)
                left.append(used)
    return found


def module_name(value: Any) -> str:
    """The module that defines a function or class; empty for anything else."""
    with contextlib.suppress(Exception):  # a value may run code of its own
        if callable(value) and isinstance(value.__module__, str):
            return value.__module__
    return ""


def file_of(module: ModuleType) -> Path | None:
    """The source file of a module, unless it is installed or part of td3."""
    file = getattr(module, "__file__", None)
    return Path(file) if file and is_own(Path(file)) else None


def source_of(kind: type) -> bytes:
    try:
        return inspect.getsource(kind).encode()
    except (OSError, TypeError):  # defined in a console
        return b""


def version_of(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return ""
