"""Find a variant of the algorithm by its name, and the name of a variant.

A variant is a subclass of `td3.TD3`. Its name is that of a built-in variant, or `module:Class`.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

from td3.config.agent_settings import VariantSettings
from td3.errors import UserError, first_line, nearest

BUILT_IN = {
    "ensemble": "td3.algorithm.variants.ensemble:EnsembleTD3",
    "flash": "td3.algorithm.variants.flash:FlashTD3",
    "huber": "td3.algorithm.variants.huber:HuberTD3",
    "lap": "td3.algorithm.variants.lap:LAP",
    "layer_norm": "td3.algorithm.variants.layer_norm:LayerNormTD3",
    "lean": "td3.algorithm.variants.lean:LeanTD3",
}
known: dict[str, type[Any]] = {}
"""Classes that the user passed; one that was defined in a notebook cannot be imported."""


def variant_name(variant: type[Any]) -> str:
    """The name of a class that `load_variant` finds in this process.

    Raises:
        UserError: It is not a subclass of TD3.
    """
    check_variant_class(variant, getattr(variant, "__name__", repr(variant)))
    path = f"{variant.__module__}:{variant.__qualname__}"
    if path == "td3.algorithm.agent:TD3":
        return ""
    for name, own in BUILT_IN.items():
        if own == path:
            return name
    known[path] = variant
    return path


def load_variant(name: str) -> type[Any]:
    """The class with this name; the empty name is plain TD3.

    Raises:
        UserError: There is no such class, or it is not a subclass of TD3.
    """
    path = "td3.algorithm.agent:TD3" if not name else BUILT_IN.get(name, name)
    if path in known:
        return known[path]
    module, _, attribute = path.partition(":")
    if not attribute:
        raise UserError(
            f"There is no variant {name!r}.{nearest(name, BUILT_IN)} Built in: "
            f"{', '.join(BUILT_IN)}; your own is module:Class."
        )
    return check_variant_class(import_attribute(module, attribute, name), name)


def import_attribute(module: str, attribute: str, name: str) -> Any:
    if module == "__main__" or "<locals>" in attribute:
        raise UserError(
            f"The variant {name} was defined in a script, a notebook or a function, so it cannot "
            f"be imported. Continue with td3.resume(folder, variant={attribute.split('.')[-1]})."
        )
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise UserError(f"Cannot import the variant {name}: {first_line(error)}.") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            where = getattr(sys.modules.get(module), "__file__", None)
            place = f" ({Path(where).name})" if where else ""
            raise UserError(
                f"The module {module}{place} has no class {attribute}{own_variants(module)}."
            )
        found = getattr(found, part)
    return found


def own_variants(module: str) -> str:
    """Which variants a module defines, for an error message; empty if there are none."""
    names = [
        name
        for name, own in vars(sys.modules[module]).items()
        if isinstance(own, type) and own.__module__ == module and any(map(is_td3, own.__mro__))
    ]
    return f"; it has: {', '.join(names)}" if names else ""


def check_variant_class(found: Any, name: str) -> type[Any]:
    """Return the class. Raises UserError if it is not a variant."""
    if not (isinstance(found, type) and any(is_td3(base) for base in found.__mro__)):
        raise UserError(f"The variant {str(name)[:100]} is not a subclass of td3.TD3.")
    settings = getattr(found, "Settings", None)
    if not (isinstance(settings, type) and issubclass(settings, VariantSettings)):
        raise UserError(f"{name}.Settings must be a dataclass that extends td3.VariantSettings.")
    return found


def is_td3(base: type) -> bool:
    return (base.__module__, base.__qualname__) == ("td3.algorithm.agent", "TD3")


def settings_of(name: str) -> VariantSettings:
    """The default settings of a variant."""
    if not name:
        return VariantSettings()
    variant = load_variant(name)
    try:
        settings: VariantSettings = variant.Settings(name=name)
    except TypeError as error:
        raise UserError(
            f"The settings of the variant {name} need defaults: {first_line(error)}."
        ) from error
    return settings
