"""python -m benchmarks report"""

from dataclasses import dataclass
from pathlib import Path

from td3.errors import UserError
from td3.files import CURVES

RESULTS = Path("benchmarks/results")


@dataclass(frozen=True)
class Arguments:
    """Write docs/performance.md, docs/results.md, their figures and the results in README.md."""

    results: Path = RESULTS
    """Folder of stored results. Pages of another folder than benchmarks/results go there."""
    out: Path | None = None
    """Write the performance page to this file, and results.md next to it."""


def run(arguments: Arguments) -> int:
    from benchmarks.td3_bench.performance_page import write_performance
    from benchmarks.td3_bench.results_page import write_results

    results = arguments.results
    measured, trained = any(results.glob("*.json")), any(results.glob("paper/*/config.toml"))
    if not (measured or trained):
        raise UserError(explain_missing(results))
    references = results.parent / "reference"
    references = references if references.is_dir() else RESULTS.parent / "reference"
    if not references.is_dir():
        raise UserError(f"{references} does not exist; run this from a checkout.")
    own = results.resolve() == RESULTS.resolve()
    page = arguments.out or (Path("docs") if own else results) / "performance.md"
    readme = Path("README.md") if own and not arguments.out else None
    written = write_performance(results, references, page) if measured else []
    if trained:
        written += write_results(results, references, page.with_name("results.md"), readme)
    for path in written:
        print(f"Wrote {path}")
    return 0


def explain_missing(results: Path) -> str:
    if any(results.glob(f"*/{CURVES}")):
        return f"{results} contains tasks; move them to a folder paper and name the one above it."
    return (
        f"{results} has neither *.json nor paper/. Create them with 'td3 bench update --out "
        f"{results}/update.json' or 'python -m benchmarks paper --results {results}/paper'."
    )
