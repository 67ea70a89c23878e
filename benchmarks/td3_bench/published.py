"""Published learning curves with a value per seed, and the file of the TD3 authors' curves."""

import csv
import io
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from td3.errors import UserError
from td3.files import replace_file
from td3.intervals import Floats
from td3.report.reference import COLUMNS, Reference, read_reference

EVERY = 5_000  # steps between the authors' evaluations
SEED_COLUMN = "seed_"
NAME = re.compile(r"TD3_(.+-v\d+)_(\d+)\.npy")


@dataclass(frozen=True, eq=False)
class SeedCurves(Reference):
    """The published curves of one task, all seeds."""

    values: Floats
    """Returns, seeds × steps."""

    def where(self, kept: NDArray[np.bool_]) -> "SeedCurves":
        return make_seed_curves(self.name, self.steps[kept], self.values[:, kept])


def make_seed_curves(name: str, steps: Floats, values: Floats) -> SeedCurves:
    return SeedCurves(name, steps, values.mean(axis=0), values.std(axis=0), len(values), values)


def read_published(path: Path) -> dict[str, Reference]:
    """Read published curves by task; a file with a column per seed gives `SeedCurves`."""
    found = read_reference(path)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = [name for name in (rows[0] if rows else {}) if name.startswith(SEED_COLUMN)]
    if not columns:
        return found
    try:
        for task in found:
            own = sorted(
                (row for row in rows if row["env"] == task), key=lambda r: float(r["step"])
            )
            values = np.array([[float(row[name]) for row in own] for name in columns])
            found[task] = make_seed_curves(task, found[task].steps, values)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path} has a seed without a number.") from error
    return found


def write_reference(source: Path, out: Path) -> list[str]:
    """Write the curves of the authors' repository, and its licence, to files; return the tasks."""
    tasks: dict[str, dict[int, Floats]] = {}
    for path in sorted(source.glob("learning_curves/*/TD3_*.npy")):
        if match := NAME.fullmatch(path.name):
            tasks.setdefault(match[1], {})[int(match[2])] = read_curve(path)
    if not tasks:
        raise UserError(
            f"{source} has no learning_curves/*/TD3_*.npy. Clone github.com/sfujim/TD3 and name "
            "its folder with --source."
        )
    seeds = max(map(len, tasks.values()))
    for task, curves in tasks.items():
        if sorted(curves) != list(range(seeds)) or len(set(map(len, curves.values()))) > 1:
            raise UserError(f"{task} does not have {seeds} seeds with equally many evaluations.")
    replace_file(out, reference_csv(tasks, seeds).encode())
    licence = source / "LICENSE"
    if licence.is_file():
        shutil.copyfile(licence, out.with_suffix(".LICENSE"))
    return list(tasks)


def reference_csv(tasks: dict[str, dict[int, Floats]], seeds: int) -> str:
    """Return one row per evaluation: the columns of every reference, then every seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"{SEED_COLUMN}{k}" for k in range(seeds))])
    for task, curves in tasks.items():
        values = np.array([curves[seed] for seed in range(seeds)])
        for k, column in enumerate(values.T):
            moments = [f"{column.mean():.6g}", f"{column.std():.6g}", seeds]
            writer.writerow([task, EVERY * k, *moments, *(f"{one:.6g}" for one in column)])
    return text.getvalue()


def read_curve(path: Path) -> Floats:
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a NumPy array of numbers: {error}.") from error
    if found.ndim != 1 or found.dtype.kind != "f" or not np.isfinite(found).all():
        raise UserError(f"{path} is not one row of finite numbers.")
    return np.asarray(found, dtype=np.float64)
