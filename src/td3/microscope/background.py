"""The experiment that the page may start: one process, in a temporary folder, until the end."""

import atexit
import json
import secrets
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from td3.environments.workers.processes import Link, start_process
from td3.errors import UserError
from td3.microscope.experiment import RETURNS, TASKS, Task
from td3.microscope.tricks import TRICKS

PATIENCE = 60.0


class Experiment:
    """Starts, shows and ends the one experiment of a server."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # The system ends the process with the thread that started it, so this thread stays.
        self.starter = ThreadPoolExecutor(1, "td3-experiment")
        self.link: Link | None = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.task, self.off = "noise", tuple[str, ...]()
        self.updates, self.seeds = TASKS[self.task].updates, TASKS[self.task].seeds
        self.ended = ""
        self.key = secrets.token_urlsafe(16)
        """What a request to start must repeat, once: a link or a reload cannot start anything."""
        atexit.register(self.stop)

    def start(
        self,
        key: str,
        task: str,
        off: Sequence[str],
        *,
        updates: int = 0,
        seeds: int = 0,
    ) -> None:
        """Start again on this task without these tricks; the experiment before it is ended.

        Args:
            key: The current key.
            task: A name in `TASKS`.
            off: The tricks to turn off.
            updates: Updates of each agent; 0: those of the task.
            seeds: Agents of each kind; 0: those of the task.

        Raises:
            UserError: The key is not the current one, or there is no such task or trick.
        """
        if task not in TASKS:
            raise UserError(f"The task must be one of: {', '.join(TASKS)}.")
        wrong = [name for name in off if name not in TRICKS]
        if wrong or not off:
            raise UserError(f"Turn off at least one of: {', '.join(TRICKS)}.")
        with self.lock:
            if not secrets.compare_digest(key.encode(), self.key.encode()):
                raise UserError("Load the page again to start an experiment.")
            self.key = secrets.token_urlsafe(16)
            self.end()
            self.folder = tempfile.TemporaryDirectory(prefix="td3-tricks-")
            self.off, self.ended = tuple(dict.fromkeys(off)), ""
            self.task = task
            self.updates = updates or TASKS[task].updates
            self.seeds = seeds or TASKS[task].seeds
            facts: dict[str, Any] = {"folder": self.folder.name, "name": task, "off": self.off}
            facts |= {"updates": self.updates, "seeds": self.seeds}
            self.link = self.starter.submit(
                start_process, "td3.microscope.experiment", "the experiment", PATIENCE
            ).result()
            self.link.connection.send_bytes(json.dumps(facts).encode())

    def stop(self) -> None:
        """End the process and remove its folder."""
        with self.lock:
            self.end()

    def end(self) -> None:
        if self.link:
            self.link.close()
            self.link.process.kill()  # there is nothing to save
            self.link.process.wait()
        if self.folder:
            self.folder.cleanup()
        self.link = self.folder = None
        self.off = ()

    def state(self) -> dict[str, Any]:
        """What the page shows: whether it runs, and the curves so far."""
        with self.lock:
            running = self.is_running()
            folder = Path(self.folder.name) if self.folder else None
            curves = read_curves(folder, TASKS[self.task]) if folder else {}
            return {
                "key": self.key,
                "task": self.task,
                "off": self.off,
                "running": running,
                "ended": self.ended,
                "updates": self.updates,
                "seeds": self.seeds,
                **curves,
            }

    def is_running(self) -> bool:
        if self.link is None or self.ended:
            return False
        with suppress(EOFError, OSError):
            while self.link.connection.poll():
                if message := self.link.connection.recv_bytes():
                    found = json.loads(message)
                    self.ended = found.get("error", "finished")
        if not self.ended and self.link.process.poll() is not None:
            self.ended = str(self.link.exit_error())
        return not self.ended


def read_curves(folder: Path, task: Task) -> dict[str, Any]:
    """Updates and values of each agent: returns, Q and what was achieved."""
    curves: dict[str, dict[str, list[Any]]] = {}
    for record in read_lines(folder / "run" / "metrics.jsonl"):
        if record.get("kind") == "evaluation":
            add(curves, "return", record, "mean_return", task)
        elif record.get("kind") == "train" and record.get("q") is not None:
            add(curves, "q", record, "q", task)
    for record in read_lines(folder / RETURNS):
        add(curves, "predicted", record, "predicted", task)
        add(curves, "achieved", record, "achieved", task)
    return {"curves": curves}


def add(curves: Any, name: str, record: dict[str, Any], key: str, task: Task) -> None:
    """Append a point to the curve of an agent, without those of the random steps."""
    updates = task.updates_at(record["step"])
    if updates >= 0:
        agents = curves.setdefault(name, {})
        agents.setdefault(str(record["agent"]), []).append([updates, record[key]])


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a file that another process writes."""
    try:
        *complete, _ = path.read_bytes().split(b"\n")
    except OSError:
        return []
    return [json.loads(line) for line in complete]
