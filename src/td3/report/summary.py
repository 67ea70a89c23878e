"""Read run folders: settings, metrics and events.

The run may be running, killed or copied: this module reads files and nothing else.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.config import dotted, from_dict
from td3.errors import UserError
from td3.files import CURVES, bounded_lines, open_to_read
from td3.run.folder import read_tables

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Evaluations:
    """The evaluations of one agent, in order of steps."""

    seed: int
    steps: Steps
    mean_returns: Floats
    std_returns: Floats
    successes: Floats
    """Share of episodes that succeeded; NaN where the environment did not report it."""


@dataclass(frozen=True, eq=False)
class RunSummary:
    """The contents of a run folder."""

    folder: Path
    config: dict[str, Any]
    evaluations: dict[int, Evaluations]
    """By agent; agents without evaluations have empty arrays."""
    train: dict[int, tuple[Record, ...]]
    """Training records by agent, in order of steps."""
    own: dict[int, dict[str, float]]
    """The settings of each agent from the grid; empty without a grid."""
    events: tuple[Record, ...]
    damaged: int
    """Unreadable lines of metrics.jsonl, except an incomplete last line."""

    @property
    def name(self) -> str:
        name = self.folder.resolve().name
        return "".join(c if c.isprintable() else "?" for c in name)

    @property
    def environment(self) -> str:
        return str(self.config["environment"]["id"])

    @property
    def recipe(self) -> str:
        return str(self.config.get("recipe") or "custom")

    @property
    def settings(self) -> dict[str, Any]:
        """Settings by dotted names, as on the command line."""
        return dict(dotted(self.config))

    @property
    def frozen(self) -> dict[int, int]:
        """Agents that diverged → step; a resume from an earlier step undoes it."""
        found: dict[int, int] = {}
        for event in self.events:
            step, agent = event.get("step"), event.get("agent")
            if event.get("event") == "resume" and isinstance(step, int):
                found = {one: at for one, at in found.items() if at <= step}
            elif event.get("event") == "frozen" and is_whole(step) and is_whole(agent):
                found |= {agent: step} if agent in self.evaluations else {}
        return found

    @property
    def status(self) -> str:
        """finished, stopped or unfinished (running or killed: they look the same)."""
        marks = {"finish": "finished", "stop": "stopped", "start": "", "resume": ""}
        kinds = [str(event.get("event")) for event in self.events]
        seen = [marks[kind] for kind in kinds if kind in marks]
        return (seen[-1] if seen else "") or "unfinished"

    def steps_done(self, agent: int) -> int:
        """The last step with a record of this agent."""
        logged = [record["step"] for record in self.train[agent][-1:]]
        return int(max([0, *logged, *self.evaluations[agent].steps[-1:]]))

    def logged(self, key: str, agent: int) -> tuple[Steps, Floats]:
        """Steps and values of one logged metric of one agent, without missing values."""
        points = [
            (record["step"], value)
            for record in self.train[agent]
            if (value := finite(_entry(record, key))) is not None
        ]
        steps, values = zip(*points, strict=True) if points else ((), ())
        return np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64)

    @property
    def reported(self) -> list[str]:
        """The keys of numbers that environments reported, e.g. `info.is_success`."""
        records = [record for agent in self.train.values() for record in agent]
        tables = [own for record in records if isinstance(own := record.get("info"), dict)]
        names = dict.fromkeys(name for own in tables for name in own if name.isprintable())
        return [f"info.{name}" for name in names]

    def timed_events(self) -> Iterator[tuple[float, str, float | None]]:
        """(time, name, step) of each event except warnings, which may precede a resume."""
        for event in self.events:
            now, name = finite(event.get("time")), str(event.get("event"))
            if now is not None and name != "warning":
                yield now, name, finite(event.get("step"))

    def _clock(self) -> list[tuple[float, float]]:
        """(step, working seconds) of each event, without the time between a stop and a resume.

        Steps never decrease: a repeated step counts from when it was first reached.
        """
        ticks: list[tuple[float, float]] = []
        step = seconds = 0.0
        before: float | None = None
        for now, name, reached in self.timed_events():
            if before is not None and name not in ("start", "resume"):
                seconds += max(0.0, now - before)
            before = now
            step = max(step, reached or 0.0)
            if reached is not None or not ticks:
                ticks.append((step, seconds))
        return [*ticks, (step, seconds)] if ticks else []

    @property
    def wall_seconds(self) -> float | None:
        """Working time up to the last event, without pauses."""
        ticks = self._clock()
        return ticks[-1][1] if ticks else None

    def seconds_at(self, steps: Steps) -> Floats:
        """Working time at which each of these steps was reached."""
        first: dict[float, float] = {}
        for step, seconds in self._clock():
            first.setdefault(step, seconds)
        if len(first) < 2:
            raise UserError(f"{self.folder} has no times of steps in events.jsonl, only steps.")
        times = np.interp(steps, list(first), list(first.values()))
        return np.asarray(times, dtype=np.float64)


def read_runs(folders: Sequence[Path]) -> list[RunSummary]:
    """Read several runs; a folder that is given twice is read once."""
    if not folders:
        raise UserError("Name at least one run folder, for example runs/my-run.")
    return [read_run(folder) for folder in {path.resolve(): path for path in folders}.values()]


def read_run(folder: Path) -> RunSummary:
    """Read a run folder."""
    config = read_settings(folder)
    series, damaged = read_series(folder)
    known = {agent: kept[-1]["seed"] for (_, agent), kept in series.items() if "seed" in kept[-1]}
    agents = dict.fromkeys(agent for _, agent in series)
    seeds, own = agents_of(config, {agent: known.get(agent) for agent in agents})
    return RunSummary(
        folder=folder,
        config=config,
        evaluations={
            agent: _evaluations(series.get(("evaluation", agent), []), seeds[agent])
            for agent in seeds
        },
        train={agent: tuple(series.get(("train", agent), ())) for agent in seeds},
        own=own,
        events=tuple(_read_lines(folder / "events.jsonl")[0]),
        damaged=damaged,
    )


def agents_of(
    config: Record, known: Mapping[int, int | None]
) -> tuple[dict[int, int], dict[int, dict[str, float]]]:
    """The seed of each agent and its settings from the grid, in order of agents.

    `known` has the agents with records and their seeds there, or None.
    """
    asked = from_dict({key: config[key] for key in ("seed", "seeds", "grid") if key in config})
    seeds = dict(enumerate(asked.agent_seeds))
    seeds |= {a: asked.seed + a if seed is None else seed for a, seed in known.items()}
    rows = [row for row in asked.combinations for _ in range(asked.seeds)]
    own = {agent: rows[agent] if agent < len(rows) else {} for agent in sorted(seeds)}
    return {agent: seeds[agent] for agent in sorted(seeds)}, own


def read_series(folder: Path) -> tuple[dict[tuple[str, int], list[Record]], int]:
    """The records of a run by kind and agent, in order of steps; and how many are unreadable."""
    lines, damaged = _read_metrics(folder)
    usable = [record for record in lines if is_metric(record)]
    return _series(usable), damaged + len(lines) - len(usable)


def read_settings(folder: Path) -> dict[str, Any]:
    """The tables of config.toml, checked as far as reports need them."""
    path = folder / "config.toml"
    config = read_tables(folder)
    environment = config.get("environment")
    if not isinstance(environment, dict) or not isinstance(environment.get("id"), str):
        raise UserError(f"{path} has no environment: [environment] id is missing.")
    for key, least in (("seed", 0), ("seeds", 1)):
        if not is_whole(config.get(key, 1), least):
            raise UserError(f"{path}: {key} must be a whole number of {least} or more.")
    return config


def _read_metrics(folder: Path) -> tuple[list[Record], int]:
    """The records in metrics.jsonl, or those in curves.csv if only that was stored."""
    path = folder / CURVES
    if (folder / "metrics.jsonl").exists() or not path.exists():
        return _read_lines(folder / "metrics.jsonl")
    try:
        with open(path, newline="", encoding="utf-8", opener=open_to_read) as file:
            rows = list(csv.DictReader(bounded_lines(file)))
        return [
            {"kind": "evaluation", **{key: int(row[key]) for key in ("agent", "seed", "step")}}
            | {key: float(row[key]) for key in ("mean_return", "std_return")}
            for row in rows
        ], 0
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except (csv.Error, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a file of curves: {error}.") from error


def _read_lines(path: Path) -> tuple[list[Record], int]:
    """The records of a file of JSON lines, and the number of damaged lines before the last."""
    try:
        with open(path, "rb", opener=open_to_read) as file:
            lines = list(bounded_lines(file))
    except FileNotFoundError:
        lines = []
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path} is not a file of records: {error}.") from error
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


def is_metric(record: Record) -> bool:
    step, agent, seed = record.get("step"), record.get("agent"), record.get("seed", 0)
    if not (is_whole(step) and is_whole(agent) and is_whole(seed)):
        return False
    if record.get("kind") == "evaluation":
        return finite(record.get("mean_return")) is not None
    return record.get("kind") == "train"


def _series(records: Sequence[Record]) -> dict[tuple[str, int], list[Record]]:
    """Records by kind and agent, in order of steps.

    If steps decrease, the run was resumed from an earlier step, and the later records count.
    """
    series: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        kept = series.setdefault((record["kind"], record["agent"]), [])
        while kept and kept[-1]["step"] >= record["step"]:
            kept.pop()
        kept.append(record)
    return series


def _evaluations(records: Sequence[Record], seed: int) -> Evaluations:
    def column(key: str) -> Floats:
        values = [finite(record.get(key)) for record in records]
        return np.array([math.nan if value is None else value for value in values])

    return Evaluations(
        seed=seed,
        steps=np.array([record["step"] for record in records], dtype=np.int64),
        mean_returns=np.array([record["mean_return"] for record in records], dtype=np.float64),
        std_returns=column("std_return"),
        successes=column("success"),
    )


def _entry(record: Record, key: str) -> object:
    """The value of a key; `info.x` stands for the entry x of the table info."""
    table, _, name = key.partition(".")
    value = record.get(table)
    return value.get(name) if name and isinstance(value, dict) else value


def is_whole(value: object, least: int = 0) -> bool:
    return type(value) is int and least <= value < 2**63


def finite(value: object) -> float | None:
    """A finite number, or None."""
    if not isinstance(value, int | float) or not -1e300 < value < 1e300:
        return None
    return float(value)
