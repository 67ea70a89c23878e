"""td3 plot"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console

from td3.cli.report import given_runs
from td3.errors import UserError
from td3.report.curves import curves
from td3.report.page import summary_json
from td3.report.plots import plot


@dataclass(frozen=True)
class Arguments:
    """Draw learning curves: mean and 95 % interval over seeds, one panel per environment.

    Runs of the same environment, recipe and settings are seeds of one curve. Runs may still be
    going. Examples:

    td3 plot runs/cheetah

    td3 plot runs/* --out figures/all --reference authors.csv --reference-label "authors, v1"
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""
    out: Path | None = None
    """Where to write, without .png or .svg; default: plots/curves in the run, or ./curves for
    several runs. A folder gets a file called curves."""
    reference: Path | None = None
    """CSV file (env, step, mean_return, std_return, seeds) to draw dashed behind the curves; a task
    with one row becomes a level."""
    reference_label: str = "reference"
    """What the legend calls it."""
    x: Literal["steps", "hours"] = "steps"
    """What to draw against: steps of one seed, or the wall time of its run."""
    json: bool = False
    """Print the numbers and the files written as JSON."""


def run(arguments: Arguments) -> int:
    """Draw, and say what was written."""
    runs = given_runs(arguments.runs)
    out = arguments.out or (runs[0].folder / "plots" if len(runs) == 1 else Path()) / "curves"
    if out.is_dir():
        out = out / "curves"
    elif out.suffix in (".png", ".svg"):
        out = out.with_suffix("")
    try:
        with Console(stderr=True).status("drawing"):
            written = plot(runs, out, arguments.x, arguments.reference, arguments.reference_label)
    except OSError as error:
        raise UserError(f"Cannot write {out}: {error.strerror}.") from error
    if arguments.json:
        print(json.dumps({"written": [str(path) for path in written]} | summary_json(runs)))
    else:
        print("\n".join(f"Wrote {path}" for path in written))
    shown = curves(runs)
    copies = sum(len(run.evaluations) for run in runs) - sum(len(own.lines) for own in shown)
    if copies:
        print(
            "Seeds that are in several runs of the same settings count once, by the run that took "
            "them furthest.",
            file=sys.stderr,
        )
    for curve in shown:
        longest = max((line.steps[-1] for line in curve.lines if len(line.steps)), default=0)
        if len(curve.steps) and longest > curve.steps[-1]:
            print(
                f"{curve.environment}, {curve.label}: mean and interval end at step "
                f"{curve.steps[-1]:,}, the last at which all {len(curve.values)} seeds were "
                "evaluated; those that go on are thin lines.",
                file=sys.stderr,
            )
    return 0
