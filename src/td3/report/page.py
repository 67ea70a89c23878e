"""Runs → tables and one page to read or send."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from td3.files import CURVES, check_output
from td3.report.curves import Curve, SeedLine, curves, last_steps
from td3.report.document import Block, Grid, Heading, Lines, Media, as_html, as_markdown
from td3.report.intervals import over_seeds
from td3.report.plots import plot, plot_training
from td3.report.summary import Floats, Record, RunSummary, Steps

COLUMNS = {
    "environment": "environment",
    "label": "recipe",
    "run": "run",
    "seed": "seed",
    "steps": "steps",
    "last": "last evaluation",
    "last_ten": "last ten",
    "best": "best",
    "best_step": "best at step",
    "frozen": "diverged",
    "wall_seconds": "wall time",
    "steps_per_second": "steps/s",
}


def table(runs: Sequence[RunSummary]) -> list[Record]:
    """For each group its mean over seeds, then a row for each seed; what is unknown is None.

    A group is measured on the steps that all its seeds have reached. Its `best` is the best mean
    over time, as in the paper; that flatters, so read it beside the mean of the last ten
    evaluations. `_low` and `_high` are the 95 % interval of the mean, `_std` the spread of seeds,
    of which one seed says nothing.
    """
    return [
        row
        for curve in curves(runs)
        for row in (_group_row(curve), *(_seed_row(curve, line) for line in curve.lines))
    ]


def _row(curve: Curve, **known: Any) -> Record:
    return dict.fromkeys(COLUMNS) | {"environment": curve.environment, "label": curve.label} | known


def _group_row(curve: Curve) -> Record:
    frozen = sum(line.frozen is not None for line in curve.lines)
    row = _row(curve, kind="group", seeds=len(curve.values), frozen=frozen or None)
    if len(curve.steps):
        best = int(curve.mean.argmax())
        row |= {"steps": int(curve.steps[-1]), "best_step": int(curve.steps[best])}
        row |= over_seeds("last", curve.values[:, -1])
        row |= over_seeds("last_ten", _last_ten(curve.steps, curve.values))
        row |= over_seeds("best", curve.values[:, best])
    return row


def _last_ten(steps: Steps, values: Floats) -> Floats:
    """The mean of the last ten evaluations."""
    return np.asarray(values[..., np.isin(steps, last_steps(steps))].mean(axis=-1))


def _seed_row(curve: Curve, line: SeedLine) -> Record:
    steps, wall = line.run.steps_done(line.agent), line.run.wall_seconds
    row = _row(curve, kind="seed", run=str(line.run.folder), seed=line.seed, steps=steps)
    row |= {"agent": line.agent, "settings": line.run.own[line.agent], "frozen": line.frozen}
    row |= {
        "wall_seconds": wall,
        "steps_per_second": steps / wall if wall and not line.frozen else None,
    }
    if len(line.steps):
        best = int(line.returns.argmax())
        last_ten = _last_ten(line.steps, line.returns)
        row |= {"last": float(line.returns[-1]), "last_ten": float(last_ten)}
        row |= {"best": float(line.returns[best]), "best_step": int(line.steps[best])}
    return row


def summary_json(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """Runs, table and curves as plain JSON values."""
    return {
        "runs": [
            {
                "folder": str(run.folder),
                "environment": run.environment,
                "recipe": run.recipe,
                "seeds": [found.seed for found in run.evaluations.values()],
                "settings": list(run.own.values()),
                "frozen": run.frozen,
                "status": run.status,
                "steps": max(run.steps_done(agent) for agent in run.evaluations),
                "wall_seconds": run.wall_seconds,
                "damaged_lines": run.damaged,
            }
            for run in runs
        ],
        "table": table(runs),
        "curves": [
            {
                "environment": curve.environment,
                "label": curve.label,
                "seeds": len(curve.values),
                "steps": curve.steps.tolist(),
                "mean": curve.mean.tolist(),
                "low": curve.low.tolist() if len(curve.values) > 1 else None,
                "high": curve.high.tolist() if len(curve.values) > 1 else None,
            }
            for curve in curves(runs)
        ],
    }


def to_markdown(rows: Sequence[Record]) -> str:
    """The rows of `table` as a Markdown table; means over several seeds in bold."""
    return _results(rows).markdown(Path())


def _results(rows: Sequence[Record]) -> Grid:
    # The mean of one seed would only repeat that seed.
    shown = [row for row in rows if row["kind"] == "seed" or row["seeds"] > 1]
    columns = {k: v for k, v in COLUMNS.items() if k != "frozen" or any(r[k] for r in shown)}
    return Grid(
        header=list(columns.values()),
        rows=[[_cell(row, key) for key in columns] for row in shown],
        strong=[row["kind"] == "group" for row in shown],
    )


def _cell(row: Record, key: str) -> str:
    value = row[key]
    if value is None:
        return {"run": "all", "seed": f"{row.get('seeds')} seeds"}.get(key, "")
    if key == "frozen":
        return f"at step {value:,}" if row["kind"] == "seed" else f"{value} of {row['seeds']}"
    if key in ("steps", "best_step", "steps_per_second"):
        return f"{value:,.0f}"
    if key == "wall_seconds":
        return duration(value)
    if key not in ("last", "last_ten", "best"):
        return str(value)
    if row["kind"] == "seed":
        return _return(value)
    return interval_text(row, key)


def interval_text(row: Record, key: str) -> str:
    """A mean over seeds, and its interval if it has one."""
    ends = [row[end] for end in (f"{key}_low", f"{key}_high") if row.get(end) is not None]
    return _return(row[key]) + (f" ({' to '.join(map(_return, ends))})" if ends else "")


def _return(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def write_report(runs: Sequence[RunSummary], out: Path) -> list[Path]:
    """Write `out`/report.md and `out`/report.html, with their figures in `out`/plots.

    The HTML file holds figures and videos itself and can be sent alone; the Markdown file links.
    """
    for name in ("report.md", "report.html"):
        check_output(out / name)
    out.mkdir(parents=True, exist_ok=True)
    title = "TD3 on " + ", ".join(dict.fromkeys(run.environment for run in runs))
    blocks: list[Block] = [
        Heading(title, level=1),
        Lines([_headline(run) for run in runs]),
        _settings(runs),
        *_curve_blocks(runs, out / "plots" / "report"),
        *_training_blocks(runs, out / "plots"),
        *_video_blocks(runs),
    ]
    pages = {"report.md": as_markdown(blocks, out), "report.html": as_html(title, blocks)}
    for name, text in pages.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in pages]


def _headline(run: RunSummary) -> str:
    done = max(run.steps_done(agent) for agent in run.evaluations)
    asked = run.settings.get("loop.steps")
    of = f" of {asked:,}" if isinstance(asked, int) else ""
    count = len({found.seed for found in run.evaluations.values()})
    seeds = f"{count} seed{'s' if count > 1 else ''}"
    if len(run.evaluations) > count:
        seeds += f" × {len(run.evaluations) // count} settings = {len(run.evaluations)} agents"
    parts = [f"{run.name}: {run.status}", f"{done:,}{of} steps", seeds, f"recipe {run.recipe}"]
    if run.wall_seconds is not None:
        parts.append(duration(run.wall_seconds))
    parts += [f"agent {agent} diverged at step {step:,}" for agent, step in run.frozen.items()]
    if run.damaged:
        parts.append(f"{run.damaged} unreadable lines of metrics.jsonl left out")
    warnings = [str(e.get("message", "")) for e in run.events if e.get("event") == "warning"]
    if warnings:
        more = f"{len(warnings)} warnings, the last" if len(warnings) > 1 else "a warning"
        parts.append(f"{more}: {warnings[-1]}")
    return ", ".join(parts)


def _settings(runs: Sequence[RunSummary]) -> Grid:
    """One row per setting; where runs differ, each value with the runs that have it."""
    rows = []
    for key in dict.fromkeys(key for run in runs for key in run.settings):
        holders: dict[str, list[str]] = {}
        for run in runs:
            holders.setdefault(str(run.settings.get(key, "unset")), []).append(run.name)
        values = [f"{value} ({', '.join(names)})" for value, names in holders.items()]
        rows.append([key, next(iter(holders)) if len(holders) == 1 else "; ".join(values)])
    return Grid(["setting", "value"], rows, folded="Settings")


def _curve_blocks(runs: Sequence[RunSummary], stem: Path) -> list[Block]:
    blocks: list[Block] = [Heading("Learning curves")]
    if any(len(found.steps) for run in runs for found in run.evaluations.values()):
        blocks.append(Media(plot(runs, stem)[1], "Evaluation return against steps"))
    else:
        blocks.append(Lines(["No evaluations yet."]))
    explained = (
        "Returns are means over the episodes of an evaluation, the last ten over ten of these "
        "(over all after training began, where they are fewer); in brackets, Student's "
        "95 % interval of the mean over seeds. Steps and steps/s are those of one seed. A group "
        "with a seed that diverged is measured up to where that one was last evaluated."
    )
    return [*blocks, Heading("Results"), Lines([explained]), _results(table(runs))]


def _training_blocks(runs: Sequence[RunSummary], folder: Path) -> list[Block]:
    blocks: list[Block] = [Heading("Training")]
    for number, run in enumerate(runs, start=1):
        if not any(run.train.values()):
            stored = (run.folder / CURVES).is_file()
            none = "not among what is stored" if stored else "nothing logged yet"
            blocks.append(Lines([f"{run.name}: {none}."]))
            continue
        stem = folder / ("training" if len(runs) == 1 else f"training-{number}")
        blocks += [Lines([run.name]), Media(plot_training(run, stem)[1], f"Training of {run.name}")]
    return blocks


def _video_blocks(runs: Sequence[RunSummary]) -> list[Block]:
    blocks: list[Block] = []
    for run in runs:
        # No links: the page would carry whatever file a copied folder points to.
        films = [
            path
            for kind in ("*.gif", "*.mp4")
            for path in sorted((run.folder / "videos").glob(kind))
            if path.is_file() and not path.is_symlink()
        ]
        if films:
            blocks.append(Media(films[-1], f"Video of {run.name}"))
    return [Heading("Video"), *blocks] if blocks else []
