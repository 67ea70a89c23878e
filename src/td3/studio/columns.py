"""The numbers of one agent's records as columns: small in memory, quick to draw."""

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from td3.report.summary import Floats, Steps

MOST_COLUMNS = 100
IDENTITY = ("kind", "step", "agent", "seed", "settings")
NAN, LARGEST = float("nan"), 1e300


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
        known, found = self.values, 0
        for name, value in numbers(record):
            column = known.get(name)
            if column is None:
                if len(known) == MOST_COLUMNS:
                    continue
                column = known[name] = array("d", [NAN]) * len(self.steps)
            column.append(value)
            found += 1
        self.steps.append(step)
        if found < len(known):
            for column in known.values():
                if len(column) < len(self.steps):
                    column.append(NAN)

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


def numbers(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The finite numbers of a record by name; those of tables such as `info` by dotted names."""
    for name, value in record.items():
        kind = type(value)
        if kind is float or kind is int:
            if name not in IDENTITY and -LARGEST < value < LARGEST:
                yield prefix + name, value
        elif kind is dict and not prefix and name not in IDENTITY:
            yield from numbers(printable(value), f"{name}.")


def printable(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: own for key, own in table.items() if len(key) <= 100 and key.isprintable()}


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
