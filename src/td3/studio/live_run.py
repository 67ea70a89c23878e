"""One run as the studio knows it: read once, then only what was added."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from td3.config import dotted
from td3.errors import UserError
from td3.report.curves import align, last_steps
from td3.report.summary import (
    Evaluations,
    Record,
    RunSummary,
    agents_of,
    finite,
    is_metric,
    is_whole,
    read_series,
    read_settings,
)
from td3.run.lock import is_locked
from td3.studio.columns import Columns
from td3.studio.command import FACTS
from td3.studio.tail import Tail, parse_lines, reason

MOST_EVENTS = 2000  # besides those of progress
SPARK = 48  # points of the small curve in the list
RECENT = 10  # records of progress that make the speed
Series = dict[tuple[str, int], Columns]


class LiveRun:
    """The settings, events and results in a run folder. All methods are safe in threads."""

    def __init__(self, key: str, folder: Path, study: str = "") -> None:
        self.key, self.folder, self.study = key, folder, study
        self.lock = threading.RLock()
        self.metrics, self.events_file = (
            Tail(folder / "metrics.jsonl"),
            Tail(folder / "events.jsonl"),
        )
        self.config_file = Tail(folder / "config.toml")
        self.config: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        """By dotted names, without versions and machine."""
        self.known_agents: tuple[int, Any] | None = None
        self.problem, self.running, self.full, self.looked = "", False, False, False
        self.resets = 0
        """How often records that were read before became void."""
        self.forget_metrics()
        self.forget_events()

    def forget_metrics(self) -> None:
        self.resets += 1
        self.series: Series = {}
        self.seeds: dict[int, int | None] = {}
        self.episodes: dict[int, deque[Record]] = {}
        """The last evaluations of each agent with their single episodes."""
        self.damaged = 0

    def forget_events(self) -> None:
        self.resets += 1
        self.events: list[Record] = []
        self.progress = Columns()

    # Reading

    def refresh(self) -> bool:
        """Read what is new; returns whether anything is. Call again while `more`."""
        with self.lock:
            changed = not self.looked
            self.looked = True
            if self.config_file.changed() or changed:
                changed = True
                self.read_config()
            for tail, take, forget in (
                (self.events_file, self.take_events, self.forget_events),
                (self.metrics, self.take_metrics, self.forget_metrics),
            ):
                if tail.changed():
                    changed = True
                    lines, again = tail.read()
                    if again:
                        forget()
                    take(lines)
            if changed and not (self.series or self.metrics.seen[0]):
                self.read_stored()
            before = self.running
            if changed or self.running:  # a run that was killed changes when it is resumed
                self.running = self.unfinished and is_locked(self.folder)
            return changed or self.running != before

    @property
    def more(self) -> bool:
        """Whether a part of a file is still to be read."""
        return self.metrics.more or self.events_file.more or not self.looked

    def need_full(self) -> None:
        """Read the records of training and progress too, from the beginning."""
        with self.lock:
            if not self.full:
                self.full = True
                self.metrics.forget()
                self.events_file.forget()
                self.forget_metrics()
                self.forget_events()
                while self.refresh() and self.more:
                    pass

    def drop_full(self) -> None:
        """Free the memory of `need_full`."""
        with self.lock:
            self.full = False
            self.episodes = {}
            self.series = {key: own for key, own in self.series.items() if key[0] == "evaluation"}

    def read_config(self) -> None:
        self.config_file.seen = self.config_file.stamp()
        self.known_agents = None
        try:
            if (self.folder / "config.toml").is_symlink():
                raise UserError("config.toml is a symbolic link.")
            self.config, self.problem = read_settings(self.folder), ""
            agents_of(self.config, {})
            tables = {k: v for k, v in self.config.items() if k not in FACTS}
            self.settings = dict(dotted(tables))
        except (UserError, OSError, ValueError, TypeError) as error:
            self.settings, self.config = {}, {}
            self.problem = reason(error).replace(f"{self.folder}/", "")

    def read_stored(self) -> None:
        """Results that were stored as curves.csv only."""
        if (self.folder / "curves.csv").is_file():
            try:
                found, self.damaged = read_series(self.folder)
            except UserError as error:
                self.problem = self.problem or reason(error)
                return
            for record in (own for group in found.values() for own in group):
                self.take_metric(record)

    def take_events(self, lines: list[bytes]) -> None:
        if not self.full:
            speeds = [line for line in lines if b'"progress"' in line]
            lines = [line for line in lines if b'"progress"' not in line] + speeds[-RECENT:]
        for event in parse_lines(lines)[0]:
            now, step = finite(event.get("time")), event.get("step")
            progress = event.get("event") == "progress" and now is not None
            if progress and isinstance(step, int) and is_whole(step):
                self.progress.add(step, {"time": now, "speed": event.get("steps_per_second")})
            elif len(self.events) < MOST_EVENTS:
                self.events.append(event)

    def take_metrics(self, lines: list[bytes]) -> None:
        if not self.full:  # a tenth of the lines; reading all of 300 runs takes seconds
            lines = [line for line in lines if b'"evaluation"' in line]
        records, damaged = parse_lines(lines)
        usable = [record for record in records if is_metric(record)]
        self.damaged += damaged + len(records) - len(usable)
        for record in usable:
            self.take_metric(record)

    def columns(self, kind: str, agent: int) -> Columns:
        """The records of this kind of an agent, to add one."""
        found = self.series.get((kind, agent))
        if found is None:
            found = self.series[kind, agent] = Columns()
        return found

    def take_metric(self, record: Record) -> None:
        agent, kind = record["agent"], record["kind"]
        self.seeds[agent] = record.get("seed", self.seeds.get(agent))
        self.columns(kind, agent).add(record["step"], record)
        if kind == "evaluation" and self.full:
            self.keep_episodes(agent, record)

    def keep_episodes(self, agent: int, record: Record) -> None:
        kept = self.episodes.setdefault(agent, deque(maxlen=1000))
        while kept and kept[-1]["step"] >= record["step"]:
            kept.pop()
        lists = {name: record.get(name) for name in ("returns", "lengths")}
        numbers = {
            name: [finite(value) for value in values[:1000]]
            for name, values in lists.items()
            if isinstance(values, list)
        }
        kept.append({"step": record["step"], "best": record.get("best") is True, **numbers})

    # What is known

    @property
    def unfinished(self) -> bool:
        """Whether the last event is neither the end nor a stop."""
        names = [event.get("event") for event in self.events]
        marks = [name for name in names if name in ("start", "resume", "stop", "finish")]
        return not marks or marks[-1] in ("start", "resume")

    @property
    def status(self) -> str:
        """running, finished, stopped, killed, corrupt; or unknown, without any event."""
        if self.problem:
            return "corrupt"
        if self.unfinished:
            known = self.events or len(self.progress.steps)
            return "running" if self.running else "killed" if known else "unknown"
        finished = any(event.get("event") == "finish" for event in self.events[-20:])
        stopped = next(e for e in reversed(self.events) if e.get("event") in ("stop", "finish"))
        return "finished" if finished and stopped.get("event") == "finish" else "stopped"

    @property
    def generation(self) -> int:
        """Changes if records that were read before are void."""
        return self.resets + sum(own.rewinds for own in self.series.values())

    @property
    def agents(self) -> tuple[dict[int, int], dict[int, dict[str, float]]]:
        """The seed of each agent, and its settings from the grid."""
        if self.known_agents is None or self.known_agents[0] != len(self.seeds):
            self.known_agents = (len(self.seeds), agents_of(self.config, self.seeds))
        return self.known_agents[1]

    @property
    def steps(self) -> int:
        """The last step that is known."""
        found: list[int] = [own.steps[-1] for own in self.series.values() if len(own.steps)]
        marks = [e["step"] for e in self.events[-5:] if is_whole(e.get("step"))]
        return int(max([0, *found, *self.progress.steps[-1:], *marks[-1:]]))

    @property
    def asked(self) -> int | None:
        """The number of steps that the run is to have."""
        asked = self.settings.get("loop.steps")
        return asked if is_whole(asked, 1) else None

    @property
    def speed(self) -> float | None:
        """Recent steps per second of one agent."""
        speeds = self.progress.known("speed")[1][-RECENT:]
        speeds = speeds[speeds > 0]
        return float(len(speeds) / (1 / speeds).sum()) if len(speeds) else None

    def summary(self) -> RunSummary:
        """The run as `td3 report` reads it; of the training records, only the last one."""
        with self.lock:
            if not self.config:
                raise UserError(self.problem or f"{self.key} has no settings.")
            seeds, own = self.agents
            last: dict[int, tuple[Record, ...]] = {
                agent: ({"step": self.steps},) for agent in seeds
            }
            return RunSummary(
                self.folder,
                self.config,
                {agent: self.evaluations(agent, seed) for agent, seed in seeds.items()},
                last,
                own,
                tuple(self.all_events()),
                self.damaged,
            )

    def evaluations(self, agent: int, seed: int) -> Evaluations:
        own = self.series.get(("evaluation", agent), Columns())
        names = ("mean_return", "std_return", "success")
        return Evaluations(seed, own.all_steps(), *map(own.column, names))

    def all_events(self) -> Iterator[Record]:
        """All events in order of time."""
        times = self.progress.column("time")
        progress = [
            {"event": "progress", "time": float(time), "step": step}
            for step, time in zip(self.progress.steps, times, strict=True)
        ]
        yield from sorted([*self.events, *progress], key=lambda e: finite(e.get("time")) or 0.0)

    def groups(self) -> list[dict[str, Any]]:
        """The agents of each combination of settings: mean over seeds at shared steps."""
        seeds, own = self.agents
        members: dict[str, list[int]] = {}
        for agent in seeds:
            members.setdefault(repr(own[agent]), []).append(agent)
        found = []
        for agents in members.values():
            known = [
                self.series[key].known("mean_return")
                for a in agents
                if (key := ("evaluation", a)) in self.series
            ]
            steps, values = align(known)
            found.append(
                {
                    "settings": own[agents[0]],
                    "agents": agents,
                    "steps": steps,
                    "values": values,
                    "mean": values.mean(axis=0) if known else values.sum(0),
                }
            )
        return found

    def row(self) -> dict[str, Any]:
        """The run in the list."""
        with self.lock:
            row: dict[str, Any] = {
                "id": self.key,
                "status": self.status,
                "problem": self.problem,
                "study": self.study,
                "reading": self.more,
                "steps": self.steps,
                "damaged": self.damaged,
            }
            times = [finite(event.get("time")) for event in self.events]
            known = [time for time in (*times, self.progress.last("time")) if time is not None]
            row |= {"started": min(known, default=None), "updated": max(known, default=None)}
            return row | self.facts() if self.config else row

    def facts(self) -> dict[str, Any]:
        """The part of the row that needs settings."""
        seeds, own = self.agents
        speed, asked = self.speed, self.asked
        left = None
        if self.status == "running" and speed and asked:
            left = max(0, asked - self.steps) / speed
        groups = [group for group in self.groups() if len(group["steps"])]
        top = max(groups, key=lambda group: group["mean"].max(), default=None)
        return {
            "task": self.config["environment"]["id"],
            "recipe": str(self.config.get("recipe") or "custom"),
            "variant": str(self.settings.get("variant.name", "")),
            "agents": len(seeds),
            "grid": len({repr(row) for row in own.values()}),
            "asked": asked,
            "speed": speed,
            "left": left,
            "evaluations": sum(len(g["steps"]) * len(g["agents"]) for g in groups),
            "warnings": sum(event.get("event") == "warning" for event in self.events),
            **(best_of(top) if top else {}),
        }


def best_of(group: dict[str, Any]) -> dict[str, Any]:
    """Best and last ten of a mean curve, and a small version of it."""
    steps, mean = group["steps"], group["mean"]
    best = int(mean.argmax())
    picked = np.unique(np.linspace(0, len(mean) - 1, min(SPARK, len(mean))).astype(int))
    return {
        "best": float(mean[best]),
        "best_step": int(steps[best]),
        "last_ten": float(mean[np.isin(steps, last_steps(steps))].mean()),
        "spark": [round(float(value), 3) for value in mean[picked]],
    }
