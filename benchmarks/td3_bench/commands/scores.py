"""python -m benchmarks scores"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Arguments:
    """Print returns and scores of a campaign beside published ones, as a Markdown table.

    python -m benchmarks scores runs/flash-gate-results --step 100000

    python -m benchmarks scores runs/flash-ablation-results --page ablation.md
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
    """Results of 'python -m benchmarks campaign PLAN collect'."""
    step: int = 0
    """Step of the evaluations; 0: the last one that all runs have."""
    page: Path | None = None
    """Write a page with the table and two figures instead of printing the table."""


def run(arguments: Arguments) -> int:
    from benchmarks.td3_bench.scores import scores_table

    if arguments.page:
        from benchmarks.td3_bench.scores_page import write_page

        print(*write_page(arguments.folder, arguments.page, arguments.step), sep="\n")
        return 0
    print(scores_table(arguments.folder, arguments.step))
    return 0
