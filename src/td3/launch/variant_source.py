"""What code a run executes that is not of this package: its variant, or changed methods."""

import hashlib
import importlib.metadata
import inspect
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import td3
from td3.errors import UserError
from td3.training.user_classes import NOT_OF_THE_USER, functions_in, is_code, names_in

PACKAGE = Path(td3.__file__).parent


def code_facts(name: str, parts: Iterable[object]) -> dict[str, str]:
    """The class, module, version and source hash of a run's own code; empty for plain TD3.

    Args:
        name: Name of the variant.
        parts: The objects that the update uses: agent, networks, optimizers, replay buffer.
    """
    sources = sorted({text for part in parts for text in own_sources(type(part))})
    if not name and not sources:
        return {}
    agent = type(next(iter(parts)))
    facts = {"class": agent.__qualname__, "module": agent.__module__}
    if version := package_version(agent.__module__.partition(".")[0]):
        facts["version"] = version
    return facts | {"sha256": hashlib.sha256("\n".join(sources).encode()).hexdigest()}


def package_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(package), "__version__", ""))


def own_sources(kind: type) -> Iterator[str]:
    """The source of everything in a class and its bases that this package does not define."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] in NOT_OF_THE_USER - {"td3"}:
            continue
        for name, value in vars(base).items():
            for function in functions_in(value):
                if not is_defined_by_td3(function, f"{base.__qualname__}.{name}"):
                    yield f"{base.__qualname__}.{name}\n{source_of(function, set())}"
            if isinstance(value, int | float | str | tuple) and not is_td3_module(base.__module__):
                yield f"{base.__qualname__}.{name} = {value!r}" if name[:2] != "__" else ""


def is_td3_module(name: str) -> bool:
    return name == "td3" or name.startswith("td3.")


def is_defined_by_td3(function: types.FunctionType, where: str) -> bool:
    """Whether a function is the one that this package defines at this place."""
    file = function.__code__.co_filename
    if not is_td3_module(function.__module__ or ""):
        return False
    is_generated = file.startswith("<")  # by dataclasses
    return is_generated or (Path(file).is_relative_to(PACKAGE) and function.__qualname__ == where)


def source_of(function: types.FunctionType, seen: set[Any]) -> str:
    """The source of a function, and of what it uses of its module."""
    seen.add(function)
    try:
        texts = [inspect.getsource(function)]
    except (OSError, TypeError):  # defined in a console
        code = function.__code__
        texts = [code.co_code.hex() + repr([c for c in code.co_consts if not is_code(c)])]
    for name in sorted(names_in(function.__code__)):
        other = function.__globals__.get(name)
        if isinstance(other, int | float | str | tuple):
            texts.append(f"{name} = {other!r}")
        elif isinstance(other, types.FunctionType | type):
            if other.__module__ != function.__module__ or other in seen:
                continue
            if isinstance(other, type):
                texts += sources_of_class(other, seen)
            else:
                texts.append(source_of(other, seen))
    return "\n".join(texts)


def sources_of_class(kind: type, seen: set[Any]) -> Iterator[str]:
    """The sources of the methods and constants of a class and of its bases of the same module."""
    for base in kind.__mro__:
        if base.__module__ != kind.__module__ or base in seen:
            continue
        seen.add(base)
        for name, value in vars(base).items():
            for function in functions_in(value):
                if function.__code__.co_filename != "<string>":  # by dataclasses
                    yield f"{base.__qualname__}.{name}\n{source_of(function, seen)}"
            if isinstance(value, int | float | str | tuple) and name[:2] != "__":
                yield f"{base.__qualname__}.{name} = {value!r}"


def check_code(now: dict[str, str], before: dict[str, str], folder: Path) -> None:
    """Refuse to continue a run with other code than it was started with."""
    if now == before:
        return
    old, new = (f"{facts.get('module')}:{facts.get('class')}" for facts in (before, now))
    if not now:
        what = f"was trained with changed methods ({old}), which this process does not have"
    elif not before:
        what = f"was trained with plain TD3, and methods of {new} are changed now"
    elif old != new:
        what = f"was trained with the class {old}, not with {new}"
    else:
        what = f"was trained with other code: the source of {new}, or of what it uses, has changed"
    raise UserError(
        f"{folder} {what}. Restore the code, or continue with --accept-changes "
        "(in Python: accept_changes=True); the result is then not exact."
    )
