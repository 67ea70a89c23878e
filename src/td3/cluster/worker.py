"""A Ray actor: starts the process of a population on its node and reports to the driver.

The actor itself loads neither PyTorch nor the environment.
"""

import json
import math
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from td3.cluster.mirror import SNAPSHOT, Mirror
from td3.cluster.pieces import Piece, empty_folder, remove_tree, write_piece
from td3.cluster.storage import Storage
from td3.environments.workers.messages import receive
from td3.environments.workers.processes import Link, start_process, stop_all
from td3.errors import first_line
from td3.machine import CORES
from td3.run.lock import is_locked

REPORT_BYTES = 32 * 2**20
"""Most that one report carries."""
WAIT_SECONDS = 0.5
PREFIX = "td3-cluster-"


@dataclass
class Job:
    """What a worker is to train."""

    run: str
    """Identifies a run on a cluster; part of the names of temporary folders."""
    name: str
    config: dict[str, Any]
    storage: str = ""
    cores: int = 1
    """Cores that the population may use."""
    module: str = "td3.cluster.population"
    facts: dict[str, Any] = field(default_factory=dict)
    """Further facts for its process."""


@dataclass
class Report:
    """What happened since the report before."""

    messages: list[dict[str, Any]]
    pieces: list[Piece]
    saved: int | None
    """Step of the newest checkpoint that is stored."""
    end: dict[str, Any] | None = None
    """How the population ended, when the driver has all its files."""


class Worker:
    """The class of the actor; a plain class, so that tests can use it without Ray."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.folder = temporary_folder(job.run) / f"{job.name}-{os.getpid()}"
        empty_folder(self.folder)
        self.link: Link | None = None
        self.mirror: Mirror | None = None
        self.ready = self.stopped = False
        self.end: dict[str, Any] | None = None
        self.outbox: Iterator[Piece] = iter(())
        self.storage = Storage(job.storage) if job.storage else None
        self.uploads = ThreadPoolExecutor(1)
        self.upload: Future[None] | None = None
        self.upload_problem = ""

    def where(self) -> dict[str, Any]:
        """The node, for messages."""
        return {"node": socket.gethostname(), "pid": os.getpid()}

    def write(self, pieces: list[Piece]) -> None:
        """Take files of a run that is to continue."""
        for piece in pieces:
            write_piece(self.folder, piece)

    def begin(self) -> None:
        """Start the process of the population."""
        fetched = self.storage.fetch(self.job.name, self.folder) if self.storage else None
        if self.storage and fetched is None:
            empty_folder(self.folder)
        self.mirror = Mirror(self.folder, copied=True)
        if self.storage and fetched is not None:
            self.mirror.checkpoints |= self.storage.before(self.job.name, fetched)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()  # a new run wants to make it
        self.link = start_process(
            self.job.module,
            f"Population {self.job.name}",
            math.inf,
            **{CORES: str(self.job.cores)},
        )
        facts = {"folder": str(self.folder), "config": self.job.config, **self.job.facts}
        self.link.connection.send_bytes(json.dumps(facts).encode())

    def advance(self, stop: bool = False, answers: list[Any] | None = None) -> Report:
        """Wait a moment for something to report.

        Args:
            stop: Whether the population should save and end.
            answers: Answers of the driver to what the process asked.
        """
        assert self.link
        assert self.mirror
        with suppress(OSError):
            for answer in answers or []:
                self.send({"kind": "answer", "answer": answer})
            if stop and not self.stopped:
                self.stopped = True
                self.send({"kind": "stop"})
        messages = self.take_messages() + self.upload_notes()
        pieces = self.take_pieces()
        if self.end and not pieces and self.is_complete():
            return Report(messages, [], self.mirror.saved, self.end)
        return Report(messages, pieces, self.mirror.saved)

    def send(self, message: dict[str, Any]) -> None:
        assert self.link
        self.link.connection.send_bytes(json.dumps(message).encode())

    def take_messages(self) -> list[dict[str, Any]]:
        """What the process has reported; waits a moment for the first message."""
        assert self.link
        found: list[dict[str, Any]] = []
        limit = time.monotonic() + WAIT_SECONDS
        while self.end is None:
            left = max(0.0, limit - time.monotonic()) if not found else 0.0
            try:
                if not self.link.connection.poll(left):
                    break
                message = json.loads(receive(self.link.connection))
            except (EOFError, OSError):
                self.end = {"code": 1, "message": f"{self.link.exit_error()}.", "lost": True}
                break
            if message["kind"] == "end":
                self.link.process.wait()
                self.end = message
            elif message["kind"] == "ready":
                self.ready = True
            found.append(message)
            if message["kind"] == "ask":
                break
        return found

    def take_pieces(self) -> list[Piece]:
        """The next files for the driver."""
        found: list[Piece] = []
        size = 0
        while size < REPORT_BYTES:
            piece = next(self.outbox, None)
            if piece is None:
                if found or not self.refill():
                    break
                continue
            found.append(piece)
            size += len(piece.data or b"")
        return found

    def refill(self) -> bool:
        """Look for new files; returns whether there may be some."""
        assert self.mirror
        if not self.ready:
            return False
        if self.storage:
            self.start_upload()
        elif name := self.mirror.new_checkpoint():
            self.outbox = self.mirror.checkpoint_pieces(name)
            return True
        pieces = list(self.mirror.records(bool(self.end) and self.is_complete()))
        self.outbox = iter(pieces)
        return bool(pieces)

    def start_upload(self) -> None:
        """Begin to store the newest checkpoint, unless one is being stored."""
        assert self.mirror
        assert self.storage
        if self.upload and (not self.upload.done() or (self.end and self.upload.exception())):
            return
        if name := self.mirror.new_checkpoint():
            self.upload = self.uploads.submit(self.storage.store, self.job.name, self.mirror, name)

    def upload_notes(self) -> list[dict[str, Any]]:
        """A message about an upload that failed and is tried again, once for each reason."""
        if not (self.storage and self.upload and self.upload.done()):
            return []
        error = self.upload.exception()
        problem = f"cannot write to {self.storage.address}: {first_line(error)}" if error else ""
        is_new, self.upload_problem = problem not in ("", self.upload_problem), problem
        record = {"kind": "remark", "message": f"{problem}; td3 tries again"}
        return [{"kind": "note", "record": record}] if is_new else []

    def is_complete(self) -> bool:
        """Whether everything of a population that ended is stored."""
        assert self.end
        if not (self.storage and self.upload):
            return True
        if not self.upload.done():
            return False
        if error := self.upload.exception():
            message = f"Cannot write to {self.storage.address}: {first_line(error)}."
            self.end = {"code": 1, "message": message}
        return True

    def close(self) -> None:
        """End the process and remove the temporary folder."""
        self.uploads.shutdown()
        if self.link:
            stop_all([self.link])
        remove_tree(self.folder.with_name(f"{self.folder.name}{SNAPSHOT}"))
        remove_tree(self.folder)
        sweep(self.job.run)


def temporary_folder(run: str) -> Path:
    """Where the populations of a driver train on a node."""
    return Path(tempfile.gettempdir()) / f"{PREFIX}{run}"


def is_worker(folder: Path) -> bool:
    """Whether the worker that made a folder is alive; one that nobody waited for is not."""
    pid = folder.name.removesuffix(SNAPSHOT).rpartition("-")[2]
    try:
        os.kill(int(pid), 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # it ended just now, unless there is no /proc
    except (OSError, ValueError):
        return False
    return state != "Z"


def sweep(run: str) -> None:
    """Remove what workers that were killed left on this node."""
    folder = temporary_folder(run)
    for path in folder.glob("*"):
        if not is_worker(path) and not is_locked(path):
            remove_tree(path)
    with suppress(OSError):
        folder.rmdir()
