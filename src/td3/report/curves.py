"""Learning curves: seeds grouped by settings, with mean and interval of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np

from td3.config import Config, describe_settings, dotted, to_dict
from td3.config.checks import EXACT
from td3.intervals import mean_interval
from td3.report.summary import Floats, RunSummary, Steps

XAxis = Literal["steps", "hours"]
Metric = Literal["mean_returns", "successes"]

# Runs of one experiment may differ in these settings.
NOT_LEARNING = {
    "loop.steps",
    "loop.log_every",
    "environment.workers",
    "environment.patience",
    "environment.info",
}
DEFAULTS = dict(dotted(to_dict(Config()))) | {"variant.name": "TD3"}
LAST = 10  # evaluations that are averaged for the final result


@dataclass(frozen=True, eq=False)
class SeedLine:
    """The evaluations of one seed of one run; possibly none."""

    run: RunSummary
    agent: int
    seed: int
    steps: Steps
    returns: Floats

    @property
    def frozen(self) -> int | None:
        """The step at which it diverged, or None."""
        return self.run.frozen.get(self.agent)

    def x(self, axis: XAxis) -> Floats:
        """The evaluations' places on the x axis."""
        if axis == "hours":
            return self.run.seconds_at(self.steps) / 3600
        return self.steps.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Curve:
    """The mean over the seeds of a group, at the steps where every seed was evaluated."""

    environment: str
    label: str
    lines: tuple[SeedLine, ...]
    steps: Steps
    values: Floats
    """Returns, seeds × steps; only seeds that were evaluated."""
    mean: Floats
    low: Floats
    high: Floats

    def x(self, axis: XAxis) -> Floats:
        """The mean's places on the x axis; for hours, the mean time of its seeds."""
        if axis == "steps":
            return self.steps.astype(np.float64)
        seen = [line for line in self.lines if len(line.steps)]
        times = [np.interp(self.steps, line.steps, line.x(axis)) for line in seen]
        return np.asarray(np.mean(times, axis=0), dtype=np.float64)


def align(lines: Sequence[tuple[Steps, Floats]]) -> tuple[Steps, Floats]:
    """Steps that all lines share, and the values there (lines × steps).

    The result ends with the shortest line, so that the tail is not a mean of fewer lines. Nothing
    is interpolated.
    """
    if not lines:
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    shared = reduce(np.intersect1d, [steps for steps, _ in lines])
    rows = [values[np.searchsorted(steps, shared)] for steps, values in lines]
    return shared, np.stack(rows)


def labels(runs: Sequence[RunSummary]) -> list[dict[int, str]]:
    """For each agent of each run: its recipe and the settings that differ within that recipe.

    Agents with different hyper-parameters belong to different curves. The number of steps does not
    count; see `curves` for runs of different length.
    """
    settings = [[_learning(run.settings | own) for own in run.own.values()] for run in runs]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run, mine in zip(runs, settings, strict=True):
        groups.setdefault((run.environment, run.recipe), []).extend(mine)
    keys = {group: _differing(peers) for group, peers in groups.items()}
    found = []
    for run, mine in zip(runs, settings, strict=True):
        shown = keys[run.environment, run.recipe]
        words = [describe_settings(_shown_settings(own, shown)) for own in mine]
        names = [", ".join(filter(None, [run.recipe, text])) for text in words]
        found.append(dict(zip(run.own, names, strict=True)))
    return found


def _learning(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with one name for all backends that give the same numbers.

    Settings that an older run does not have get their default.
    """
    settings = {**DEFAULTS, **settings}
    backend = settings["environment.vectorization"]
    return {**settings, "environment.vectorization": "auto" if backend in EXACT else backend}


def _shown_settings(own: Mapping[str, Any], shown: Sequence[str]) -> dict[str, Any]:
    """The values of these settings; without the settings of another variant."""
    return {
        key: own.get(key, "unset") for key in shown if key in own or not key.startswith("variant.")
    }


def _differing(peers: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that affect learning and differ between agents."""
    return sorted(
        key
        for key in set().union(*peers) - NOT_LEARNING
        if key.startswith(("environment.", "agent.", "loop.", "variant."))
        and any(peer.get(key) != peers[0].get(key) for peer in peers)
    )


def curves(runs: Sequence[RunSummary], metric: Metric = "mean_returns") -> list[Curve]:
    """One curve per environment and label; each seed is one line of its group.

    A seed that occurs in several runs counts once, from the run with most evaluations: copies would
    make the interval too narrow. Mean and interval end with the shortest seed (see `align`).
    Seeds without evaluations are in `lines` but do not count.
    """
    groups: dict[tuple[str, str], dict[int, SeedLine]] = {}
    for run, names in zip(runs, labels(runs), strict=True):
        for agent, found in run.evaluations.items():
            values: Floats = getattr(found, metric)
            known_at = ~np.isnan(values)
            line = SeedLine(run, agent, found.seed, found.steps[known_at], values[known_at])
            group = groups.setdefault((run.environment, names[agent]), {})
            known = group.get(line.seed)
            if known is None or len(line.steps) > len(known.steps):
                group[line.seed] = line
    return [
        _curve(environment, label, list(group.values()))
        for (environment, label), group in groups.items()
    ]


def last_steps(steps: Steps) -> Steps:
    """The steps of the last ten evaluations, without the one before training unless it is alone."""
    trained = steps[steps > 0]
    return (trained if len(trained) else steps)[-LAST:]


def _curve(environment: str, label: str, lines: Sequence[SeedLine]) -> Curve:
    steps, values = align([(line.steps, line.returns) for line in lines if len(line.steps)])
    mean = low = high = np.empty(0)
    if len(steps):
        mean = values.mean(axis=0)
        low, high = mean_interval(values)
    return Curve(environment, label, tuple(lines), steps, values, mean, low, high)
