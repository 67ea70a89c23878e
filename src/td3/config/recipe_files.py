"""Recipes: TOML files with settings, in the package or in the user's own files."""

import dataclasses
import tomllib
from importlib import resources
from pathlib import Path

from td3.config.parsing import from_dict
from td3.config.schema import Config
from td3.config.toml import read_toml
from td3.errors import UserError, nearest


def recipe_names() -> list[str]:
    """The recipes in the package."""
    folder = resources.files("td3.config") / "recipes"
    return sorted(Path(f.name).stem for f in folder.iterdir() if f.name.endswith(".toml"))


def recipe_text(name: str) -> str:
    """The text of a recipe in the package."""
    if name not in recipe_names():
        known = ", ".join(recipe_names())
        raise UserError(f"No recipe {name!r}.{nearest(name, recipe_names())} There are: {known}.")
    return (resources.files("td3.config") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")


def load_recipe(name: str) -> Config:
    """The settings of a recipe in the package, or of a TOML file."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        if not path.is_file():
            raise UserError(f"No recipe file {name}; 'td3 recipes copy paper {name}' creates one.")
        return dataclasses.replace(from_dict(read_toml(path)), recipe=path.stem)
    return dataclasses.replace(from_dict(tomllib.loads(recipe_text(name))), recipe=name)
