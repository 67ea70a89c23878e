"""td3 report"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from td3.errors import UserError
from td3.report.page import summary_json, write_report
from td3.report.summary import RunSummary, read_runs


@dataclass(frozen=True)
class Arguments:
    """Write one page about one or more runs: settings, curves, table, training, video.

    report.html is self-contained; report.md links to its figures. Runs may be unfinished.

        td3 report runs/cheetah
        td3 report runs/* --out report
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN")]
    """Run folders."""
    out: Path | None = None
    """Folder to write to; default: the run itself, or ./report for several runs."""
    json: bool = False
    """Print the numbers and the written files as JSON."""


def run(arguments: Arguments) -> int:
    runs = given_runs(arguments.runs)
    out = arguments.out or (runs[0].folder if len(runs) == 1 else Path("report"))
    write_files(runs, out, "writing the report", lambda: write_report(runs, out), arguments.json)
    return 0


def write_files(
    runs: Sequence[RunSummary],
    out: Path,
    doing: str,
    write: Callable[[], list[Path]],
    as_json: bool,
) -> None:
    """Write files about runs and print their names, or with `as_json` also the numbers."""
    try:
        with Console(stderr=True).status(doing):
            written = write()
    except OSError as error:
        raise UserError(f"Cannot write to {out}: {error.strerror}.") from error
    if as_json:
        print(json.dumps({"written": [str(path) for path in written]} | summary_json(runs)))
    else:
        print("\n".join(f"Wrote {path}" for path in written))


def given_runs(folders: Sequence[Path]) -> list[RunSummary]:
    """The runs among these folders; others, as from runs/*, are skipped with a message."""
    others = [own for own in folders if own.exists() and not (own / "config.toml").is_file()]
    runs = [folder for folder in folders if folder not in others]
    if runs and others:
        print(f"Skipped (not run folders): {', '.join(map(str, others))}", file=sys.stderr)
    return read_runs(runs or folders)
