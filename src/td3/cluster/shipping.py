"""The user's own modules: what the nodes must be able to import."""

import importlib.util
import sys
from pathlib import Path

from td3.config import Config
from td3.environments.factories import is_importable
from td3.errors import UserError


def user_modules(config: Config) -> list[str]:
    """The top-level modules that the settings name as module:name."""
    named = [
        config.environment.id,
        config.variant.name,
        config.loop.exploration,
        *config.callback,
    ]
    return sorted({name.partition(":")[0].partition(".")[0] for name in named if ":" in name})


def folder_to_ship(config: Config) -> str:
    """The current folder if a module of the user is in it; otherwise "".

    Raises UserError if only this process has the environment.
    """
    if not is_importable(config.environment.id):
        raise UserError(
            f"{config.environment.id} exists only in this process, so the nodes cannot make it; "
            "move it into a module."
        )
    here = Path.cwd().resolve()
    for name in user_modules(config):
        place = find_module(name)
        if place and place.is_relative_to(here) and not place.is_relative_to(sys.prefix):
            return str(here)
    return ""


def find_module(name: str) -> Path | None:
    """The file of a module, or the folder of a package without one."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or [])
    return Path(places[0]).resolve() if places else None
