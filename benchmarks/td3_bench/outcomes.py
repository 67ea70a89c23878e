"""Stored runs, compared with published results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.td3_bench.plan import OTHER_TASKS, PAPER_TASKS
from benchmarks.td3_bench.seed_statistics import (
    RESAMPLES,
    Moments,
    bootstrap_interval,
    interquartile_mean,
    percentile_interval,
    probability_of_improvement,
)
from td3.errors import UserError
from td3.intervals import Floats
from td3.report.curves import Curve, curves, last_steps
from td3.report.reference import Reference, matching, read_reference, unversioned
from td3.report.summary import RunSummary, read_run

WALKER_RECIPES = ("course", "bullet")  # recipes, and folders of results
ENOUGH_SEEDS = 5  # for resampling
# Most seeds reach the maximum return, so returns are not normally distributed.
SATURATED = ("InvertedPendulum", "InvertedDoublePendulum")


@dataclass(frozen=True, eq=False)
class Outcome:
    """One task: our run, and the published result if there is one."""

    run: RunSummary
    curve: Curve
    published: Reference | None

    @property
    def task(self) -> str:
        return self.run.environment

    @property
    def is_saturated(self) -> bool:
        return unversioned(self.task) in SATURATED

    @property
    def last_steps(self) -> NDArray[np.int64]:
        return last_steps(self.curve.steps)

    @property
    def window(self) -> Floats:
        """The last ten evaluations of each seed (seeds × evaluations), without step 0."""
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
        """Each seed's return in the evaluation with the best mean."""
        return np.asarray(self.curve.values[:, self.curve.mean.argmax()])

    def at(self, steps: NDArray[np.int64]) -> Floats:
        """Return each seed's evaluations at these steps, as far as they exist."""
        return np.asarray(self.curve.values[:, np.isin(self.curve.steps, steps)])

    @property
    def authors(self) -> Reference | None:
        """The published curve at our steps, or up to our last step if its steps differ."""
        if self.published is None:
            return None
        same = self.published.at(self.curve.steps)
        if len(same.steps) < len(self.curve.steps):
            same = self.published.until(float(self.curve.steps[-1]))
        return same if len(same.steps) else None

    @property
    def authors_window(self) -> Reference | None:
        """The published curve at the steps of our last ten evaluations, or None."""
        if self.published is None:
            return None
        same = self.published.at(self.last_steps)
        return same if len(same.steps) == len(self.last_steps) else None

    def score(self, returns: Floats | float, one: float | None = None) -> Floats:
        """Scale returns: 0 is the authors' untrained network, 1 their mean at the same steps."""
        assert self.published is not None
        assert self.authors_window is not None
        start = self.published.mean[0]
        end = self.authors_window.mean.mean() if one is None else one
        return np.asarray((np.asarray(returns) - start) / (end - start))


def read_tasks(folder: Path, authors: Path) -> list[Outcome]:
    """Read the tasks of the paper, in its order."""
    outcomes = read_outcomes(folder, authors)
    ranks = {task: rank for rank, task in enumerate([*PAPER_TASKS, *OTHER_TASKS])}
    return sorted(outcomes, key=lambda outcome: ranks.get(outcome.task, len(ranks)))


def read_walkers(results: Path, published: Path) -> list[Outcome]:
    """Read the PyBullet walkers, those with the course's settings first."""
    return [one for name in WALKER_RECIPES for one in read_outcomes(results / name, published)]


def read_outcomes(folder: Path, reference: Path) -> list[Outcome]:
    """Read the stored runs of a folder, by name."""
    known = read_reference(reference)
    outcomes = []
    for path in sorted(path.parent for path in folder.glob("*/config.toml")):
        run = read_run(path)
        found = curves([run])
        if len(found) != 1:
            raise UserError(f"{path} is a grid; expected one setting with several seeds.")
        if (found[0].steps > 0).any():
            outcomes.append(Outcome(run, found[0], matching(known, run.environment)))
    return outcomes


def comparable(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes with several seeds on both sides and published curves at our steps."""
    several = [outcome for outcome in outcomes if len(outcome.curve.values) > 1]
    return [own for own in several if own.authors_window and own.authors_window.seeds > 1]


def improvement(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Return the mean probability of improvement over tasks and evaluations, with its interval.

    A seed of theirs has the same distance from their mean (in standard deviations) in all
    evaluations.
    """

    def draw(outcome: Outcome, theirs: Reference, stream: np.random.Generator) -> float:
        ours = outcome.window
        chosen = ours[stream.integers(len(ours), size=len(ours))]
        drawn = theirs.mean + theirs.deviation * stream.standard_normal((theirs.seeds, 1))
        pairs = zip(chosen.T, drawn.T, strict=True)
        return float(np.mean([probability_of_improvement(*pair) for pair in pairs]))

    found = resample(outcomes, draw)
    return float(found.mean()), *percentile_interval(found)


def mean_score(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Return the mean score over tasks; its interval accounts for the seeds of both sides."""

    def draw(outcome: Outcome, theirs: Reference, stream: np.random.Generator) -> float:
        published = Moments.published(theirs)
        one = stream.normal(published.mean, published.squared_error**0.5)
        chosen = stream.choice(outcome.last, len(outcome.last))
        return float(outcome.score(chosen.mean(), one))

    mean = np.mean([outcome.score(outcome.last).mean() for outcome in outcomes])
    return float(mean), *percentile_interval(resample(outcomes, draw))


def resample(
    outcomes: Sequence[Outcome],
    draw: Callable[[Outcome, Reference, np.random.Generator], float],
) -> Floats:
    """Return the mean over tasks of many draws of both sides' seeds."""
    stream = np.random.default_rng(0)
    both = [(one, one.authors_window) for one in outcomes if one.authors_window is not None]
    return np.array([np.mean([draw(*sides, stream) for sides in both]) for _ in range(RESAMPLES)])


def interquartile_score(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Return the interquartile mean of the scores of all seeds, resampled per task."""
    scores = [outcome.score(outcome.last) for outcome in outcomes]

    def middle(groups: Sequence[Floats]) -> float:
        return interquartile_mean(np.concatenate(groups))

    return middle(scores), *bootstrap_interval(middle, scores)


def working_periods(run: RunSummary) -> list[tuple[float, float]]:
    """Return (begin, end) of each period, from a start or resume to the last event of it."""
    found: list[tuple[float, float]] = []
    for now, name, _ in run.timed_events():
        if not found or name in ("start", "resume"):
            found.append((now, now))
        start, end = found[-1]
        found[-1] = start, max(end, now)
    return found


def elapsed_seconds(outcomes: Sequence[Outcome]) -> float:
    """Return the seconds in which at least one run was training."""
    seconds, until = 0.0, -np.inf
    for start, end in sorted(span for outcome in outcomes for span in working_periods(outcome.run)):
        seconds += max(0.0, end - max(start, until))
        until = max(until, end)
    return seconds
