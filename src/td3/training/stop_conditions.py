"""Callbacks that end a run early: the settings in the table `stop`."""

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from td3.config import StopConfig
from td3.text import count, duration, number, parse_duration
from td3.training.callbacks import STOP, Callback, LiveRun, Stop


class StopAtReturn(Callback):
    """Stops when the mean over the agents of their latest evaluation reaches a value."""

    def __init__(self, value: float) -> None:
        self.value = value

    def on_evaluation(self, run: LiveRun, evaluations: list[dict[str, Any]]) -> Stop | None:
        reached = mean_return(evaluations)
        if reached < self.value:
            return None
        return STOP(f"the mean return {number(reached)} reached {number(self.value)}")


class StopAfter(Callback):
    """Stops after a time in this process."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_step(self, run: LiveRun) -> Stop | None:
        if run.elapsed < self.seconds:
            return None
        return STOP(f"the time limit of {duration(self.seconds)} is over")


class StopWithoutImprovement(Callback):
    """Stops after several evaluations without a new highest mean over the agents."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best, self.waited = -math.inf, 0

    def on_start(self, run: LiveRun) -> None:
        """Count the evaluations before a resume, so that it stops where it would have stopped."""
        for evaluations in past_evaluations(run.folder / "metrics.jsonl"):
            self.observe(evaluations)

    def on_evaluation(self, run: LiveRun, evaluations: list[dict[str, Any]]) -> Stop | None:
        self.observe(evaluations)
        if self.waited < self.patience:
            return None
        since = count(self.waited, "evaluation")
        return STOP(f"{since} without improvement over {number(self.best)}")

    def observe(self, evaluations: list[dict[str, Any]]) -> None:
        reached = mean_return(evaluations)
        self.waited = 0 if reached > self.best else self.waited + 1
        self.best = max(self.best, reached)


STAYS_MET = (StopAtReturn, StopWithoutImprovement)
"""A resumed run is likely to stop for these again at its next evaluation."""


def make_stop_conditions(stop: StopConfig) -> list[Callback]:
    """The callbacks for the stop conditions that are set."""
    conditions: list[Callback] = []
    if stop.at_return is not None:
        conditions.append(StopAtReturn(stop.at_return))
    if seconds := parse_duration(stop.after):
        conditions.append(StopAfter(seconds))
    if stop.patience:
        conditions.append(StopWithoutImprovement(stop.patience))
    return conditions


def mean_return(evaluations: list[dict[str, Any]]) -> float:
    """The mean over the agents."""
    return fmean(record["mean_return"] for record in evaluations)


def past_evaluations(metrics: Path) -> Iterator[list[dict[str, Any]]]:
    """The evaluation records in a metrics.jsonl, step by step."""
    with metrics.open(encoding="utf-8") as lines:
        records = (json.loads(line) for line in lines)
        evaluations = (record for record in records if record["kind"] == "evaluation")
        for _, group in itertools.groupby(evaluations, key=lambda record: record["step"]):
            yield list(group)
