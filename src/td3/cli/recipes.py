"""td3 recipes"""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Literal

import tyro

from td3.config import load_recipe, recipe_names, recipe_text, to_dict
from td3.errors import UserError


@dataclasses.dataclass(frozen=True)
class Arguments:
    """List the recipes, show one, or copy one into a file to edit.

    td3 recipes
    td3 recipes show paper
    td3 recipes copy paper mine.toml   # a file to edit
    """

    action: tyro.conf.Positional[Literal["list", "show", "copy"]] = "list"
    """Action."""
    name: tyro.conf.Positional[str] = ""
    """Name of the recipe, for show and copy."""
    out: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="FILE")] = None
    """File to write, for copy; default: NAME.toml."""
    json: bool = False
    """Print as JSON."""


def run(arguments: Arguments) -> int:
    if arguments.action == "list":
        return list_recipes(arguments.json)
    if not arguments.name:
        raise UserError(f"Name a recipe, one of {', '.join(recipe_names())}.")
    text = recipe_text(arguments.name)
    if arguments.action == "show":
        resolved = to_dict(load_recipe(arguments.name))
        print(json.dumps(resolved) if arguments.json else text.rstrip())
        return 0
    return copy(text, arguments.out or Path(f"{arguments.name}.toml"))


def list_recipes(as_json: bool) -> int:
    configs = {name: load_recipe(name) for name in recipe_names()}
    if as_json:
        print(json.dumps({name: to_dict(config) for name, config in configs.items()}))
        return 0
    for name in configs:
        lines = recipe_text(name).splitlines()
        first, *others = [line.lstrip("# ") for line in lines[: lines.index("")]]
        print(f"{name:<12} {first}")
        for line in others:
            print(f"{'':<12} {line}")
    print("\nTry:\n  td3 recipes show paper\n  td3 recipes copy paper mine.toml")
    return 0


def copy(text: str, out: Path) -> int:
    if out.suffix != ".toml":
        raise UserError(f"A recipe file must end in .toml; use {out}.toml.")
    if out.exists():
        raise UserError(f"{out} exists already; use another name.")
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write {out}: {error.strerror}.") from error
    print(f"Wrote {out}. Train with it:\n  td3 train HalfCheetah-v5 --recipe {out}")
    return 0
