"""How flag values are read: whole numbers such as 1e6, grids such as agent.tau=0.005,0.01."""

import contextlib
import dataclasses
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from td3.config import Value
from td3.errors import UserError

Grid = dict[str, tuple[float, ...]]


def whole_number(word: str) -> int:
    """1000000, 1_000_000 or 1e6."""
    with contextlib.suppress(ValueError):
        return int(word)
    with contextlib.suppress(ValueError):
        if (number := float(word)).is_integer():
            return int(number)
    raise ValueError(f"{word!r} is not a whole number")


def read_grid(words: list[str]) -> Grid:
    """The grid of words such as agent.tau=0.005,0.01; dashes may replace underscores."""
    grid: Grid = {}
    for word in words:
        key, _, values = word.replace(" ", "").partition("=")
        key = key.replace("-", "_")
        if key in grid:
            raise UserError(f"--grid has {key} twice.")
        try:
            grid[key] = tuple(float(value) for value in values.split(","))
        except ValueError:
            raise UserError(
                f"--grid expects a setting with values such as agent.tau=0.005,0.01, got {word}."
            ) from None
    return grid


def write_grid(grid: Any) -> list[str]:
    return [f"{key}={','.join(map(str, values))}" for key, values in grid.items()]


def read_kwargs(words: list[str]) -> dict[str, Value]:
    """Pairs of name and value; values are read as bool, int, float or text."""
    if len(words) % 2:
        raise UserError("A flag of keyword arguments expects pairs of name and value, e.g. g 9.81.")
    return {name: read_value(word) for name, word in zip(words[::2], words[1::2], strict=True)}


def write_kwargs(kwargs: Any) -> list[str]:
    return [str(word) for pair in kwargs.items() for word in pair]


def read_value(word: str) -> Value:
    if word in ("True", "False"):
        return word == "True"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(word)
    return word


def given_flags(arguments: Any, *left_out: str) -> str:
    """The flags of a command that differ from their defaults, each after a space."""
    words: list[str] = []
    for own in dataclasses.fields(arguments):
        value, name = getattr(arguments, own.name), own.name.replace("_", "-")
        if own.name in left_out or value == own.default:
            continue
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{name}")
        else:
            words += [f"--{name}", *map(str, value if isinstance(value, tuple) else (value,))]
    return "".join(f" {shlex.quote(word)}" for word in words)


ONE_WORD: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("INT", whole_number),
    # Optional values are shown by their type, not as a choice between the type and None.
    int | None: ("INT", whole_number),
    Path | None: ("PATH", Path),
    str | None: ("STR", str),
    float | None: ("FLOAT", float),
}
SEVERAL_WORDS: dict[Any, tuple[str, Callable[[list[str]], Any], Callable[[Any], list[str]]]] = {
    Grid: ("SETTING=VALUE,VALUE…", read_grid, write_grid),
    dict[str, Value]: ("NAME VALUE …", read_kwargs, write_kwargs),
}


def registry() -> ConstructorRegistry:
    """tyro's rules and ours."""
    rules = ConstructorRegistry()
    rules.primitive_rule(specify)
    return rules


def specify(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """How tyro reads and shows values of this type; None: by its own rules."""
    if info.type in ONE_WORD:
        metavar, read_one = ONE_WORD[info.type]
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=metavar,
            instance_from_str=lambda words: read_one(words[0]),
            is_instance=lambda value: True,
            str_from_instance=lambda value: [str(value)],
        )
    if info.type in SEVERAL_WORDS:
        metavar, read, write = SEVERAL_WORDS[info.type]
        return PrimitiveConstructorSpec("*", metavar, read, lambda value: True, write)
    return None
