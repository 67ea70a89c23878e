"""docs/results.md: the paper's tasks trained again, beside the authors' curves.

Made from the runs that 'td3 bench paper' stored in benchmarks/results/paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from td3.curves import Curve, curves
from td3.errors import UserError
from td3.intervals import (
    RESAMPLES,
    Floats,
    bootstrap,
    interquartile_mean,
    mean_interval,
    probability_of_improvement,
)
from td3.pages import number, renew, table
from td3.paper import BEYOND, TASKS
from td3.plots import plot
from td3.reference import Reference, matching, read_reference
from td3.report import duration
from td3.summary import RunSummary, read_run

LAST = 10  # evaluations
LABEL = "TD3 authors, version 1 of the tasks"


@dataclass(frozen=True, eq=False)
class Outcome:
    """One task: ours, and the authors' if they published it."""

    run: RunSummary
    curve: Curve
    published: Reference | None

    @property
    def authors(self) -> Reference | None:
        """Over as many steps as ours."""
        return self.published and self.published.until(float(self.curve.steps[-1]))

    @property
    def task(self) -> str:
        return self.run.environment

    @property
    def last(self) -> Floats:
        """The mean of each seed's last ten evaluations."""
        return np.asarray(self.curve.values[:, -LAST:].mean(axis=1))

    def score(self, returns: Floats | float) -> Floats:
        """0: what the authors' networks earned untrained; 1: in the end, over their last ten."""
        assert self.published is not None
        start, end = self.published.mean[0], self.published.mean[-LAST:].mean()
        return np.asarray((np.asarray(returns) - start) / (end - start))

    def authors_seeds(self, stream: np.random.Generator) -> Floats:
        """Seeds like theirs, of which only mean and deviation are known, drawn from a normal
        distribution."""
        assert self.authors is not None
        mean, std = self.authors.mean[-LAST:].mean(), self.authors.std[-LAST:].mean()
        return stream.normal(mean, std, self.authors.seeds)


def write_results(folder: Path, reference: Path, page: Path) -> list[Path]:
    """Bring the page and its figure up to date; returns what was written."""
    outcomes = read_outcomes(folder, reference)
    runs = [outcome.run for outcome in outcomes]
    figure = page.parent / "media" / "results"
    known = any(outcome.authors for outcome in outcomes)
    try:
        written = plot(runs, figure, reference=reference if known else None, reference_label=LABEL)
        renew(page, "Results", made(outcomes))
    except OSError as error:
        raise UserError(f"Cannot write {page}: {error.strerror}.") from error
    return [page, *written]


def read_outcomes(folder: Path, reference: Path) -> list[Outcome]:
    """The stored runs, in the order of the paper."""
    order = [*TASKS, *BEYOND]
    found = [path.parent for path in folder.glob("*/config.toml")]
    if not found:
        raise UserError(f"{folder} holds no results; 'td3 bench paper' makes them.")
    known = read_reference(reference)
    outcomes = []
    for path in sorted(found, key=lambda path: (path.name not in order, path.name)):
        run = read_run(path)
        (curve,) = curves([run])
        if len(curve.steps):
            outcomes.append(Outcome(run, curve, matching(known, run.environment)))
    ranks = {task: rank for rank, task in enumerate(order)}
    return sorted(outcomes, key=lambda outcome: ranks.get(outcome.task, len(ranks)))


def made(outcomes: Sequence[Outcome]) -> str:
    return "\n\n".join(
        [
            "![Learning curves](media/results.png)",
            "## Returns",
            returns_table(outcomes),
            "## Beside the authors",
            comparison(outcomes),
            "## Circumstances",
            circumstances(outcomes),
        ]
    )


def returns_table(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for outcome in outcomes:
        curve, authors = outcome.curve, outcome.authors
        best = int(curve.mean.argmax())
        low, high = map(float, mean_interval(outcome.last))
        middle = interquartile_mean(outcome.last)
        between = bootstrap(lambda groups: interquartile_mean(groups[0]), [outcome.last])
        theirs = ["", ""]
        if authors:
            top, last = int(authors.mean.argmax()), slice(-LAST, None)
            theirs = [
                plus_minus(authors.mean[top], authors.std[top]),
                plus_minus(authors.mean[last].mean(), authors.std[last].mean()),
            ]
        rows.append(
            [
                outcome.task, str(len(curve.values)),
                plus_minus(curve.mean[best], curve.values[:, best].std()), theirs[0],
                plus_minus(outcome.last.mean(), outcome.last.std()), interval(low, high), theirs[1],
                f"{number(middle)} ({interval(*between)})",
            ]
        )  # fmt: skip
    header = [
        "task", "seeds", "best mean over time", "authors'", "last ten evaluations", "95 % interval",
        "authors'", "interquartile mean of the last ten",
    ]  # fmt: skip
    return table(header, rows)


def comparison(outcomes: Sequence[Outcome]) -> str:
    shared = [outcome for outcome in outcomes if outcome.authors]
    if not shared:
        return "None of these tasks is in their curves."
    rows = [[outcome.task, *improvement([outcome]), *aggregate([outcome])] for outcome in shared]
    if len(shared) > 1:
        together = [*improvement(shared), *aggregate(shared)]
        rows.append([f"**all {len(shared)}**", *(f"**{cell}**" for cell in together)])
    header = ["task", "probability that a seed of ours does better", "score, interquartile mean"]
    return table(header, rows)


def improvement(outcomes: Sequence[Outcome]) -> list[str]:
    """Mean over tasks, with an interval that knows of both sides' few seeds."""
    stream = np.random.default_rng(0)
    found = []
    for _ in range(RESAMPLES):
        pairs = []
        for outcome in outcomes:
            chosen = stream.integers(len(outcome.last), size=len(outcome.last))
            theirs = outcome.authors_seeds(stream)
            pairs.append(probability_of_improvement(outcome.last[chosen], theirs))
        found.append(np.mean(pairs))
    low, high = np.percentile(found, [2.5, 97.5])
    return [f"{np.mean(found):.2f} ({low:.2f} to {high:.2f})"]


def aggregate(outcomes: Sequence[Outcome]) -> list[str]:
    scores = [outcome.score(outcome.last) for outcome in outcomes]

    def middle(groups: Sequence[Floats]) -> float:
        return interquartile_mean(np.concatenate(groups))

    low, high = bootstrap(middle, scores)
    return [f"{middle(scores):.2f} ({low:.2f} to {high:.2f})"]


def circumstances(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for outcome in outcomes:
        run, settings = outcome.run, outcome.run.settings
        machine = settings.get("machine.gpu") or settings.get("machine.processor", "")
        names = ("python", "torch", "gymnasium", "mujoco")
        versions = [
            f"{n} {settings[f'versions.{n}']}" for n in names if f"versions.{n}" in settings
        ]
        every, episodes = settings.get("evaluation.every"), settings.get("evaluation.episodes")
        rows.append(
            [
                f"`{run.name}`", run.recipe, f"{outcome.curve.steps[-1]:,}",
                f"every {every:,}, {episodes} episodes", duration(run.wall_seconds or 0),
                str(machine), ", ".join(versions), str(settings.get("versions.commit", ""))[:10],
            ]
        )  # fmt: skip
    header = ["run", "recipe", "steps", "evaluated", "took", "where", "versions", "commit"]
    return table(header, rows)


def plus_minus(mean: float, std: float) -> str:
    return f"{number(mean)} ± {number(std)}"


def interval(low: float, high: float) -> str:
    return f"{number(low)} to {number(high)}"
