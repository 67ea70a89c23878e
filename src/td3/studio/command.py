"""The command that trains a run again."""

import shlex
from collections.abc import Mapping
from typing import Any

from td3.config import Config, dotted, load_recipe, recipe_names, to_dict

FACTS = ("versions", "machine", "code", "source")
"""Tables of config.toml that are no settings."""
UNNAMED = ("recipe", "environment.id", "loop.steps", "variant.name")


def train_command(config: Mapping[str, Any]) -> str:
    """`td3 train` with the recipe of the run and every setting that differs from it.

    Nothing is imported: the settings of a variant of your own are all given.
    """
    tables = {k: v for k, v in config.items() if k not in FACTS}
    grid = tables.pop("grid", {})
    kwargs = tables["environment"].get("kwargs", {})
    given = {k: v for k, v in dotted(tables) if not k.startswith("environment.kwargs.")}
    recipe = str(given.get("recipe", ""))
    known = recipe in recipe_names()
    default = load_recipe(recipe) if known else load_recipe("paper")
    usual = dict(dotted(to_dict(default)))
    words = ["td3", "train", str(given["environment.id"])]
    words += ["--recipe", recipe] if known and recipe != "paper" else []
    variant = str(given.get("variant.name", ""))
    words += ["--variant", variant] if variant else []
    if given.get("loop.steps") != usual["loop.steps"]:
        words += ["--steps", str(given.get("loop.steps"))]
    plain = dict(dotted(to_dict(Config())))
    for key, value in given.items():
        same = key in usual and value == usual[key]
        if key in UNNAMED or same or (key not in plain and not key.startswith("variant.")):
            continue
        words += flag(key, value)
    if isinstance(kwargs, dict) and kwargs:
        words += ["--environment.kwargs", *(str(word) for pair in kwargs.items() for word in pair)]
    if isinstance(grid, dict) and grid:
        words += ["--grid", *(f"{k}={','.join(map(str, values_of(v)))}" for k, v in dotted(grid))]
    return shlex.join(words)


def values_of(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def flag(key: str, value: Any) -> list[str]:
    """A setting as words of the command line."""
    table, point, name = key.rpartition(".")
    name = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{table}{point}{'' if value else 'no-'}{name}"]
    values = values_of(value)
    if key == "callback":
        return [word for own in values for word in ("--callback", str(own))]
    return [f"--{table}{point}{name}", *map(str, values)]
