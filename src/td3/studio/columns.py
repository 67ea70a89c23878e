"""The numbers of one agent's records as columns: small in memory, quick to draw."""

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from td3.report.summary import Floats, Steps, finite

MOST_COLUMNS = 100
IDENTITY = ("kind", "step", "agent", "seed", "settings")
NAN = float("nan")


class Columns:
    """Records in order of steps. If steps decrease, the later records replace the earlier ones."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.values: dict[str, array[float]] = {}
        self.rewinds = 0
        """How often steps decreased, so that records were removed."""

    def add(self, step: int, record: Mapping[str, Any]) -> None:
        if self.steps and self.steps[-1] >= step:
            self.rewind(step)
        row = {**record, **nested(record)}
        for name, value in row.items():
            number = None if name in IDENTITY else finite(value)
            if number is not None and name not in self.values and len(self.values) < MOST_COLUMNS:
                self.values[name] = array("d", [NAN] * len(self.steps))
        for name, column in self.values.items():
            number = finite(row.get(name))
            column.append(NAN if number is None else number)
        self.steps.append(step)

    def rewind(self, step: int) -> None:
        """Remove the records from a step on."""
        kept = int(np.searchsorted(self.all_steps(), step))
        self.rewinds += 1
        del self.steps[kept:]
        for column in self.values.values():
            del column[kept:]

    def all_steps(self) -> Steps:
        return np.array(self.steps, dtype=np.int64)

    def column(self, name: str) -> Floats:
        """One value per step; NaN where it is missing."""
        known = self.values.get(name)
        return np.full(len(self.steps), NAN) if known is None else np.array(known)

    def known(self, name: str) -> tuple[Steps, Floats]:
        """The steps that have this value, and the values."""
        steps, values = self.all_steps(), self.column(name)
        there = ~np.isnan(values)
        return steps[there], values[there]

    def last(self, name: str) -> float | None:
        """The newest value, or None."""
        values = self.known(name)[1]
        return float(values[-1]) if len(values) else None


def nested(record: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of tables such as `info` by dotted names."""
    return {
        f"{name}.{key}": value
        for name, table in record.items()
        if isinstance(table, dict) and name not in IDENTITY
        for key, value in table.items()
        if isinstance(key, str) and len(key) <= MOST_COLUMNS and key.isprintable()
    }


def thin(x: Floats, y: Floats, points: int) -> tuple[Floats, Floats]:
    """At most about `points` of these: first, last, and the extremes of equal parts.

    So a spike is drawn however far the view is zoomed out.
    """
    if len(x) <= max(points, 4):
        return x, y
    parts = np.array_split(np.arange(len(x)), max(1, points // 2 - 1))
    picked = {0, len(x) - 1}
    for part in parts:
        own = y[part]
        picked |= {int(part[own.argmin()]), int(part[own.argmax()])}
    chosen = np.array(sorted(picked))
    return x[chosen], y[chosen]
