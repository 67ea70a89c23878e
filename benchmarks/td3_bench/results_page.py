"""docs/results.md and the results in README.md, from the runs stored in benchmarks/results.

Folders: paper (current settings), claims/original (the paper's own settings), course and bullet
(PyBullet walkers with the settings of the walk-throughs and of RL Baselines3 Zoo).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from benchmarks.td3_bench import results_tables as tables
from benchmarks.td3_bench.markdown import BEGIN, fill_template, format_table, update_page
from benchmarks.td3_bench.outcomes import Outcome, comparable, read_tasks, read_walkers
from benchmarks.td3_bench.verdicts import verdict_sentences, verdicts, verdicts_table
from td3.errors import UserError
from td3.report.plots import plot

AUTHORS = "TD3 authors, version 1 of the tasks"
STABLE_BASELINES = "Stable-Baselines3"
PAPER_SETTINGS = "claims/original"


def write_results(results: Path, references: Path, page: Path, readme: Path | None) -> list[Path]:
    """Update the page, its figures and the marked part of the README; return the files written."""
    authors, walkers_csv = references / "td3_authors_curves.csv", references / "pybullet.csv"
    outcomes, originals = (
        read_tasks(results / name, authors) for name in ("paper", PAPER_SETTINGS)
    )
    if not outcomes:
        raise UserError(
            f"{results / 'paper'} has no results; create them with 'python -m benchmarks paper'."
        )
    tianshou = read_tasks(results / "paper", references / "tianshou.csv")
    walkers = read_walkers(results, walkers_csv)
    media = page.parent / "media"
    try:
        written = plot_outcomes(authors, AUTHORS, outcomes, media / "results")
        if originals:
            tasks = {outcome.task for outcome in originals}
            both = [*(outcome for outcome in outcomes if outcome.task in tasks), *originals]
            written += plot_outcomes(authors, AUTHORS, both, media / "original")
        if walkers:
            written += plot_outcomes(walkers_csv, STABLE_BASELINES, walkers, media / "walkers")
        update_page(page, "Results", results_content(outcomes, tianshou, originals, walkers))
        written.insert(0, page)
        if readme and readme.is_file() and BEGIN in readme.read_text(encoding="utf-8"):
            update_page(readme, "", readme_content(outcomes))
            written.insert(0, readme)
    except OSError as error:
        raise UserError(f"Cannot write {error.filename or page}: {error.strerror}.") from error
    return written


def plot_outcomes(
    published: Path, label: str, outcomes: Sequence[Outcome], out: Path
) -> list[Path]:
    """Plot our curves, and the published ones if there are any."""
    reference = published if any(outcome.published for outcome in outcomes) else None
    runs = [
        dataclasses.replace(run, config=run.config | {"recipe": f"td3, recipe {run.recipe}"})
        for run in (outcome.run for outcome in outcomes)
    ]
    return plot(runs, out, reference=reference, reference_label=label)


def results_content(
    outcomes: Sequence[Outcome],
    tianshou: Sequence[Outcome] = (),
    originals: Sequence[Outcome] = (),
    walkers: Sequence[Outcome] = (),
) -> str:
    """Return the generated part of docs/results.md.

    `tianshou` holds the same tasks as `outcomes`, with the results of Tianshou as published ones.
    """
    parts = [fill_template("results_returns", table=tables.returns_table(outcomes))]
    parts += [authors_section(outcomes)]
    if tables.equally_long(tianshou):
        table = tables.tianshou_table(outcomes, tianshou)
        parts += [fill_template("results_tianshou", table=table)]
    if originals:
        parts += [
            fill_template(
                "results_settings",
                returns=tables.returns_table(originals),
                settings=tables.settings_table(outcomes, originals),
                comparison=tables.comparison_table(originals),
                verdicts=verdicts_table(verdicts(originals)),
            )
        ]
    if walkers:
        parts += [fill_template("results_walkers", table=tables.walkers_table(walkers))]
    circumstances = tables.circumstances_table([*outcomes, *originals, *walkers])
    parts += ["## Machines and versions", circumstances, tables.total_time(outcomes)]
    return "\n\n".join(parts)


def authors_section(outcomes: Sequence[Outcome]) -> str:
    comparison, found = tables.comparison_table(outcomes), verdicts(outcomes)
    if not (found and comparable(outcomes)):
        return f"## Comparison with the authors\n\n{comparison}"
    return fill_template(
        "results_comparison",
        table=comparison,
        verdicts=verdicts_table(found),
        sentences=verdict_sentences(found),
    )


def readme_content(outcomes: Sequence[Outcome]) -> str:
    """Return the generated part of README.md: the last ten evaluations, and all verdicts."""
    rows = []
    for outcome in outcomes:
        row = tables.returns_row(outcome)
        difference = tables.difference_to_authors(outcome) if comparable([outcome]) else ""
        time = tables.format_time(outcome.run)
        rows.append([row.task, row.last, row.authors_last, difference, time])
    figure = "![Learning curves of td3 and of the authors](docs/media/results.png)"
    header = ["task", "td3", "authors", "difference", "time"]
    parts = [figure, format_table(header, rows), verdict_sentences(verdicts(outcomes))]
    return "\n\n".join(filter(None, parts))
