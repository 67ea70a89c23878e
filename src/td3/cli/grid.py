"""How `--grid agent.discount=0.98,0.99 agent.tau=0.005,0.01` is read."""

from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from td3.errors import UserError

Grid = dict[str, tuple[float, ...]]


def registry() -> ConstructorRegistry:
    """Tyro's rules, and ours for a grid."""
    rules = ConstructorRegistry()
    rules.primitive_rule(rule)
    return rules


def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Grid] | None:
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
