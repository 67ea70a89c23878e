"""What stored runs earned, beside what others published, and how sure that is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from td3.bench.paper import BEYOND, TASKS
from td3.errors import UserError
from td3.report.curves import Curve, curves, last_steps
from td3.report.intervals import (
    RESAMPLES,
    Floats,
    bootstrap,
    interquartile_mean,
    probability_of_improvement,
)
from td3.report.reference import Reference, matching, read_reference, unversioned
from td3.report.summary import RunSummary, read_run

WALKERS = ("course", "bullet")  # recipes, and folders of results
ENOUGH = 5  # seeds, for resampling them to tell anything
# Most seeds reach the highest return there is: no normal distribution.
CEILING = ("InvertedPendulum", "InvertedDoublePendulum")


@dataclass(frozen=True, eq=False)
class Outcome:
    """One task: ours, and the authors' if they published it."""

    run: RunSummary
    curve: Curve
    published: Reference | None

    @property
    def task(self) -> str:
        return self.run.environment

    @property
    def last_steps(self) -> NDArray[np.int64]:
        return last_steps(self.curve.steps)

    @property
    def window(self) -> Floats:
        """The last ten evaluations of each seed, seeds × evaluations; before training none."""
        return self.at(self.last_steps)

    @property
    def last(self) -> Floats:
        """The mean of each seed's last ten evaluations."""
        return np.asarray(self.window.mean(axis=1))

    @property
    def final(self) -> Floats:
        """Each seed's return in the last evaluation."""
        return np.asarray(self.curve.values[:, -1])

    @property
    def best(self) -> Floats:
        """Each seed's return in the evaluation whose mean is the best."""
        return np.asarray(self.curve.values[:, self.curve.mean.argmax()])

    def at(self, steps: NDArray[np.int64]) -> Floats:
        """Each seed's evaluations at these steps, of those that there are."""
        return np.asarray(self.curve.values[:, np.isin(self.curve.steps, steps)])

    @property
    def authors(self) -> Reference | None:
        """At the steps of our evaluations, or, if they had others, over as many steps as ours."""
        if self.published is None:
            return None
        same = self.published.at(self.curve.steps)
        if len(same.steps) < len(self.curve.steps):
            same = self.published.until(float(self.curve.steps[-1]))
        return same if len(same.steps) else None

    @property
    def authors_window(self) -> Reference | None:
        """At the steps of our last ten evaluations; None: they did not evaluate there."""
        if self.published is None:
            return None
        same = self.published.at(self.last_steps)
        return same if len(same.steps) == len(self.last_steps) else None

    def score(self, returns: Floats | float, one: float | None = None) -> Floats:
        """0: what the authors' networks earned untrained; 1: later, at the same steps as ours."""
        assert self.published is not None
        assert self.authors_window is not None
        start = self.published.mean[0]
        end = self.authors_window.mean.mean() if one is None else one
        return np.asarray((np.asarray(returns) - start) / (end - start))

    @property
    def at_a_ceiling(self) -> bool:
        return unversioned(self.task) in CEILING


def read_tasks(folder: Path, authors: Path) -> list[Outcome]:
    """The paper's tasks, in its order."""
    outcomes = read_outcomes(folder, authors)
    ranks = {task: rank for rank, task in enumerate([*TASKS, *BEYOND])}
    return sorted(outcomes, key=lambda outcome: ranks.get(outcome.task, len(ranks)))


def read_walkers(results: Path, published: Path) -> list[Outcome]:
    """The course's tasks, those with the walk-throughs' settings first."""
    return [walker for name in WALKERS for walker in read_outcomes(results / name, published)]


def read_outcomes(folder: Path, reference: Path) -> list[Outcome]:
    """The stored runs, by name."""
    found = sorted(path.parent for path in folder.glob("*/config.toml"))
    known = read_reference(reference)
    outcomes = []
    for path in found:
        run = read_run(path)
        shown = curves([run])
        if len(shown) != 1:
            raise UserError(f"{path} is a grid; here each run is one setting with several seeds.")
        if (shown[0].steps > 0).any():
            outcomes.append(Outcome(run, shown[0], matching(known, run.environment)))
    return outcomes


def comparable(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those with several seeds on both sides, and curves of the authors at the same steps."""
    several = [outcome for outcome in outcomes if len(outcome.curve.values) > 1]
    return [own for own in several if own.authors_window and own.authors_window.seeds > 1]


def improvement(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Mean over tasks and evaluations, with an interval that knows of both sides' few seeds.

    A seed of theirs lies as far from their mean in one evaluation as in the others.
    """

    def once(outcome: Outcome, theirs: Reference, stream: np.random.Generator) -> float:
        ours = outcome.window
        chosen = ours[stream.integers(len(ours), size=len(ours))]
        drawn = theirs.mean + theirs.deviation * stream.standard_normal((theirs.seeds, 1))
        pairs = zip(chosen.T, drawn.T, strict=True)
        return float(np.mean([probability_of_improvement(*pair) for pair in pairs]))

    found = drawn_again(outcomes, once)
    return float(found.mean()), *middle_of(found)


def mean_score(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """The mean over tasks of our mean, with an interval that knows of both sides' few seeds."""

    def once(outcome: Outcome, theirs: Reference, stream: np.random.Generator) -> float:
        one = stream.normal(theirs.moments.mean, theirs.moments.squared_error**0.5)
        chosen = stream.choice(outcome.last, len(outcome.last))
        return float(outcome.score(chosen.mean(), one))

    mean = np.mean([outcome.score(outcome.last).mean() for outcome in outcomes])
    return float(mean), *middle_of(drawn_again(outcomes, once))


def drawn_again(
    outcomes: Sequence[Outcome],
    once: Callable[[Outcome, Reference, np.random.Generator], float],
) -> Floats:
    """The mean over tasks, for many ways in which both sides' seeds might have fallen."""
    stream = np.random.default_rng(0)
    both = [(one, one.authors_window) for one in outcomes if one.authors_window is not None]
    return np.array([np.mean([once(*sides, stream) for sides in both]) for _ in range(RESAMPLES)])


def middle_of(found: Floats) -> tuple[float, float]:
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


def score(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """The interquartile mean over all seeds of all tasks, each task resampled by itself."""
    scores = [outcome.score(outcome.last) for outcome in outcomes]

    def middle(groups: Sequence[Floats]) -> float:
        return interquartile_mean(np.concatenate(groups))

    return middle(scores), *bootstrap(middle, scores)


def elapsed(outcomes: Sequence[Outcome]) -> float:
    """Seconds in which at least one of them was trained."""
    seconds, until = 0.0, -np.inf
    for start, end in sorted(span for outcome in outcomes for span in outcome.run.stretches):
        seconds += max(0.0, end - max(start, until))
        until = max(until, end)
    return seconds
