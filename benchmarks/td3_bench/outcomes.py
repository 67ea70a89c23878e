"""Stored runs, compared with published results."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.td3_bench.plan import OTHER_TASKS, PAPER_TASKS
from benchmarks.td3_bench.published import SeedCurves, read_published
from benchmarks.td3_bench.seed_statistics import (
    bootstrap_interval,
    interquartile_mean,
    probability_of_improvement,
)
from td3.errors import UserError
from td3.intervals import Floats
from td3.report.curves import Curve, curves, last_steps
from td3.report.reference import Reference, matching
from td3.report.summary import RunSummary, read_run

WALKER_RECIPES = ("course", "bullet")  # recipes, and folders of results
ENOUGH_SEEDS = 5  # for resampling


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
    def authors_seeds(self) -> SeedCurves | None:
        """The published curves of all seeds at our steps, or None."""
        if not isinstance(self.published, SeedCurves):
            return None
        same = self.published.where(np.isin(self.published.steps, self.curve.steps))
        return same if len(same.steps) == len(self.curve.steps) else None

    @property
    def authors_window(self) -> Reference | None:
        """The published curve at the steps of our last ten evaluations, or None."""
        if self.published is None:
            return None
        same = self.published.at(self.last_steps)
        return same if len(same.steps) == len(self.last_steps) else None

    @property
    def authors_last(self) -> Floats | None:
        """The mean of each of the authors' seeds at the steps of our last ten evaluations."""
        window = self.authors_window
        return window.values.mean(axis=1) if isinstance(window, SeedCurves) else None

    def score(self, ours: Floats, theirs: Floats) -> Floats:
        """Scale returns: 0 is the authors' untrained network, 1 the mean of their seeds."""
        assert self.published is not None
        start = self.published.mean[0]
        return np.asarray((ours - start) / (theirs.mean() - start))


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
    known = read_published(reference)
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
    """Return the outcomes with several seeds on both sides at the same last ten evaluations."""
    return [
        own
        for own in outcomes
        if own.authors_last is not None and min(len(own.last), len(own.authors_last)) > 1
    ]


def both_sides(outcomes: Sequence[Outcome]) -> list[Floats]:
    """Return our seeds and the authors' in turn: means of the last ten evaluations."""
    pairs = [(one.last, one.authors_last) for one in outcomes if one.authors_last is not None]
    return [side for pair in pairs for side in pair]


def improvement(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Return the mean over tasks of the probability that our seed beats theirs, with interval."""

    def mean(groups: Sequence[Floats]) -> float:
        pairs = zip(groups[::2], groups[1::2], strict=True)
        return float(np.mean([probability_of_improvement(*pair) for pair in pairs]))

    groups = both_sides(outcomes)
    return mean(groups), *bootstrap_interval(mean, groups)


def mean_score(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Return the mean score over tasks, with interval."""

    def mean(groups: Sequence[Floats]) -> float:
        return float(np.mean([one.mean() for one in scores(outcomes, groups)]))

    groups = both_sides(outcomes)
    return mean(groups), *bootstrap_interval(mean, groups)


def interquartile_score(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Return the interquartile mean of the scores of all seeds, with interval."""

    def middle(groups: Sequence[Floats]) -> float:
        return interquartile_mean(np.concatenate(scores(outcomes, groups)))

    groups = both_sides(outcomes)
    return middle(groups), *bootstrap_interval(middle, groups)


def scores(outcomes: Sequence[Outcome], groups: Sequence[Floats]) -> list[Floats]:
    """Return the scores of our seeds; `groups` are those of `both_sides`, maybe resampled."""
    sides = zip(outcomes, groups[::2], groups[1::2], strict=True)
    return [own.score(ours, theirs) for own, ours, theirs in sides]


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
