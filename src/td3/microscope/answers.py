"""The data that the page asks for, from a run folder and a query."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from td3.config import describe_settings
from td3.config.variants import BUILT_IN, known, load_variant
from td3.environments.factories import GIVEN
from td3.errors import UserError
from td3.launch.restore import read_shapes
from td3.layout import has_images, parts_of, unstack_layout
from td3.microscope.episodes import rewards_of
from td3.microscope.landscape import (
    Landscape,
    critic_landscape,
    smoothed_cloud,
    target_landscape,
)
from td3.microscope.returns import measure_returns
from td3.microscope.specimen import Specimen, read_specimen
from td3.microscope.steps import describe_steps
from td3.microscope.update import RecordedUpdate, record_specimen
from td3.policy.trust import imports_in
from td3.run.copies import find_checkpoint, kept_runs
from td3.run.folder import read_config, read_tables
from td3.run.manifest import by_step

Query = Mapping[str, str]
T = TypeVar("T")
MOST_NUMBERS = 24  # of a state that the table shows
MOST_SPECIMENS, MOST_UPDATES, MOST_RETURNS = 2, 12, 500


class Recent:
    """Remembers the last results. One request computes at a time: they share the CPU."""

    def __init__(self, most: int) -> None:
        self.most, self.found = most, OrderedDict[Hashable, Any]()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self.found:
            self.found[key] = make()
        self.found.move_to_end(key)
        while len(self.found) > self.most:
            self.found.popitem(last=False)
        value: T = self.found[key]
        return value


lock = threading.RLock()
specimens, updates, returns = Recent(MOST_SPECIMENS), Recent(MOST_UPDATES), Recent(MOST_RETURNS)


def number(query: Query, name: str, default: int) -> int:
    """A whole number of a query. Raises UserError."""
    text = query.get(name, "") or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise UserError(f"{name} must be a whole number, not {text[:40]!r}.")
    return int(text)


def imports_of(folder: Path) -> list[str]:
    """What is in modules that only the run names; nothing is imported yet."""
    tables = read_tables(folder)  # reading the settings would import the variant
    environment = table_of(tables, "environment")
    variant, task = str(table_of(tables, "variant").get("name", "")), str(environment.get("id", ""))
    own_variant = variant and variant not in BUILT_IN and variant not in known
    own_task = ":" in task and task not in GIVEN
    found = [name for name, own in ((variant, own_variant), (task, own_task)) if own]
    return found + [text for text, _ in imports_in(environment.get("kwargs"))]


def table_of(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table of config.toml. Raises UserError if it is none."""
    found = tables.get(name, {})
    if not isinstance(found, dict):
        raise UserError(f"config.toml: {name} must be a table.")
    return found


def check_import(folder: Path, query: Query) -> None:
    """Refuse to import code that only the run names, unless the query repeats its name."""
    for name in imports_of(folder):
        if name not in query.get("import", "").split(","):
            raise UserError(
                f"This run uses {name}. To look at it, td3 must import its module, which runs the "
                "code in it."
            )


def specimen_of(folder: Path, query: Query) -> Specimen:
    check_import(folder, query)
    steps = steps_of(folder)
    if not steps:
        raise UserError(f"{folder.name} has no checkpoint yet.")
    step, agent = number(query, "step", steps[-1]), number(query, "agent", 0)
    check_import(find_checkpoint(folder, step)[0], query)  # a kept one has settings of its own
    key = (folder, stamp(folder, step), agent)
    return specimens.get(key, lambda: read_specimen(folder, agent, step))


def stamp(folder: Path, step: int) -> Hashable:
    """Changes if another run takes the place of this one."""
    config = (folder / "config.toml").stat()
    return step, config.st_ino, config.st_mtime_ns


def update_of(folder: Path, query: Query) -> RecordedUpdate:
    specimen, ahead = specimen_of(folder, query), number(query, "ahead", 0)
    key = (folder, stamp(folder, specimen.step), specimen.number, ahead)
    return updates.get(key, lambda: record_specimen(specimen, ahead))


def steps_of(folder: Path) -> list[int]:
    """The steps of all checkpoints, oldest first."""
    return sorted({int(own.name) for own in by_step(folder)} | set(kept_runs(folder)))


def answer_run(folder: Path, query: Query) -> dict[str, Any]:
    """What can be chosen: agents and checkpoints."""
    imports = imports_of(folder)
    if any(name not in query.get("import", "").split(",") for name in imports):
        return {"name": folder.name, "imports": imports}
    config, _ = read_config(folder)
    settings = [own for own in config.combinations for _ in range(config.seeds)]
    names = [
        f"seed {seed}" + (f", {described}" if (described := describe_settings(own)) else "")
        for seed, own in zip(config.agent_seeds, settings, strict=True)
    ]
    return {
        "name": folder.name,
        "task": config.environment.id,
        "variant": config.variant.name,
        "agents": names,
        "steps": steps_of(folder),
        "imports": imports,
        "keep_every": config.checkpoint.keep_every,
        "every": config.checkpoint.every,
        "total": config.loop.steps,
    }


def answer_steps(folder: Path, query: Query) -> dict[str, Any]:
    """The fifteen steps with the source of this run's class."""
    check_import(folder, query)
    config, _ = read_config(folder)
    kind = load_variant(config.variant.name)
    return {"class": kind.__name__, "steps": describe_steps(kind)}


def answer_update(folder: Path, query: Query) -> dict[str, Any]:
    """Everything about one update except landscapes."""
    with lock:
        update = update_of(folder, query)
        episodes = update.episodes
        config, _, task = read_shapes(folder, "cpu")
        return {
            "step": update.step,
            "agent": update.agent,
            "number": update.number,
            "due": update.is_due,
            "class": type(update.before).__name__,
            "settings": update.settings,
            "limits": update.before.actor.max_action[0, 0].cpu().numpy(),
            "images": has_images(task.layout),
            "state": update.state[:, :MOST_NUMBERS] if not has_images(task.layout) else None,
            "state_size": update.state.shape[1],
            "action": update.action,
            "reward": update.reward,
            "done": update.done,
            "next_action": update.next_action,
            "smoothed_action": update.smoothed_action,
            "next_values": update.next_values,
            "kept_value": update.kept_value,
            "target_q": update.target_q,
            "bootstrap": update.bootstrap,
            "values": update.values,
            "values_before": update.values_before,
            "values_after": update.values_after,
            "critic_loss": update.critic_loss,
            "actor_loss": update.actor_loss,
            "gradients": update.gradients,
            "changes": update.changes,
            "actor_action": update.actor_action,
            "actor_action_after": update.actor_action_after,
            "slope": update.slope,
            "distances": update.distances,
            "asked": update.asked,
            "transition": episodes.numbers if episodes else None,
            "position": episodes.positions if episodes else None,
            "length": [len(own) for own in episodes.members] if episodes else None,
            "complete": episodes.complete if episodes else None,
            "capacity": update.specimen.replay.capacity,
            "added": int(update.specimen.replay.added[0]),
            "count": config.environment.count,
        }


def answer_episode(folder: Path, query: Query) -> dict[str, Any]:
    """The rewards of the episode of one transition, and the image of its state."""
    with lock:
        update, sample = update_of(folder, query), number(query, "sample", 0)
        if sample >= len(update.reward):
            raise UserError(f"The batch has the transitions 0 to {len(update.reward) - 1}.")
        episodes = update.episodes
        found: dict[str, Any] = {"image": image_of(folder, update, sample)}
        if episodes is None:
            return found
        members = episodes.members[sample]
        return {
            **found,
            "rewards": rewards_of(update.specimen.replay, members),
            "first": int(members[0]),
            "position": int(episodes.positions[sample]),
            "complete": bool(episodes.complete[sample]),
            "chosen": np.flatnonzero(np.isin(members, episodes.numbers)),
        }


def image_of(folder: Path, update: RecordedUpdate, sample: int) -> dict[str, Any] | None:
    """The newest image of a state: its shape and its bytes."""
    _, _, task = read_shapes(folder, "cpu")
    if not has_images(task.layout):
        return None
    count, single = unstack_layout(task.layout)
    part = next(part for part in parts_of(single) if part.image)
    newest = update.state[sample].reshape(count, -1)[-1]
    pixels = newest[part.start : part.start + part.size]
    return {"shape": part.image, "pixels": np.rint(pixels).astype(int)}


def answer_landscape(folder: Path, query: Query) -> dict[str, Any]:
    """Steps 6 to 8 and 13 for one transition: values over actions."""
    with lock:
        update, sample = update_of(folder, query), number(query, "sample", 0)
        first = number(query, "x", 0)
        dims: tuple[int, ...] = (first,)
        if update.before.action_dim > 1:
            dims = (first, number(query, "y", 1))
        target = target_landscape(update, sample, dims)
        return {
            "target": describe(target),
            "before": describe(critic_landscape(update, sample, dims, after=False)),
            "after": describe(critic_landscape(update, sample, dims)),
            "cloud": smoothed_cloud(update, sample),
        }


def describe(landscape: Landscape) -> dict[str, Any]:
    return {"dims": landscape.dims, "axes": landscape.axes, "values": landscape.values}


def answer_returns(folder: Path, query: Query) -> dict[str, Any]:
    """Predicted and achieved returns of one checkpoint; plays episodes."""
    check_import(folder, query)
    with lock:
        specimen, episodes = specimen_of(folder, query), number(query, "episodes", 3)
        key = (folder, stamp(folder, specimen.step), specimen.number, episodes)
        found = returns.get(key, lambda: measure_returns(specimen, episodes))
        owners = range(episodes)
        every = max(1, len(found.achieved) // 300)
        means = [found.achieved[found.episodes == own].mean() for own in owners]
        return {
            "step": specimen.step,
            "predicted": float(found.predicted.mean()),
            "smallest": float(found.smallest.mean()),
            "achieved": float(found.achieved.mean()),
            "spread": float(np.std(means)),
            "states": len(found.achieved),
            "episodes": episodes,
            "missing": found.missing,
            "points": np.stack([found.achieved, found.predicted], axis=1)[::every],
        }
