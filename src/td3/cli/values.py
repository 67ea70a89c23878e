"""How flag values are read: whole numbers such as 1e6, grids such as agent.tau=0.005,0.01."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from td3.config import Value
from td3.errors import UserError

Grid = dict[str, tuple[float, ...]]


def registry() -> ConstructorRegistry:
    """tyro's rules and ours."""
    rules = ConstructorRegistry()
    rules.primitive_rule(whole_number_rule)
    rules.primitive_rule(optional_rule)
    rules.primitive_rule(grid_rule)
    rules.primitive_rule(kwargs_rule)
    return rules


def whole_number_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    if info.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: whole_number(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    )


def optional_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Show an optional value by its type, not as a choice between the type and None."""
    kinds: dict[Any, tuple[str, Callable[[str], Any]]] = {
        int | None: ("INT", whole_number),
        Path | None: ("PATH", Path),
        str | None: ("STR", str),
        float | None: ("FLOAT", float),
    }
    if info.type not in kinds:
        return None
    metavar, read_one = kinds[info.type]
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: read_one(words[0]),
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )


def whole_number(word: str) -> int:
    """1000000, 1_000_000 or 1e6."""
    with contextlib.suppress(ValueError):
        return int(word)
    with contextlib.suppress(ValueError):
        if (number := float(word)).is_integer():
            return int(number)
    raise ValueError(f"{word!r} is not a whole number")


def grid_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Grid] | None:
    if info.type != Grid:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="SETTING=VALUE,VALUE…",
        instance_from_str=read_grid,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=write_grid,
    )


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


def kwargs_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[dict[str, Value]] | None:
    if info.type != dict[str, Value]:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="NAME VALUE …",
        instance_from_str=read_kwargs,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda kwargs: [str(word) for pair in kwargs.items() for word in pair],
    )


def read_kwargs(words: list[str]) -> dict[str, Value]:
    """Pairs of name and value; values are read as bool, int, float or text."""
    if len(words) % 2:
        raise UserError("A flag of keyword arguments expects pairs of name and value, e.g. g 9.81.")
    return {name: read_value(word) for name, word in zip(words[::2], words[1::2], strict=True)}


def read_value(word: str) -> Value:
    if word in ("True", "False"):
        return word == "True"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(word)
    return word
