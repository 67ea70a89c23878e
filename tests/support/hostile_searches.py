"""Folders of `td3 tune` that somebody made to do harm, or that were damaged.

Each case changes the folder of a search that was stopped.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.hostile_runs import KINDS

Change = Callable[[Path], object]
JOURNAL, LOCK, PLAN = "study.journal", "study.journal.lock", "tune.toml"
OUTSIDE = "outside"  # next to the search: a file and a folder that must stay as they are


def lines(change: Callable[[list[str]], list[str]]) -> Change:
    """Change the lines of the journal."""

    def apply(search: Path) -> None:
        before = (search / JOURNAL).read_text(encoding="utf-8").splitlines()
        (search / JOURNAL).write_text("\n".join(change(before)) + "\n", encoding="utf-8")

    return apply


def record(kind: int, **values: Any) -> Change:
    """Change values of the first record of this kind; ... removes one."""

    def change(before: list[str]) -> list[str]:
        position = next(k for k, own in enumerate(before) if json.loads(own)["op_code"] == kind)
        found = json.loads(before[position]) | values
        kept = {key: value for key, value in found.items() if value is not ...}
        return [*before[:position], json.dumps(kept), *before[position + 1 :]]

    return lines(change)


def attribute(**values: Any) -> Change:
    """Add a record with an attribute of trial 0."""
    own = {"op_code": 8, "worker_id": "me", "trial_id": 0, "user_attr": values}
    return lines(lambda before: [*before, json.dumps(own)])


def journal(content: bytes) -> Change:
    return lambda search: (search / JOURNAL).write_bytes(content)


def flipped(part: float) -> Change:
    """Flip a bit of a brace or a quote, so that the line is no JSON any more."""

    def apply(search: Path) -> None:
        data = bytearray((search / JOURNAL).read_bytes())
        position = data.index(b'"', int(part * len(data)))
        data[position] ^= 4
        (search / JOURNAL).write_bytes(data)

    return apply


def plan(old: str, new: str) -> Change:
    def apply(search: Path) -> None:
        text = (search / PLAN).read_text(encoding="utf-8")
        assert old in text
        (search / PLAN).write_text(text.replace(old, new, 1), encoding="utf-8")

    return apply


def instead(name: str, make: Callable[[Path], object]) -> Change:
    def apply(search: Path) -> None:
        (search / name).unlink(missing_ok=True)
        make(search / name)

    return apply


def linked(name: str, target: str) -> Change:
    """A link to a file or a folder outside in place of one of the search."""

    def apply(search: Path) -> None:
        path = search / name
        if path.exists():
            path.rename(search.parent / "moved")
        path.symlink_to(search.parent / OUTSIDE / target)

    return apply


CASES: dict[str, Change] = {
    **{
        f"{name} is a {kind}": instead(name, make)
        for name in (JOURNAL, PLAN)
        for kind, make in KINDS.items()
    },
    f"{LOCK} is a folder": instead(LOCK, Path.mkdir),
    "journal is a link": linked(JOURNAL, "file"),
    "populations is a link": linked("populations", "folder"),
    "one population is a link": linked("populations/0000", "folder"),
    "checkpoints is a link": linked("populations/0000/checkpoints", "folder"),
    "journal is a list": journal(b"[]\n"),
    "journal is null": journal(b"null\n"),
    "journal is deep": journal(b"[" * 10_000 + b"\n"),
    "journal is a long number": journal(b"9" * 5000 + b"\n"),
    "journal is binary": journal(bytes(range(256)) * 9 + b"\n"),
    "journal is one long line": journal(b'{"a": "' + b"x" * 2**22 + b'"}\n'),
    **{f"bit flipped at {part}": flipped(part) for part in (0.0, 0.3, 0.6, 0.9)},
    "unknown record": record(0, op_code=99),
    "record of a text": record(0, op_code="0"),
    "record without a worker": record(0, worker_id=...),
    "minimize": record(0, directions=[1]),
    "two objectives": record(0, directions=[2, 2]),
    "deleted study": lines(lambda own: [*own[:1], '{"op_code": 1, "worker_id": "a"}', *own[1:]]),
    "unknown state": record(6, state=99),
    "value is text": record(5, param_value_internal="abc"),
    "value is NaN": record(5, param_value_internal=float("nan")),
    "value out of range": record(5, param_value_internal=50.0),
    "unknown distribution": record(5, distribution='{"name": "os.system", "attributes": {}}'),
    "distribution is null": record(5, distribution=None),
    "place is a list": attribute(place=[1]),
    "place without owner": attribute(place={"population": 0, "slot": 0, "began": 0}),
    "place is negative": attribute(place={"owner": "a", "population": -1, "slot": 0, "began": 0}),
    "end is a number": attribute(end=5),
    "end has wrong types": attribute(end={"age": "x", "reason": 3}),
    "returns have a wrong age": attribute(returns={"a": {}}),
    "millions of trials": lines(lambda own: own + own[1:2] * 20_000),
    "settings is a number": lambda search: (search / PLAN).write_text("settings = 3\n"),
    "tune is a number": lambda search: (search / PLAN).write_text("tune = 3\n"),
    "unknown option": plan("[tune]", "[tune]\nmore = 3"),
    **{
        new: plan(old, new)
        for old, new in (
            ("trials = 4", "trials = 4.5"),
            ("trials = 4", "trials = 'a'"),
            ("trials = 4", f"trials = {10**15}"),
            ("trials = 4", f"trials = {'9' * 4000}"),
            ("rows = 2", "rows = true"),
            ("rows = 2", f"rows = {2**40}"),
            ("evaluations = 3", "evaluations = [1]"),
            ("evaluations = 3", f"evaluations = {10**8}"),
            ("confirm = 0", "confirm = 100000"),
            ('objective = "last"', 'objective = "x"'),
            ('pruner = "none"', "pruner = 3"),
            ('storage = ""', "storage = 5"),
            ('storage = ""', 'storage = "nonsense"'),
            ("shapes = false", "shapes = 3"),
        )
    },
}


def make_outside(folder: Path) -> dict[str, bytes]:
    """Files that no search may change; returns what they hold."""
    (folder / OUTSIDE / "folder/checkpoints").mkdir(parents=True)
    for name in ("file", "folder/notes.txt", "folder/checkpoints/notes.txt"):
        (folder / OUTSIDE / name).write_bytes(b"mine\nno newline at the end")
    return outside(folder)


def outside(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in (folder / OUTSIDE).rglob("*") if path.is_file())
    return {os.path.relpath(path, folder): path.read_bytes() for path in found}
