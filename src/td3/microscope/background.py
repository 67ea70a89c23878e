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
from td3.microscope.experiment import RETURNS, TASKS
from td3.microscope.tricks import TRICKS

STEPS, SEEDS = 6000, 3
PATIENCE = 60.0


class Experiment:
    """Starts, shows and ends the one experiment of a server."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # The system ends the process with the thread that started it, so this thread stays.
        self.starter = ThreadPoolExecutor(1, "td3-experiment")
        self.link: Link | None = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.task, self.off = "", tuple[str, ...]()
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
        steps: int = STEPS,
        seeds: int = SEEDS,
    ) -> None:
        """Start again on this task without these tricks; the experiment before it is ended.

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
            facts: dict[str, Any] = {"folder": self.folder.name, "task": task, "off": self.off}
            facts |= {"steps": steps, "seeds": seeds}
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
            curves = read_curves(folder) if folder else {}
            return {
                "key": self.key,
                "task": self.task,
                "off": self.off,
                "running": running,
                "ended": self.ended,
                "steps": STEPS,
                "seeds": SEEDS,
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


def read_curves(folder: Path) -> dict[str, Any]:
    """Steps and values of each agent: returns, Q and what was achieved."""
    curves: dict[str, dict[str, list[Any]]] = {}
    for record in read_lines(folder / "run" / "metrics.jsonl"):
        if record.get("kind") == "evaluation":
            add(curves, "return", record, record["mean_return"])
        elif record.get("kind") == "train" and record.get("q") is not None:
            add(curves, "q", record, record["q"])
    for record in read_lines(folder / RETURNS):
        add(curves, "predicted", record, record["predicted"])
        add(curves, "achieved", record, record["achieved"])
    return {"curves": curves}


def add(curves: Any, name: str, record: dict[str, Any], value: float) -> None:
    agents = curves.setdefault(name, {})
    agents.setdefault(str(record["agent"]), []).append([record["step"], value])


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a file that another process writes."""
    try:
        *complete, _ = path.read_bytes().split(b"\n")
    except OSError:
        return []
    return [json.loads(line) for line in complete]
