"""td3 plot"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from td3.cli.report import given_runs, write_files
from td3.report.curves import curves
from td3.report.plots import plot
from td3.report.summary import RunSummary


@dataclass(frozen=True)
class Arguments:
    """Draw learning curves: mean and 95 % interval over seeds, one panel per environment.

    Runs with equal environment, recipe and settings are seeds of one curve. Runs may be
    unfinished.

        td3 plot runs/cheetah
        td3 plot runs/* --out figures/all --reference authors.csv
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN")]
    """Run folders."""
    out: Path | None = None
    """Files to write, without suffix; default: plots/curves in the run, or ./curves for several
    runs. In a folder, the files are called curves."""
    reference: Path | None = None
    """CSV file (env, step, mean_return, std_return, seeds) to draw dashed; a task with one row
    becomes a horizontal line."""
    reference_label: str = "reference"
    """Name of the reference in the legend."""
    x: Literal["steps", "hours"] = "steps"
    """Horizontal axis: steps of one seed, or wall time of its run."""
    json: bool = False
    """Print the numbers and the written files as JSON."""


def run(arguments: Arguments) -> int:
    runs = given_runs(arguments.runs)
    out = arguments.out or (runs[0].folder / "plots" if len(runs) == 1 else Path()) / "curves"
    if out.is_dir():
        out = out / "curves"
    elif out.suffix in (".png", ".svg"):
        out = out.with_suffix("")

    def draw() -> list[Path]:
        return plot(runs, out, arguments.x, arguments.reference, arguments.reference_label)

    write_files(runs, out, "drawing", draw, arguments.json)
    for note in notes(runs):
        print(note, file=sys.stderr)
    return 0


def notes(runs: list[RunSummary]) -> list[str]:
    """What a reader of the figure must know: merged duplicates, curves of unequal length."""
    found, shown = [], curves(runs)
    if sum(len(run.evaluations) for run in runs) > sum(len(own.lines) for own in shown):
        found.append("A seed in several runs of equal settings counts once, from the longest run.")
    for curve in shown:
        longest = max((line.steps[-1] for line in curve.lines if len(line.steps)), default=0)
        if len(curve.steps) and longest > curve.steps[-1]:
            found.append(
                f"{curve.environment}, {curve.label}: mean and interval end at step "
                f"{curve.steps[-1]:,}, the last one evaluated by all {len(curve.values)} seeds; "
                "longer seeds are thin lines."
            )
    return found
