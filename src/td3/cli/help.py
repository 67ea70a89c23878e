"""The short help of `td3 train`: the common settings, one line each."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from td3.config import declared_settings

FLAG_WIDTH = 30


def short_help(arguments: Any, usage: str) -> str:
    """Description, examples and common settings of a command, at most 80 columns wide."""
    description, *examples = [
        line.strip() for line in (type(arguments).__doc__ or "").splitlines() if line.strip()
    ]
    rows = [row(*setting) for setting in common_settings(arguments)]
    more = f"{usage.partition(' [')[0]} --help-all shows every setting."
    head = [f"usage: {usage}", "", description, "", *(f"  {line}" for line in examples)]
    title = "Common settings, with their defaults in brackets:"
    return "\n".join([*head, "", title, *rows, "", more])


def common_settings(arguments: Any) -> Iterator[tuple[str, str, Any]]:
    """(name, help, default), those without a table first."""
    tables = []
    for field in dataclasses.fields(arguments):
        value = getattr(arguments, field.name)
        if dataclasses.is_dataclass(value):
            tables.append(("" if field.name == "config" else f"{field.name}.", value))
        elif declared_settings(arguments)[field.name].common:
            yield field.name, declared_settings(arguments)[field.name].help, value
    for prefix, table in tables:
        for name, help, value in common_settings(table):
            yield prefix + name, help, value


def row(name: str, help: str, default: Any) -> str:
    name = "variant" if name == "variant.name" else name
    flag = "ENVIRONMENT" if name == "environment_id" else f"--{name.replace('_', '-')}"
    shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
    empty = shown is None or shown is False or shown in ("", {})
    text = help.rstrip(".") if empty else f"{help.rstrip('.')} [{shown}]"
    return f"  {flag:<{FLAG_WIDTH}}{text}"
