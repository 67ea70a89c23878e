"""All runs and studies below a folder, and what changed since a browser last asked."""

import itertools
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from td3.studio.live_run import LiveRun

DEEPEST, MOST_FOLDERS, MOST_RUNS = 5, 20_000, 5000
BUDGET = 0.4  # seconds that one answer may spend on reading
QUIET_SECONDS = 3.0  # between looks at runs that do not train
LOOK_SECONDS = 0.2  # between looks at anything
MOST_FULL = 24  # runs whose training records are kept in memory


class Place(NamedTuple):
    """A folder with a run or a study."""

    key: str
    """Its path below the root."""
    folder: Path
    kind: str
    """run or study"""
    study: str
    """Key of the study that the run confirms, or empty."""


def places(root: Path) -> Iterator[Place]:
    """The runs and studies in a folder, and in those below it. Links are not followed."""
    waiting = [Place(".", root, "", "")]
    for _ in range(MOST_FOLDERS):
        if not waiting:
            return
        here = waiting.pop()
        names, folders = entries(here.folder)
        if "tune.toml" in names:
            yield here._replace(kind="study")
            folders = [name for name in folders if name == "confirm"]
        elif "config.toml" in names or "checkpoints" in folders:
            yield here._replace(kind="run")
            continue
        study = here.key if "tune.toml" in names else here.study
        if here.key.count("/") < DEEPEST:
            waiting += [
                Place(
                    name if here.key == "." else f"{here.key}/{name}", here.folder / name, "", study
                )
                for name in sorted(folders, reverse=True)
                if not name.startswith(".")
            ]


def entries(folder: Path) -> tuple[set[str], list[str]]:
    """The names of regular files and of folders."""
    files, folders = set(), []
    try:
        with os.scandir(folder) as found:
            for entry in itertools.islice(found, MOST_FOLDERS):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.name in ("config.toml", "tune.toml"):
                    files.add(entry.name)
    except OSError:  # deleted, or not readable
        return set(), []
    return files, folders


class Index:
    """The runs below a folder. `since` answers what changed after a version."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = threading.RLock()
        self.runs: dict[str, LiveRun] = {}
        self.studies: dict[str, Path] = {}
        self.rows: dict[str, tuple[int, dict[str, Any]]] = {}
        self.gone: OrderedDict[str, int] = OrderedDict()
        self.version = 0
        self.next_look = self.next_quiet_look = 0.0
        self.full: OrderedDict[str, LiveRun] = OrderedDict()

    def look(self) -> None:
        """Find new and deleted runs, and read what was added, within the budget of time."""
        with self.lock:
            now = time.monotonic()
            if now < self.next_look:
                return
            quiet = now >= self.next_quiet_look
            if quiet:
                self.find()
            end = now + BUDGET
            # Unread ones first, so that every answer brings something new.
            for run in sorted(self.runs.values(), key=lambda run: not run.more):
                if not (quiet or run.running or run.more):
                    continue
                changed = run.refresh()
                if changed:
                    self.take(run)
                if time.monotonic() > end:
                    break
            else:
                if quiet:
                    self.next_quiet_look = time.monotonic() + QUIET_SECONDS
            self.next_look = time.monotonic() + LOOK_SECONDS

    def find(self) -> None:
        found = list(itertools.islice(places(self.root), MOST_RUNS))
        runs = {place.key: place for place in found if place.kind == "run"}
        self.studies = {place.key: place.folder for place in found if place.kind == "study"}
        for key in self.runs.keys() - runs.keys():
            del self.runs[key]
            self.full.pop(key, None)
            self.version += 1
            self.rows.pop(key, None)
            self.gone[key] = self.version
        for key in [key for key in runs if key not in self.runs]:
            self.runs[key] = run = LiveRun(key, runs[key].folder, runs[key].study)
            self.gone.pop(key, None)
            self.version += 1
            self.rows[key] = (self.version, run.row())

    def take(self, run: LiveRun) -> None:
        row = run.row()
        if self.rows.get(run.key, (0, None))[1] != row:
            self.version += 1
            self.rows[run.key] = (self.version, row)

    def since(self, version: int) -> dict[str, Any]:
        """Rows that are new or changed after a version, and runs that are gone."""
        with self.lock:
            self.look()
            return {
                "version": self.version,
                "rows": [row for at, row in self.rows.values() if at > version],
                "gone": [key for key, at in self.gone.items() if at > version],
                "studies": sorted(self.studies),
                "name": str(self.root),
            }

    def get(self, key: str) -> LiveRun | None:
        """A run by its key, after a look at what changed."""
        with self.lock:
            if key not in self.runs:
                self.next_look = self.next_quiet_look = 0.0
            self.look()
            return self.runs.get(key)

    def get_full(self, key: str) -> LiveRun | None:
        """As `get`, with the records of training."""
        run = self.get(key)
        if run is None:
            return None
        with self.lock:
            self.full[key] = run
            self.full.move_to_end(key)
            dropped = self.full.popitem(last=False)[1] if len(self.full) > MOST_FULL else None
        if dropped:
            dropped.drop_full()
        run.need_full()
        return run
