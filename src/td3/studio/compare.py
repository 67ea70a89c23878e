"""Several runs side by side: curves over seeds, results, settings."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from td3.errors import UserError
from td3.report.curves import DEFAULTS, NOT_LEARNING, Curve, SeedLine, XAxis, curves
from td3.report.page import table
from td3.report.reference import Reference, matching
from td3.report.summary import RunSummary
from td3.studio.columns import thin
from td3.studio.detail import plain_values
from td3.studio.live_run import LiveRun
from td3.studio.series import listed, xy

MOST_RUNS = 200
POINTS = 600
MOST_LINES = 400
LEARNING = ("environment.", "agent.", "loop.", "variant.")
References = Mapping[str, dict[str, Reference]]
"""Published curves: those of a file, by task, by the name of the file."""


def compare(
    runs: list[LiveRun], x: XAxis, references: References, chosen: Collection[str] = ()
) -> dict[str, Any]:
    """Curves, results and settings of runs, as plain JSON values.

    Args:
        runs: The runs.
        x: The horizontal axis.
        references: The published curves that are known.
        chosen: Names of those to show.
    """
    found: list[RunSummary] = []
    problems = []
    keys = {}
    for run in runs[:MOST_RUNS]:
        try:
            summary = run.summary()
            if x == "hours":
                summary.seconds_at(np.array([0], dtype=np.int64))
        except UserError as error:
            problems.append({"run": run.key, "text": str(error).replace(f"{run.folder}/", "")})
            continue
        keys[summary.folder] = run.key
        found.append(summary)
    drawn = curves(found)
    lines = sum(len(curve.lines) for curve in drawn)
    ends: dict[str, float] = {}
    for curve in drawn:
        at = [line.steps[-1] for line in curve.lines if len(line.steps)]
        ends[curve.environment] = max([ends.get(curve.environment, 0.0), *map(float, at)])
    return {
        "curves": [show_curve(curve, x, keys, lines <= MOST_LINES) for curve in drawn],
        "offered": [
            name for name, known in references.items() if any(matching(known, own) for own in ends)
        ],
        "references": show_references(references, chosen, ends) if x == "steps" else [],
        "table": [row_of(row, keys) for row in table(found) if row["kind"] == "group"],
        "settings": settings([(keys[own.folder], own) for own in found]),
        "problems": problems,
    }


def show_curve(curve: Curve, x: XAxis, keys: dict[Path, str], single: bool) -> dict[str, Any]:
    place, mean = (
        thin(curve.x(x), curve.mean, POINTS) if len(curve.steps) else (curve.mean, curve.mean)
    )
    at = np.searchsorted(curve.x(x), place) if len(curve.steps) else np.empty(0, dtype=int)
    shown: dict[str, Any] = {
        "environment": curve.environment,
        "label": curve.label,
        "seeds": len(curve.values),
        "runs": sorted({keys[line.run.folder] for line in curve.lines}),
        "mean": xy(place, mean),
        "low": listed(curve.low[at]),
        "high": listed(curve.high[at]),
    }
    return shown | {"lines": [show_line(line, x, keys) for line in curve.lines] if single else []}


def show_line(line: SeedLine, x: XAxis, keys: dict[Path, str]) -> dict[str, Any]:
    own = thin(line.x(x), line.returns, POINTS // 2)
    return {"run": keys[line.run.folder], "agent": line.agent, "seed": line.seed, **xy(*own)}


def show_references(
    references: References, chosen: Collection[str], ends: dict[str, float]
) -> list[dict[str, Any]]:
    """The published curves of these tasks, with the interval of their mean."""
    found = []
    for name, known in references.items():
        for task, end in ends.items() if name in chosen else []:
            reference = matching(known, task)
            if reference is not None and end > 0:
                found.append({"environment": task, "label": name, **band(reference.along(end))})
    return found


def band(reference: Reference) -> dict[str, Any]:
    low, high = reference.mean - reference.error, reference.mean + reference.error
    return {
        "name": reference.name,
        "seeds": reference.seeds,
        "mean": xy(reference.steps, reference.mean),
        "low": listed(low),
        "high": listed(high),
    }


def row_of(row: dict[str, Any], keys: dict[Path, str]) -> dict[str, Any]:
    names = ("environment", "label", "seeds", "steps", "best", "best_step", "frozen")
    shown = {name: row[name] for name in names}
    for name in ("last_ten", "best"):
        shown |= {f"{name}{end}": row.get(f"{name}{end}") for end in ("", "_low", "_high")}
    return shown


def settings(runs: list[tuple[str, RunSummary]]) -> list[dict[str, Any]]:
    """One row per setting: its value in each run, and whether they differ. Different ones first."""
    tables = [(key, settings_of(run)) for key, run in runs]
    rows = []
    for name in dict.fromkeys(name for _, own in tables for name in own):
        values = {key: own.get(name) for key, own in tables}
        differ = len({repr(value) for value in values.values()}) > 1
        rows.append({"name": name, "values": values, "differ": differ})
    return sorted(rows, key=lambda row: not row["differ"])


def settings_of(run: RunSummary) -> dict[str, Any]:
    skipped = ("machine.", "code.", "source.")
    own = plain_values(DEFAULTS | run.settings)
    return {
        k: ", ".join(map(str, v)) if isinstance(v, list) else v
        for k, v in own.items()
        if not k.startswith(skipped)
    }


def points(runs: list[LiveRun]) -> list[dict[str, Any]]:
    """Each combination of settings of these runs with its result: for tables and parallel axes."""
    found = []
    for run in runs[:MOST_RUNS]:
        with run.lock:
            if not run.config:
                continue
            base = plain_values(DEFAULTS | run.settings)
            for group in run.groups():
                mean = group["mean"]
                trained = mean[group["steps"] > 0] if len(mean) else mean
                own = {k: v for k, v in base.items() if k.startswith(LEARNING)}
                found.append(
                    {
                        "run": run.key,
                        "agents": group["agents"],
                        "task": own["environment.id"],
                        "settings": own | plain_values(group["settings"]),
                        "seeds": len(group["values"]),
                        "steps": int(group["steps"][-1]) if len(mean) else 0,
                        "value": float(trained[-10:].mean()) if len(trained) else None,
                        "best": float(mean.max()) if len(mean) else None,
                        "state": run.status,
                    }
                )
    return with_differences(found)


def with_differences(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with only those settings that affect learning and differ within their task."""
    found = []
    for task in dict.fromkeys(row["task"] for row in rows):
        peers = [row for row in rows if row["task"] == task]
        names = dict.fromkeys(name for row in peers for name in row["settings"])
        kept = [
            name
            for name in names
            if name not in NOT_LEARNING and len({repr(p["settings"].get(name)) for p in peers}) > 1
        ]
        found += [p | {"settings": {name: p["settings"].get(name) for name in kept}} for p in peers]
    return found
