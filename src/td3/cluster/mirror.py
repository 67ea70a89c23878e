"""Keep a copy of a run that trains: records at once, checkpoints when they are complete.

The files of a checkpoint are sent in the order in which training writes them, its manifest last. So
the copy is a run folder that `td3 resume` can continue at any moment. Files of a checkpoint that
the copy has are not sent again: each transition travels once.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from td3.cluster.pieces import PIECE, Piece, file_pieces, remove_tree
from td3.errors import UserError
from td3.run.copies import ATTEMPTS, copy_checkpoint
from td3.run.manifest import MANIFEST, STATE, Invalid, by_step, read_manifest

SNAPSHOT = ".snapshot"
FINISH = b'"event": "finish"'


def checkpoint_files(folder: Path, name: str) -> dict[str, str]:
    """Path → checksum of the files of a checkpoint, the manifest last. Raises Invalid."""
    content = read_manifest(folder / "checkpoints" / name)
    found = {f"replay/{own['file']}": own["sha256"] for own in content["segments"]}
    found[f"checkpoints/{name}/{STATE}"] = content["state"]["sha256"]
    found[f"checkpoints/{name}/{MANIFEST}"] = content["state"]["sha256"]
    return found


def newest_complete(folder: Path) -> int | None:
    """The step of the newest checkpoint of which a folder has all files, if any."""
    for checkpoint in by_step(folder):
        try:
            files = checkpoint_files(folder, checkpoint.name)
        except Invalid:
            continue
        if all((folder / path).is_file() for path in files):
            return int(checkpoint.name)
    return None


class Mirror:
    """What a copy of a run has, and what is to be sent to it."""

    def __init__(self, run: Path, copied: bool = False) -> None:
        """`copied`: the run was made from the copy, which therefore has its checkpoints."""
        self.run = run
        self.snapshot = run.with_name(f"{run.name}{SNAPSHOT}")
        self.small: dict[str, tuple[int, int]] = {}
        """Path → size and time of the settings and policies that were sent."""
        self.sent: dict[str, int] = {}
        """Bytes of the growing files that were sent."""
        self.checkpoints: dict[str, dict[str, str]] = {}
        """Name of a checkpoint that the copy has → its files."""
        for checkpoint in by_step(run) if copied else []:
            try:
                self.checkpoints[checkpoint.name] = checkpoint_files(run, checkpoint.name)
            except Invalid:
                continue

    def records(self, is_over: bool = False) -> Iterator[Piece]:
        """What is new besides checkpoints.

        The event that the run has finished is sent when everything else is there: `is_over`.
        """
        events = list(self.growing("events.jsonl", b"" if is_over else FINISH))
        for path in [self.run / "config.toml", *sorted((self.run / "policy").glob("agent-*"))]:
            name = path.relative_to(self.run).as_posix()
            try:
                status = path.stat()
                found = (status.st_size, status.st_mtime_ns)
                if self.small.get(name) != found:
                    yield from list(file_pieces(self.run, name))
                    self.small[name] = found
            except FileNotFoundError:
                continue  # it is being replaced
        yield from self.growing("metrics.jsonl")
        yield from events

    def growing(self, name: str, until: bytes = b"") -> Iterator[Piece]:
        """The complete lines that a file has gained, before the first with this text."""
        path, start = self.run / name, self.sent.get(name, 0)
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(start)
            data = file.read()
        if until and until in data:
            data = data[: data.index(until)]
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            return
        for at in range(0, len(data), PIECE):
            part = data[at : at + PIECE]
            yield Piece(name, part, start + at, at + PIECE >= len(data), appends=start > 0)
        self.sent[name] = start + len(data)

    @property
    def saved(self) -> int | None:
        """The step of the newest checkpoint that the copy has."""
        return max(map(int, list(self.checkpoints)), default=None)  # an upload may add one

    def new_checkpoint(self) -> str:
        """Take a snapshot of the newest checkpoint; its name, or "" if the copy has it."""
        for _ in range(ATTEMPTS):
            newest = next(iter(by_step(self.run)), None)
            if newest is None or newest.name in self.checkpoints:
                return ""
            remove_tree(self.snapshot)
            try:
                copy_checkpoint(self.run, int(newest.name), self.snapshot, link=True)
                return newest.name
            except (FileNotFoundError, Invalid) as error:  # training has removed it
                problem = error
        raise UserError(f"The newest checkpoint of {self.run} cannot be read: {problem}.")

    def missing(self, name: str) -> dict[str, str]:
        """The files of the snapshot that the copy does not have, the manifest last."""
        known: dict[str, Any] = {}
        for files in self.checkpoints.values():
            known |= files
        files = checkpoint_files(self.snapshot, name)
        return {path: own for path, own in files.items() if known.get(path) != own}

    def arrived(self, name: str) -> list[str]:
        """Note that the copy has a checkpoint; returns the files that it needs no longer."""
        before = {path for files in self.checkpoints.values() for path in files}
        self.checkpoints[name] = checkpoint_files(self.snapshot, name)
        kept = sorted(self.checkpoints, key=int)[-2:]
        self.checkpoints = {own: self.checkpoints[own] for own in kept}
        remove_tree(self.snapshot)
        needed = {path for files in self.checkpoints.values() for path in files}
        return sorted(before - needed, key=lambda path: not path.endswith(MANIFEST))

    def checkpoint_pieces(self, name: str) -> Iterator[Piece]:
        """The snapshot in pieces, after all records, and the removal of older files."""
        yield from self.records()
        for path in self.missing(name):
            yield from file_pieces(self.snapshot, path)
        for path in self.arrived(name):
            yield Piece(path, None)
