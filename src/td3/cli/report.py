"""td3 report"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from td3.errors import UserError
from td3.report.page import summary_json, write_report
from td3.report.summary import RunSummary, read_runs


@dataclass(frozen=True)
class Arguments:
    """Write one page about one or more runs: settings, curves, table, training, video.

    report.html holds everything and can be sent alone; report.md links its figures. Runs may
    still be going. Examples:

    td3 report runs/cheetah

    td3 report runs/* --out report
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders."""
    out: Path | None = None
    """Folder to write to; default: the run itself, or ./report for several runs."""
    json: bool = False
    """Print the numbers and the files written as JSON."""


def run(arguments: Arguments) -> int:
    """Write the page, and say where."""
    runs = given_runs(arguments.runs)
    out = arguments.out or (runs[0].folder if len(runs) == 1 else Path("report"))
    try:
        with Console(stderr=True).status("writing the report"):
            written = write_report(runs, out)
    except OSError as error:
        raise UserError(f"Cannot write to {out}: {error.strerror}.") from error
    if arguments.json:
        print(json.dumps({"written": [str(path) for path in written]} | summary_json(runs)))
    else:
        print("\n".join(f"Wrote {path}" for path in written))
    return 0


def given_runs(folders: Sequence[Path]) -> list[RunSummary]:
    """The runs among the folders named, as by runs/*; what is there but no run is left out."""
    others = [own for own in folders if own.exists() and not (own / "config.toml").is_file()]
    runs = [folder for folder in folders if folder not in others]
    if runs and others:
        print(f"Skipped (not run folders): {', '.join(map(str, others))}", file=sys.stderr)
    return read_runs(runs or folders)
