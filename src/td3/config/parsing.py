"""Conversion between configurations and nested tables, as in a TOML file."""

import dataclasses
import numbers
import os
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from td3.config.agent_settings import VariantSettings
from td3.config.environment_settings import Value
from td3.config.grid import check_agents
from td3.config.schema import Config
from td3.config.spelling import setting_near
from td3.config.variants import settings_of, variant_name
from td3.errors import UserError, nearest
from td3.text import shown

TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def from_dict(data: Mapping[str, Any], default: Config | None = None) -> Config:
    """The default configuration with the values of these tables.

    Raises:
        UserError: A key is unknown or a value has the wrong type.
    """
    config = typing.cast("Config", _merge(default or Config(), data, ""))
    check_agents(config.seeds, config.grid)
    return config


def _merge(default: Any, data: Mapping[str, Any], prefix: str) -> Any:
    known = {f.name: f for f in dataclasses.fields(default)}
    hints = typing.get_type_hints(type(default))
    changed: dict[str, Any] = {}
    for key, value in data.items():
        if key not in known:
            meant = setting_near(prefix + key)
            hint = f" Did you mean {meant!r}?" if meant else nearest(key, known)
            raise UserError(f"Unknown setting {shown(prefix + key)}.{hint}")
        current = getattr(default, key)
        if isinstance(current, VariantSettings):
            current, value = choose_variant(current, value)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, Mapping):
                raise UserError(f"{prefix + key} must be a table of settings, got {shown(value)}.")
            changed[key] = _merge(current, value, f"{prefix}{key}.")
        else:
            changed[key] = _convert(value, hints[key], prefix + key)
    return dataclasses.replace(default, **changed)


def choose_variant(current: VariantSettings, value: Any) -> tuple[VariantSettings, Any]:
    """The default settings of the variant that is asked for, and the table of its settings."""
    if isinstance(value, type):
        value = variant_name(value)
    table = {"name": value} if isinstance(value, str) else value
    if isinstance(table, Mapping) and "name" in table:
        name = table["name"] if isinstance(table["name"], str) else variant_name(table["name"])
        table = {**table, "name": name}
        if name != current.name:
            current = settings_of(name)
    return current, table


def _convert(value: Any, hint: Any, key: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is Literal:
        allowed = typing.get_args(hint)
        if value in allowed:
            return value
        raise UserError(f"{key} must be one of {', '.join(allowed)}, got {shown(value)}.")
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(item, typing.get_args(hint)[0], key) for item in value)
    if origin is dict and isinstance(value, Mapping):
        return _convert_dict(value, hint, key)
    if hint == float | None:
        return None if value is None else _convert(value, float, key)
    if hint is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if hint in TYPE_NAMES:
        plain = _plain(value, key)
        if hint is float and type(plain) is int:
            return float(plain)
        if hint is int and isinstance(plain, float) and plain.is_integer():  # 1e6
            return int(plain)
        if type(plain) is hint:
            return plain
    expected = TYPE_NAMES.get(hint, "a list" if origin is tuple else "a table")
    raise UserError(f"{key} must be {expected}, got {shown(value)}.")


def _convert_dict(value: Mapping[str, Any], hint: Any, key: str) -> dict[str, Any]:
    if key == "grid":  # "agent.tau" = […]; without quotes, TOML reads a nested table
        lists = {k: v if isinstance(v, tuple) else (v,) for k, v in dotted(value)}
        return {k: _convert(v, typing.get_args(hint)[1], k) for k, v in lists.items()}
    return {str(name): _plain(item, f"{key}.{name}") for name, item in value.items()}


def _plain(value: Any, key: str) -> Value:
    """A value that TOML can hold; NumPy numbers become Python numbers."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise UserError(f"{key} must be a number, text, or true or false, got {shown(value)}.")


def to_dict(config: Config) -> dict[str, Any]:
    """The configuration as nested plain tables; without that of the variant for plain TD3."""
    tables = dataclasses.asdict(config)
    if not config.variant.name:
        del tables["variant"]
    return tables


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Dotted name → (old, new) of every setting that differs between two nested tables."""
    old, new = dict(dotted(before)), dict(dotted(after))
    return {
        key: (old.get(key), new.get(key))
        for key in [*old, *(key for key in new if key not in old)]
        if repr(old.get(key)) != repr(new.get(key))  # by repr, NaN equals itself
    }


def dotted(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted name; lists become tuples, as in the dataclasses."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield prefix + key, tuple(value) if isinstance(value, list) else value
