"""The records of metrics.jsonl as tables."""

from pathlib import Path
from typing import Any

from td3.api.table import Table
from td3.report.summary import read_series

IDENTITY = ("step", "agent", "seed")


def read_table(folder: Path, kind: str) -> Table:
    """The records of one kind, "evaluation" or "train", by step, then by agent."""
    series, _ = read_series(folder)
    records = [own for (found, _), group in series.items() if found == kind for own in group]
    return Table([flatten_record(own) for own in sorted(records, key=place_of)])


def place_of(record: dict[str, Any]) -> tuple[int, int]:
    """Where a record belongs in a table."""
    return record["step"], record["agent"]


def flatten_record(record: dict[str, Any]) -> dict[str, Any]:
    """A record as a row: the settings of the grid and other tables become columns."""
    row: dict[str, Any] = {name: record[name] for name in IDENTITY if name in record}
    row |= record.get("settings") or {}
    for name, value in record.items():
        if name in (*IDENTITY, "kind", "settings"):
            continue
        if isinstance(value, dict):
            row |= {f"{name}.{key}": own for key, own in value.items()}
        else:
            row[name] = value
    return row
