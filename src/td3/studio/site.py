"""The addresses of the studio: static files, and the data that the page asks for."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from td3.errors import UserError
from td3.play.site import finder as play_finder
from td3.play.site import make_files, media_type
from td3.play.sources import policies_at
from td3.report.curves import XAxis
from td3.report.reference import read_reference
from td3.serving import Content, Find
from td3.studio.compare import compare, points
from td3.studio.detail import describe, show
from td3.studio.explain import explanations
from td3.studio.index import Index
from td3.studio.live_run import LiveRun
from td3.studio.media import make_export, read_film
from td3.studio.series import episodes, lines
from td3.studio.study import describe_study, dump
from td3.studio.units import check_actors

PAGE = Path(__file__).parent / "page"
REFERENCES = {  # in a checkout
    "TD3 authors": "td3_authors_curves.csv",
    "PyBullet": "pybullet.csv",
}
MOST_PLAYED = 4  # playgrounds that are kept in memory
GONE = "It does not exist, or it was deleted or moved."
Query = Mapping[str, str]


class Missing(Exception):
    """There is nothing at this address."""


class Studio:
    """Answers requests about the runs in a folder.

    Args:
        root: The folder.
        references: Names and CSV files of published curves.
    """

    def __init__(self, root: Path, references: Mapping[str, Path] | None = None) -> None:
        self.root, self.index = root, Index(root)
        files = known_references() | dict(references or {})
        self.references = {name: read_reference(path) for name, path in files.items()}
        self.files = {str(p.relative_to(PAGE)): p for p in PAGE.rglob("*") if p.is_file()}
        self.played: dict[str, tuple[object, Find]] = {}
        self.studies: dict[str, tuple[object, dict[str, Any]]] = {}
        self.exporting, self.playing = threading.Lock(), threading.Lock()
        self.answers: dict[str, Callable[[Query], Any]] = {
            "runs": self.runs,
            "run": self.describe,
            "series": self.series,
            "episodes": lambda query: episodes(self.full(query), number(query, "agent")),
            "units": self.units,
            "explanations": lambda query: explanations(),
            "compare": self.compare,
            "points": lambda query: points(self.several(query)),
            "study": self.study,
        }

    def find(self, path: str, query: Query) -> Content | None:
        """The content at a path, or None."""
        try:
            return self.answer(path, query)
        except Missing:  # a browser reports 404 as an error in its console
            return data({"error": GONE}) if path.startswith("api/") else None
        except FileNotFoundError:
            return None
        except (UserError, OSError) as error:  # of a run: the page shows it
            return data({"error": str(error)})

    def answer(self, path: str, query: Query) -> Content | None:
        if path in self.files:
            return Content(self.files[path].read_bytes(), media_type(path))
        kind, _, rest = path.partition("/")
        if kind == "api" and rest.removesuffix(".json") in self.answers:
            return data(self.answers[rest.removesuffix(".json")](query))
        if path == "film":
            film = read_film(self.run(query).folder, query.get("name", ""))
            return film and Content(*film)
        if path == "export":
            return self.export(query)
        if kind == "play":
            return self.play(rest, query)
        if path.startswith("microscope"):
            return find_microscope(path, query, self.root)
        return None

    # Runs

    def run(self, query: Query) -> LiveRun:
        """The run that a query names: one that is listed, never a path."""
        found = self.index.get(query.get("run", ""))
        if found is None:
            raise Missing
        return found

    def describe(self, query: Query) -> dict[str, Any]:
        run = self.full(query)
        return describe(run) | {"play": play_token(run.key)}

    def full(self, query: Query) -> LiveRun:
        found = self.index.get_full(query.get("run", ""))
        if found is None:
            raise Missing
        return found

    def several(self, query: Query) -> list[LiveRun]:
        keys = [self.index.get(key) for key in texts(query, "runs")]
        return [run for run in keys if run is not None]

    def runs(self, query: Query) -> dict[str, Any]:
        return self.index.since(number(query, "since"))

    def series(self, query: Query) -> dict[str, Any]:
        run = self.full(query)
        agents = [whole(word) for word in query.get("agents", "").split(",") if word]
        view = (number(query, "from"), number(query, "to") or 2**62)
        width = number(query, "points") or 600
        return lines(run, texts(query, "metrics"), agents, view, width)

    def units(self, query: Query) -> dict[str, Any]:
        checks, reason = check_actors(self.run(query).folder)
        return {"checks": [show(check) for check in checks], "reason": reason}

    def compare(self, query: Query) -> dict[str, Any]:
        axis: XAxis = "hours" if query.get("x") == "hours" else "steps"
        runs = self.several(query)
        for run in runs if axis == "hours" else []:
            self.index.get_full(run.key)  # the list knows only the newest times
        return compare(runs, axis, self.references, texts(query, "references"))

    def study(self, query: Query) -> dict[str, Any]:
        """A search of td3 tune; read again if its files changed."""
        key = query.get("study", "")
        self.index.since(2**62)
        folder = self.index.studies.get(key)
        if folder is None:
            raise Missing
        stamp = tuple(map(stamp_of, (folder / "study.journal", folder / "trials.csv")))
        if self.studies.get(key, (None, {}))[0] != stamp:
            self.studies[key] = (stamp, describe_study(folder, key))
        return self.studies[key][1]

    # Files

    def export(self, query: Query) -> Content | None:
        run = self.run(query)
        with self.exporting:  # each one may load PyTorch
            made = make_export(run.folder, query.get("policy", ""), query.get("kind", ""))
        if made is None:
            return None
        body, name = made
        kind = "application/zip" if name.endswith(".zip") else "application/octet-stream"
        return Content(body, kind, name)

    def play(self, path: str, query: Query) -> Content | None:
        """The playground with the policies of one run, at play/TOKEN_OF_THE_RUN/."""
        token, _, rest = path.partition("/")
        runs = list(self.index.runs.values())  # another request may change it
        run = next((run for run in runs if play_token(run.key) == token), None)
        if run is None:
            return None
        with self.playing:
            stamp = stamp_of(run.folder / "policy")
            if self.played.get(token, (None, None))[0] != stamp:
                while len(self.played) >= MOST_PLAYED:
                    self.played.pop(next(iter(self.played)))
                self.played[token] = (stamp, play_finder(make_files(policies_at(run.folder))))
            find = self.played[token][1]
        return find(rest or "index.html", query)


def play_token(key: str) -> str:
    """The name of a run in the address of its playground."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:16]


def known_references() -> dict[str, Path]:
    """The published curves that come with a checkout."""
    folder = Path(__file__).parents[3] / "benchmarks" / "reference"
    return {name: folder / file for name, file in REFERENCES.items() if (folder / file).is_file()}


def stamp_of(path: Path) -> tuple[int, int] | Literal[0]:
    try:
        facts = path.lstat()
    except OSError:
        return 0
    return facts.st_size, facts.st_mtime_ns


def data(value: Any) -> Content:
    return Content(dump(value), "application/json; charset=utf-8")


def number(query: Query, name: str) -> int:
    """A whole number of a query; 0 for anything else."""
    return whole(query.get(name, ""))


def whole(word: str) -> int:
    return int(word) if word.isdecimal() and len(word) < 19 else 0


def texts(query: Query, name: str) -> list[str]:
    """A list of texts of a query, in JSON."""
    try:
        found = json.loads(query.get(name, "[]"))
    except (ValueError, RecursionError):
        return []
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def find_microscope(path: str, query: Query, root: Path) -> Content | None:
    """What the microscope answers; it loads PyTorch."""
    from td3.microscope.site import find

    return find(path, query, root)
