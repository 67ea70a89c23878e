"""Runs → tables, and one page to read or send."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from td3.files import CURVES, check_output
from td3.intervals import over_seeds
from td3.report.curves import Curve, SeedLine, curves, last_steps
from td3.report.document import fold, media, to_html
from td3.report.glossary import glossary, link
from td3.report.plots import TRAINING, plot, plot_training
from td3.report.summary import Floats, Record, RunSummary, Steps
from td3.text import count, duration, escape, markdown_table, number

TEXTS = {"environment": "environment", "label": "recipe", "run": "run"}
COLUMNS = TEXTS | {
    "seed": "seed",
    "steps": "steps",
    "last": link("last evaluation", "return"),
    "last_ten": link("last ten", "best-and-last"),
    "best": link("best", "best-and-last"),
    "best_step": "at step",
    "frozen": link("diverged at step", "diverged"),
}


def table(runs: Sequence[RunSummary]) -> list[Record]:
    """One row for each group (mean over seeds), followed by a row for each of its seeds.

    Unknown values are None. A group covers the steps that all its seeds have reached. `best` is
    the best mean over time, as in the paper; it is biased upwards, so compare it with `last_ten`,
    the mean of the last ten evaluations. `_low` and `_high` are the 95 % interval of the mean,
    `_std` the population standard deviation over seeds; both are None for one seed.
    """
    return [
        row
        for curve in curves(runs)
        for row in (_group_row(curve), *(_seed_row(curve, line) for line in curve.lines))
    ]


def _row(curve: Curve, **known: Any) -> Record:
    known |= {"environment": curve.environment, "label": curve.label}
    return dict.fromkeys([*COLUMNS, "wall_seconds", "steps_per_second"]) | known


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


def results_table(rows: Sequence[Record]) -> str:
    """Rows of one kind (group or seed) as a Markdown table, without constant text columns."""
    hidden = {key for key in TEXTS if len({row[key] for row in rows}) == 1}
    if not any(row["frozen"] for row in rows):
        hidden.add("frozen")
    shown = {key: name for key, name in COLUMNS.items() if key not in hidden}
    if rows[0]["kind"] == "group":
        shown["seed"] = "seeds"
    cells = [[_cell(row, key) for key in shown] for row in rows]
    return markdown_table(list(shown.values()), cells, text_columns=len(TEXTS.keys() - hidden))


def _cell(row: Record, key: str) -> str:
    group = row["kind"] == "group"
    value = row["seeds"] if group and key == "seed" else row[key]
    if value is None:
        return ""
    if key == "frozen" and group:
        return f"{value} of {row['seeds']}"
    if key in ("steps", "best_step", "frozen"):
        return f"{value:,}"
    if key in ("last", "last_ten", "best"):  # a line may break before the bracket only
        return interval_text(row, key).replace(" to ", "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}")
    return escape(Path(value).name if key == "run" else str(value))


def interval_text(row: Record, key: str) -> str:
    """A mean over seeds, and its interval if it has one."""
    ends = [row[end] for end in (f"{key}_low", f"{key}_high") if row.get(end) is not None]
    between = " to ".join(number(end, 4) for end in ends)
    return number(row[key], 4) + (f" ({between})" if ends else "")


def write_report(runs: Sequence[RunSummary], out: Path) -> list[Path]:
    """Write `out`/report.md and `out`/report.html, with their figures in `out`/plots.

    The HTML file contains its figures and videos and can be sent alone; the Markdown file links.
    """
    for name in ("report.md", "report.html"):
        check_output(out / name)
    out.mkdir(parents=True, exist_ok=True)
    title = "TD3 on " + ", ".join(dict.fromkeys(run.environment for run in runs))
    parts = [
        f"# {escape(title)}",
        "\n".join(f"- {_headline(run)}" for run in runs),
        fold("Settings", _settings(runs)),
        *_results(runs, out),
        *_training(runs, out),
        *_videos(runs, out),
        "## What the numbers mean",
        glossary(out),
    ]
    markdown = "\n\n".join(parts) + "\n"
    pages = {"report.md": markdown, "report.html": to_html(title, markdown, out)}
    for name, text in pages.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in pages]


def _headline(run: RunSummary) -> str:
    done = max(run.steps_done(agent) for agent in run.evaluations)
    asked = run.settings.get("loop.steps")
    of = f" of {asked:,}" if isinstance(asked, int) else ""
    different = len({found.seed for found in run.evaluations.values()})
    seeds = count(different, "seed")
    if len(run.evaluations) > different:
        seeds += f" × {len(run.evaluations) // different} settings = {len(run.evaluations)} agents"
    parts = [f"{run.status}, {done:,}{of} steps, {seeds}, recipe {escape(run.recipe)}"]
    if run.wall_seconds:
        speed = link(f"{number(done / run.wall_seconds)} steps/s", "speed")
        parts.append(f"{duration(run.wall_seconds)} ({speed})")
    parts += [f"agent {agent} diverged at step {step:,}" for agent, step in run.frozen.items()]
    if run.damaged:
        parts.append(f"skipped {count(run.damaged, 'unreadable line')} of metrics.jsonl")
    warnings = [str(e.get("message", "")) for e in run.events if e.get("event") == "warning"]
    if warnings:
        more = f"{len(warnings)} warnings, the last" if len(warnings) > 1 else "warning"
        parts.append(f"{more}: {escape(warnings[-1])}")
    return f"**{escape(run.name)}**: {', '.join(parts)}"


def _settings(runs: Sequence[RunSummary]) -> str:
    """One row per setting; where runs differ, each value with the runs that have it."""
    rows = []
    for key in dict.fromkeys(key for run in runs for key in run.settings):
        holders: dict[str, list[str]] = {}
        for run in runs:
            value = run.settings.get(key, "unset")
            text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            holders.setdefault(text, []).append(run.name)
        values = [f"{value} ({', '.join(names)})" for value, names in holders.items()]
        text = next(iter(holders)) if len(holders) == 1 else "; ".join(values)
        rows.append([escape(key), escape(text)])
    return markdown_table(["setting", "value"], rows, text_columns=2)


def _results(runs: Sequence[RunSummary], out: Path) -> list[str]:
    parts = ["## Learning curves"]
    if any(len(found.steps) for run in runs for found in run.evaluations.values()):
        figure = plot(runs, out / "plots" / "report")[1]
        parts.append(media(figure, "Evaluation return against steps", out))
        shown = link("Evaluation return", "return"), link("95 % interval", "interval")
        parts.append(f"{shown[0]} against environment steps: mean over seeds and {shown[1]}.")
    else:
        parts.append("No evaluations yet.")
    rows = table(runs)
    groups, seeds = ([row for row in rows if row["kind"] == kind] for kind in ("group", "seed"))
    parts += [
        "## Results",
        "Evaluation returns: the last one, the mean of the last ten, and the best. In brackets, "
        f"the {link('95 % interval', 'interval')} of the mean over seeds.",
        results_table(groups),
    ]
    if any(row["frozen"] for row in groups):
        parts.append("A group ends at the last evaluation of its first seed that diverged.")
    return [*parts, fold("Each seed", results_table(seeds))] if len(seeds) > len(groups) else parts


def _training(runs: Sequence[RunSummary], out: Path) -> list[str]:
    parts = ["## Training"]
    for position, run in enumerate(runs, start=1):
        if not any(run.train.values()):
            stored = (run.folder / CURVES).is_file()
            missing = "stored without training records" if stored else "no training records yet"
            parts.append(f"{escape(run.name)}: {missing}.")
            continue
        stem = out / "plots" / ("training" if len(runs) == 1 else f"training-{position}")
        parts.append(media(plot_training(run, stem)[1], f"Training of {run.name}", out))
        metrics = [*TRAINING.values()]
        metrics += [(escape(key.partition(".")[2]), "info") for key in run.reported]
        names = " · ".join(link(name, anchor) for name, anchor in metrics)
        parts.append(f"{escape(run.name)}: {names}")
    return parts


def _videos(runs: Sequence[RunSummary], out: Path) -> list[str]:
    parts = []
    for run in runs:
        # Symbolic links are skipped: the page would contain any file that a copied folder names.
        films = [
            path
            for kind in ("*.gif", "*.mp4")
            for path in sorted((run.folder / "videos").glob(kind))
            if path.is_file() and not path.is_symlink()
        ]
        if films:
            parts.append(media(films[-1], f"Video of {run.name}", out))
    return ["## Video", *parts] if parts else []
