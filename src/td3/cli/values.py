"""How the values of flags are read: whole numbers as 1e6, grids as agent.tau=0.005,0.01."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from td3.errors import UserError

Grid = dict[str, tuple[float, ...]]


def registry() -> ConstructorRegistry:
    """Tyro's rules, and ours."""
    rules = ConstructorRegistry()
    rules.primitive_rule(whole_number_rule)
    rules.primitive_rule(optional_rule)
    rules.primitive_rule(grid_rule)
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
    """What may be left out is shown as what it takes, not as a choice of it and None."""
    kinds: dict[Any, tuple[str, Callable[[str], Any]]] = {
        int | None: ("INT", whole_number),
        Path | None: ("PATH", Path),
        str | None: ("STR", str),
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
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=write,
    )


def read(words: list[str]) -> Grid:
    """Words such as agent.tau=0.005,0.01 as a grid; dashes are underscores, as in other flags."""
    grid: Grid = {}
    for word in words:
        key, _, values = word.replace(" ", "").partition("=")
        key = key.replace("-", "_")
        if key in grid:
            raise UserError(f"The grid names {key} twice.")
        try:
            grid[key] = tuple(float(value) for value in values.split(","))
        except ValueError:
            raise UserError(
                f"--grid {word} is not a setting with values, such as agent.tau=0.005,0.01."
            ) from None
    return grid


def write(grid: Any) -> list[str]:
    return [f"{key}={','.join(map(str, values))}" for key, values in grid.items()]
