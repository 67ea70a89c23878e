"""Published learning curves: means and standard deviations over seeds."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from td3.errors import UserError
from td3.files import bounded_lines, open_to_read
from td3.intervals import Floats, standard_errors

COLUMNS = ("env", "step", "mean_return", "std_return", "seeds")


@dataclass(frozen=True, eq=False)
class Reference:
    """The published curve of one task."""

    name: str
    steps: Floats
    mean: Floats
    std: Floats
    seeds: int

    @property
    def deviation(self) -> Floats:
        """Sample standard deviation (ddof = 1), converted from the published ddof = 0."""
        deviation: Floats = self.std * (self.seeds / max(1, self.seeds - 1)) ** 0.5
        return deviation

    @property
    def error(self) -> Floats:
        """Half the width of the 95 % interval of the mean."""
        error: Floats = standard_errors(0.95, self.seeds) * self.deviation / self.seeds**0.5
        return error

    def until(self, step: float) -> "Reference":
        """The part up to a step."""
        return self.where(self.steps <= step)

    def along(self, end: float) -> "Reference":
        """The curve up to a step; a single point becomes a level from 0 to there."""
        if len(self.steps) > 1:
            return self.until(end)
        ends = np.array([0.0, end])
        return Reference(self.name, ends, self.mean.repeat(2), self.std.repeat(2), self.seeds)

    def at(self, steps: ArrayLike) -> "Reference":
        """The points at those of these steps that exist."""
        return self.where(np.isin(self.steps, steps))

    def where(self, kept: NDArray[np.bool_]) -> "Reference":
        numbers = (self.steps[kept], self.mean[kept], self.std[kept])
        return Reference(self.name, *numbers, self.seeds)


def read_reference(path: Path) -> dict[str, Reference]:
    """The curves of a CSV file (env, step, mean_return, std_return, seeds), by task."""
    tables: dict[str, list[tuple[float, float, float, float]]] = {}
    try:
        with open(path, newline="", encoding="utf-8", opener=open_to_read) as file:
            for row in csv.DictReader(bounded_lines(file)):
                _, *keys = COLUMNS
                step, mean, std, seeds = (float(row[key]) for key in keys)
                if not 1 <= seeds <= 1e9:
                    raise ValueError("seeds must be 1 or more")
                tables.setdefault(row["env"], []).append((step, mean, std, seeds))
    except OSError as error:
        raise UserError(f"Cannot read the reference {path}: {error.strerror}.") from error
    except (csv.Error, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not a CSV file of numbers with columns {', '.join(COLUMNS)}."
        ) from error
    found = {}
    for name, rows in tables.items():
        steps, mean, std, seeds = np.array(sorted(rows)).T
        found[name] = Reference(name, steps, mean, std, int(seeds.min()))
    return found


def matching(references: dict[str, Reference], task: str) -> Reference | None:
    """The curve of a task, or of another version of it."""
    others = {unversioned(name): found for name, found in reversed(references.items())}
    return references.get(task) or others.get(unversioned(task))


def unversioned(task: str) -> str:
    return re.sub(r"-v\d+$", "", task)
