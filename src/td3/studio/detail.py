"""Everything about one run that its page shows, except the numbers of the charts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from td3.doctor.check import Check
from td3.doctor.learning_checks import Learner, check_learner
from td3.play.entries import tasks
from td3.report.summary import RunSummary, finite
from td3.studio.command import train_command
from td3.studio.explain import anchor_of, explanations, signs
from td3.studio.live_run import LiveRun
from td3.studio.media import EXPORTS, film_names, policy_names
from td3.text import count

FIRST = ("mean_return", "success", "episode_return", "q", "critic_loss", "actor_loss", "saturated",
         "episode_length", "steps_per_second")  # fmt: skip
HIDDEN = ("best",)
SHOWN_EVENTS = 300
CHECKED_AGENTS = 64


def describe(run: LiveRun) -> dict[str, Any]:
    """The run's page as plain JSON values."""
    with run.lock:
        page: dict[str, Any] = {
            "row": run.row(),
            "folder": str(run.folder),
            "metrics": metrics(run),
            "films": film_names(run.folder),
            "policies": policy_names(run.folder),
            "playable": True,
            "exports": list(EXPORTS),
            "checkpoints": checkpoints(run.folder),
            "events": events(run),
            "checks": [],
            "agents": [],
        }
        if not run.config:
            return page
        summary = run.summary()
        frozen = summary.frozen
        return page | {
            "agents": [
                {
                    "agent": agent,
                    "seed": own.seed,
                    "settings": plain_values(summary.own[agent]),
                    "frozen": frozen.get(agent),
                }
                for agent, own in summary.evaluations.items()
            ],
            "playable": page["row"].get("task") in tasks(),
            "settings": plain_values(run.settings),
            "origin": {
                key: plain_values(table)
                for key in ("versions", "machine")
                if isinstance(table := run.config.get(key), dict)
            },
            "command": train_command(run.config),
            "checks": [show(check) for check in checks(run, summary)],
            "wall_seconds": summary.wall_seconds,
        }


def metrics(run: LiveRun) -> list[dict[str, Any]]:
    """The metrics of a run, the most useful ones first, each with its explanation's name."""
    names: dict[str, str] = {"steps_per_second": "progress"} if len(run.progress.steps) else {}
    for (kind, _), columns in sorted(run.series.items()):
        names |= {
            n: kind for n in columns.values if n not in HIDDEN and not n.startswith("settings")
        }
    ordered = [name for name in FIRST if name in names]
    ordered += [name for name in names if name not in FIRST]
    known = explanations()
    return [
        {"name": name, "kind": names[name], "anchor": anchor, **signs(name)}
        for name in ordered
        for anchor in [anchor_of(name) if anchor_of(name) in known else ""]
    ]


def events(run: LiveRun) -> list[dict[str, Any]]:
    """The newest events as time, name, step and text."""
    found = []
    for event in run.events[-SHOWN_EVENTS:]:
        facts = {k: v for k, v in event.items() if k not in ("time", "event", "step", "format")}
        text = [str(facts.pop(name)) for name in ("message", "reason") if name in facts]
        text += [f"{name}: {value}" for name, value in facts.items()]
        found.append(
            {
                "time": finite(event.get("time")),
                "event": str(event.get("event"))[:40],
                "step": finite(event.get("step")),
                "text": " · ".join(text)[:1000],
            }
        )
    return found[::-1]


def checks(run: LiveRun, summary: RunSummary) -> list[Check]:
    """What the doctor finds in the metrics; agents with the same problem share one line."""
    found: dict[tuple[str, str], list[Check]] = {}
    frozen = summary.frozen
    for agent, own in list(summary.evaluations.items())[:CHECKED_AGENTS]:
        lines = {
            name: columns.known(name)
            for kind in ("train", "evaluation")
            if (columns := run.series.get((kind, agent)))
            for name in columns.values
        }
        settings = {**summary.settings, **summary.own[agent]}
        learner = Learner(f"Agent {agent} (seed {own.seed})", lines, settings, frozen.get(agent))
        for check in check_learner(learner):
            found.setdefault((check.name, check.advice), []).append(check)
    return [shared(group) for group in found.values()] + damage(run)


def shared(group: list[Check]) -> Check:
    first = group[0]
    if len(group) == 1:
        return first
    more = f" The same problem in {count(len(group) - 1, 'other agent')}."
    return Check(first.name, first.status, first.message + more, first.advice)


def damage(run: LiveRun) -> list[Check]:
    if not run.damaged:
        return []
    lines = f"metrics.jsonl has {run.damaged:,} unreadable lines, which are skipped."
    return [Check("metrics", "warning", lines, f"td3 doctor {run.folder} checks all files.")]


def show(check: Check) -> dict[str, str]:
    return {
        "name": check.name,
        "status": check.status,
        "text": check.message,
        "advice": check.advice,
    }


def plain_values(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table of a TOML file as JSON can hold it."""
    return {name: plain(value) for name, value in table.items()}


def plain(value: Any) -> Any:
    """A value of a TOML file as JSON can hold it."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def checkpoints(folder: Path) -> list[int]:
    """Steps of the checkpoints that the microscope can open."""
    steps = set()
    for parent in (folder / "checkpoints", folder / "kept"):
        if parent.is_dir() and not parent.is_symlink():
            steps |= {int(path.name) for path in parent.iterdir() if path.name.isdecimal()}
    return sorted(steps)
