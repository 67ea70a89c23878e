"""Write and read TOML files with nested tables of plain values."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from td3.errors import UserError
from td3.files import read_regular

LONGEST, DEEPEST, MOST_DOTS = 2**20, 64, 1000  # bytes; tables in tables; points in a text


def to_toml(tables: Mapping[str, Any]) -> str:
    """Nested tables of plain values as TOML text."""
    return "\n".join(_toml_lines(tables, "")).strip() + "\n"


def _toml_lines(table: Mapping[str, Any], name: str) -> list[str]:
    lines = [f"[{name}]"] if name else []
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines += [
        f"{_toml_key(key)} = {_toml_value(value)}"
        for key, value in table.items()
        if key not in nested and value is not None  # TOML has no None: an absent key
    ]
    for key, value in nested.items():
        lines += ["", *_toml_lines(value, f"{name}.{_toml_key(key)}" if name else _toml_key(key))]
    return lines


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        UserError: The file cannot be read or is not valid.
    """
    try:
        return parse_toml(read_regular(path, LONGEST).decode())
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path} is not valid TOML: {error}.") from error


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text, which anyone may have written. Raises ValueError."""
    keys = max(part.count(".") for part in re.split(r"[=,{\[\n]", text))
    if keys > MOST_DOTS:  # tomllib needs memory for every pair of parts of a key
        raise ValueError(f"it has a text with {keys:,} points")
    try:
        tables = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels") from error
    level: list[Any] = [tables]
    for _ in range(DEEPEST):
        level = [item for value in level for item in children(value)]
        if not level:
            return tables
    raise ValueError(f"it is nested deeper than {DEEPEST} levels")


def children(value: Any) -> Iterable[Any]:
    """What is in a table or list; nothing for other values."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
