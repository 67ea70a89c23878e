"""Run folders → numbers: evaluations, curves over seeds, and their intervals.

Works on a run that is still going, was killed, or was copied: it reads files and nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from td3.errors import UserError
from td3.run import read_tables

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
XAxis = Literal["steps", "hours"]
Record = dict[str, Any]

# Settings in which runs may differ and still be one experiment.
NOT_LEARNING = {"loop.steps", "loop.log_every"}


@dataclass(frozen=True, eq=False)
class Evaluations:
    """The evaluations of one agent, in order of steps."""

    seed: int
    steps: Steps
    mean_returns: Floats
    std_returns: Floats


@dataclass(frozen=True, eq=False)
class RunSummary:
    """What a run folder says."""

    folder: Path
    config: dict[str, Any]
    evaluations: dict[int, Evaluations]
    """By agent; every agent of the run is here, if need be with empty arrays."""
    train: dict[int, tuple[Record, ...]]
    """Training records by agent, in order of steps."""
    events: tuple[Record, ...]
    damaged: int
    """Unreadable lines of metrics.jsonl, not counting a last one that a kill cut in half."""

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def environment(self) -> str:
        return str(self.config["environment"]["id"])

    @property
    def recipe(self) -> str:
        return str(self.config.get("recipe") or "custom")

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration with dotted names, as on the command line."""
        return dict(_flatten(self.config))

    @property
    def status(self) -> str:
        """finished, stopped, or unfinished: a killed run and one still going look the same."""
        marks = {"finish": "finished", "stop": "stopped", "start": "", "resume": ""}
        kinds = [str(event.get("event")) for event in self.events]
        seen = [marks[kind] for kind in kinds if kind in marks]
        return (seen[-1] if seen else "") or "unfinished"

    def steps_done(self, agent: int) -> int:
        """The last step that the agent has a record of."""
        logged = [record["step"] for record in self.train[agent][-1:]]
        return int(max([0, *logged, *self.evaluations[agent].steps[-1:]]))

    def logged(self, key: str, agent: int) -> tuple[Steps, Floats]:
        """Steps and values of one logged quantity of one agent, where it has a value."""
        points = [
            (record["step"], value)
            for record in self.train[agent]
            if (value := _number(record.get(key))) is not None
        ]
        steps, values = zip(*points, strict=True) if points else ((), ())
        return np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64)

    def _clock(self) -> list[tuple[float, float]]:
        """(step, seconds at work) of each event; the time between a kill and a resume is not work.

        Steps never fall: a step that had to be repeated counts from when it was first reached.
        """
        ticks: list[tuple[float, float]] = []
        step = seconds = 0.0
        before: float | None = None
        for event in self.events:
            now = _number(event.get("time"))
            # A resume may warn before it says that it resumes: no work was done until then.
            if now is None or event.get("event") == "warning":
                continue
            if before is not None and event.get("event") not in ("start", "resume"):
                seconds += max(0.0, now - before)
            before = now
            reached = _number(event.get("step"))
            step = max(step, reached or 0.0)
            if reached is not None or not ticks:
                ticks.append((step, seconds))
        return [*ticks, (step, seconds)] if ticks else []

    @property
    def wall_seconds(self) -> float | None:
        """Time at work up to the last event, pauses left out."""
        ticks = self._clock()
        return ticks[-1][1] if ticks else None

    def seconds_at(self, steps: Steps) -> Floats:
        """Time at work when each of these steps was reached."""
        first: dict[float, float] = {}
        for step, seconds in self._clock():
            first.setdefault(step, seconds)
        if len(first) < 2:
            raise UserError(f"{self.folder} has no times of steps in events.jsonl, only steps.")
        times = np.interp(steps, list(first), list(first.values()))
        return np.asarray(times, dtype=np.float64)


def read_runs(folders: Sequence[Path]) -> list[RunSummary]:
    """Read several runs; a folder named twice is read once, lest its seeds count twice."""
    if not folders:
        raise UserError("Name at least one run folder, for example runs/my-run.")
    return [read_run(folder) for folder in {path.resolve(): path for path in folders}.values()]


def read_run(folder: Path) -> RunSummary:
    """Read a run folder, whatever state it is in."""
    config = _read_config(folder)
    lines, damaged = _read_lines(folder / "metrics.jsonl")
    usable = [record for record in lines if _is_metric(record)]
    series = _series(usable)
    first = config.get("seed", 0)
    seeds = {agent: first + agent for agent in range(config.get("seeds", 1))}
    seeds |= {agent: kept[-1].get("seed", first + agent) for (_, agent), kept in series.items()}
    return RunSummary(
        folder=folder,
        config=config,
        evaluations={
            agent: _evaluations(series.get(("evaluation", agent), []), seeds[agent])
            for agent in sorted(seeds)
        },
        train={agent: tuple(series.get(("train", agent), ())) for agent in sorted(seeds)},
        events=tuple(_read_lines(folder / "events.jsonl")[0]),
        damaged=damaged + len(lines) - len(usable),
    )


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.toml"
    config = read_tables(folder)
    environment = config.get("environment")
    if not isinstance(environment, dict) or not isinstance(environment.get("id"), str):
        raise UserError(f"{path} names no environment: [environment] id is missing.")
    for key, least in (("seed", 0), ("seeds", 1)):
        if not _is_whole(config.get(key, 1), least):
            raise UserError(f"{path}: {key} must be a whole number of {least} or more.")
    return config


def _read_lines(path: Path) -> tuple[list[Record], int]:
    """The records of a file of JSON lines, and how many lines before the last are damaged."""
    try:
        lines = path.read_bytes().splitlines() if path.exists() else []
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    records = []
    damaged = 0
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            records.append(record)
        elif number < len(lines):
            damaged += 1
    return records, damaged


def _is_metric(record: Record) -> bool:
    whole = all(_is_whole(record.get(key, 0)) for key in ("step", "agent", "seed"))
    if not whole or "step" not in record or "agent" not in record:
        return False
    if record.get("kind") == "evaluation":
        return _number(record.get("mean_return")) is not None
    return record.get("kind") == "train"


def _series(records: Sequence[Record]) -> dict[tuple[str, int], list[Record]]:
    """Records by kind and agent, in order of steps.

    Where steps fall, a resume has taken back what came after; the later records are the run's.
    """
    series: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        kept = series.setdefault((record["kind"], record["agent"]), [])
        while kept and kept[-1]["step"] >= record["step"]:
            kept.pop()
        kept.append(record)
    return series


def _evaluations(records: Sequence[Record], seed: int) -> Evaluations:
    spread = [_number(record.get("std_return")) for record in records]
    return Evaluations(
        seed=seed,
        steps=np.array([record["step"] for record in records], dtype=np.int64),
        mean_returns=np.array([record["mean_return"] for record in records], dtype=np.float64),
        std_returns=np.array([math.nan if std is None else std for std in spread]),
    )


def _is_whole(value: object, least: int = 0) -> bool:
    return type(value) is int and least <= value < 2**63


def _number(value: object) -> float | None:
    """A finite number, or nothing."""
    if not isinstance(value, int | float) or not -1e300 < value < 1e300:
        return None
    return float(value)


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def bootstrap_interval(
    values: ArrayLike, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[Floats, Floats]:
    """Percentile bootstrap interval (low, high) for the mean over the first axis, the seeds.

    `values` is seeds × times (or seeds alone). One seed says nothing about other seeds: both ends
    are then its own value. With fewer than about five seeds the interval is too narrow.
    """
    array = np.asarray(values, dtype=np.float64)
    seeds = len(array)
    if seeds == 0:
        raise ValueError("an interval needs at least one seed")
    if seeds == 1:
        return array[0], array[0]
    # How often each seed is drawn: a product with these needs no (resamples, seeds, times) array.
    counts = np.random.default_rng(seed).multinomial(seeds, [1 / seeds] * seeds, size=resamples)
    means = (counts / seeds) @ array
    tail = 50 * (1 - confidence)
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return low, high


@dataclass(frozen=True, eq=False)
class SeedLine:
    """The evaluations of one seed of one run; empty if there are none yet."""

    run: RunSummary
    agent: int
    seed: int
    steps: Steps
    returns: Floats

    def x(self, axis: XAxis) -> Floats:
        """Where the evaluations stand on the x axis."""
        if axis == "hours":
            return self.run.seconds_at(self.steps) / 3600
        return self.steps.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Curve:
    """The mean over the seeds of a group, at the steps at which every seed was evaluated."""

    environment: str
    label: str
    lines: tuple[SeedLine, ...]
    steps: Steps
    values: Floats
    """Returns, seeds × steps; only seeds with an evaluation."""
    mean: Floats
    low: Floats
    high: Floats

    def x(self, axis: XAxis) -> Floats:
        """Where the mean stands on the x axis; against hours, at the mean time of its seeds."""
        if axis == "steps":
            return self.steps.astype(np.float64)
        seen = [line for line in self.lines if len(line.steps)]
        times = [np.interp(self.steps, line.steps, line.x(axis)) for line in seen]
        return np.asarray(np.mean(times, axis=0), dtype=np.float64)


def align(lines: Sequence[tuple[Steps, Floats]]) -> tuple[Steps, Floats]:
    """Steps that all lines share, and the values there (lines × steps).

    A shorter line ends the shared part, so the tail is never the mean of the longer ones alone,
    and no value is interpolated.
    """
    if not lines:
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    shared = reduce(np.intersect1d, [steps for steps, _ in lines])
    rows = [values[np.searchsorted(steps, shared)] for steps, values in lines]
    return shared, np.stack(rows)


def labels(runs: Sequence[RunSummary]) -> list[str]:
    """For each run its recipe, with the settings in which runs of that recipe differ.

    Runs with other hyper-parameters are other experiments: pooling them would make a mean of
    nothing. The number of steps is no such setting: see `curves` for runs of different length.
    """
    found = []
    for run in runs:
        group = (run.environment, run.recipe)
        peers = [peer.settings for peer in runs if (peer.environment, peer.recipe) == group]
        mine = run.settings
        keys = sorted(
            key
            for key in set().union(*peers) - NOT_LEARNING
            if key.startswith(("environment.", "agent.", "loop."))
            and any(peer.get(key) != mine.get(key) for peer in peers)
        )
        changes = [f"{key.split('.', 1)[1]} {mine.get(key, 'unset')}" for key in keys]
        found.append(", ".join([run.recipe, *changes]))
    return found


def curves(runs: Sequence[RunSummary]) -> list[Curve]:
    """One curve per environment and label; each seed is one line of its group.

    A seed that several runs of a group hold counts once, by the run that took it furthest: copies
    would make an interval narrower than it is.

    Mean and interval end where the shortest seed ends (see `align`); the longer seeds go on as
    their own lines. Seeds without any evaluation are in `lines` but do not count.
    """
    groups: dict[tuple[str, str], dict[int, SeedLine]] = {}
    for run, label in zip(runs, labels(runs), strict=True):
        lines = [
            SeedLine(run, agent, found.seed, found.steps, found.mean_returns)
            for agent, found in run.evaluations.items()
        ]
        group = groups.setdefault((run.environment, label), {})
        for line in lines:
            known = group.get(line.seed)
            if known is None or len(line.steps) > len(known.steps):
                group[line.seed] = line
    return [
        _curve(environment, label, list(group.values()))
        for (environment, label), group in groups.items()
    ]


def _curve(environment: str, label: str, lines: Sequence[SeedLine]) -> Curve:
    steps, values = align([(line.steps, line.returns) for line in lines if len(line.steps)])
    mean = low = high = np.empty(0)
    if len(steps):
        mean = values.mean(axis=0)
        low, high = bootstrap_interval(values)
    return Curve(environment, label, tuple(lines), steps, values, mean, low, high)
