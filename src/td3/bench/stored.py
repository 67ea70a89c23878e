"""A run in a few small files, for a repository: what was asked, its curves, when what happened.

Everything that reads runs reads these: instead of metrics.jsonl they have curves.csv.
"""

import csv
import io
import json
from itertools import pairwise
from pathlib import Path

from td3.files import CURVES, replace_file
from td3.report.summary import Record, RunSummary, read_run

COLUMNS = ("agent", "seed", "step", "mean_return", "std_return")
PROGRESS_KEPT = 50


def store_run(run: Path, out: Path) -> RunSummary:
    """Write what is worth keeping of a run into the folder `out`; returns what that now says."""
    summary = read_run(run)
    out.mkdir(parents=True, exist_ok=True)
    replace_file(out / "config.toml", (run / "config.toml").read_bytes())
    replace_file(out / CURVES, curves_csv(summary).encode())
    replace_file(out / "events.jsonl", events_kept(summary).encode())
    return read_run(out)


def curves_csv(summary: RunSummary) -> str:
    """Every evaluation of every agent."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for agent, found in summary.evaluations.items():
        numbers = zip(found.steps, found.mean_returns, found.std_returns, strict=True)
        writer.writerows(
            [agent, found.seed, step, f"{mean:.7g}", f"{std:.5g}"] for step, mean, std in numbers
        )
    return text.getvalue()


def events_kept(summary: RunSummary) -> str:
    """All that happened, but of the reports of progress only some."""
    every = max(1, sum(is_progress(event) for event in summary.events) // PROGRESS_KEPT)
    kept, seen = [], 0
    for event, following in pairwise([*summary.events, {}]):
        seen += is_progress(event)
        # The last one before a kill says how long was worked until then.
        if not (is_progress(event) and is_progress(following) and seen % every):
            kept.append(event)
    return "".join(json.dumps(event) + "\n" for event in kept)


def is_progress(event: Record) -> bool:
    return event.get("event") == "progress"
