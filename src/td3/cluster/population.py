"""The process that trains one population on a node: an ordinary run in its own folder."""

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from td3.config import Config, from_dict
from td3.environments.output import output_to_stderr
from td3.environments.workers.messages import receive
from td3.environments.workers.processes import serve_parent
from td3.errors import RunStopped, UserError
from td3.launch.progress import Display
from td3.signals import STOP_SIGNALS
from td3.training.metrics import Record

SECONDS_BETWEEN_REPORTS = 0.5
SHOWN = ("remark", "stopped", "frozen")
"""Kinds of records that the driver shows at once."""


class StoppedEarly(BaseException):
    """The driver asked to stop while this process loaded or ended."""


class Channel:
    """Messages to the worker that started this process, and its answers."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.answers = connection, queue.SimpleQueue[Any]()
        self.next = 0.0

    def listen(self) -> None:
        """Take messages until the worker ends; one of them asks to stop."""
        while True:
            try:
                message = json.loads(receive(self.connection))
            except (EOFError, OSError):
                return
            if message["kind"] == "stop":
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                self.answers.put(message["answer"])

    def tell(self, kind: str, **facts: Any) -> None:
        self.connection.send_bytes(json.dumps({"kind": kind, **facts}).encode())

    def step(self, step: int) -> None:
        """Tell the step, at most twice a second."""
        if (now := time.monotonic()) >= self.next:
            self.next = now + SECONDS_BETWEEN_REPORTS
            self.tell("step", step=step)

    def ask(self, what: str, **facts: Any) -> Any:
        """The answer of the driver."""
        self.tell("ask", what=what, **facts)
        return self.answers.get()


class Reporter(Display):
    """Reports the progress of this process to the driver instead of a terminal."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def phase(self, doing: str) -> None:
        if doing:
            self.channel.tell("phase", doing=doing)

    def step(self, step: int) -> None:
        self.channel.step(step)

    def stopping(self) -> bool:
        return True  # the driver shows it

    def write(self, record: Record) -> None:
        match record["kind"]:
            case "evaluation":
                facts = {key: record[key] for key in ("agent", "step", "mean_return")}
                self.channel.tell("evaluation", **facts)
            case "resumed":
                self.channel.tell("step", step=record["step"])
            case kind if kind in SHOWN:
                self.channel.tell("note", record=record)

    def close(self) -> None: ...


def serve(connection: Connection, facts: dict[str, Any]) -> None:
    """Train a population, new or continued, and report how it ended."""
    folder, config = Path(facts["folder"]), from_dict(facts["config"])
    run_reported(connection, lambda channel: train(config, folder, channel))


def run_reported(connection: Connection, action: Callable[[Channel], int]) -> None:
    """Run what trains, and report its exit code or its error."""
    signal.signal(signal.SIGTERM, stop_early)  # training replaces it while it can save
    channel = Channel(connection)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # blocked when it was started
        threading.Thread(target=channel.listen, daemon=True).start()
        with output_to_stderr():
            code = action(channel)
        end: dict[str, Any] = {"code": code, "message": ""}
    except UserError as error:
        end = {"code": 2, "message": str(error)}
    except RunStopped as error:
        end = {"code": 1, "message": str(error)}
    except StoppedEarly:
        end = {"code": 128 + signal.SIGTERM, "message": ""}
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    channel.tell("end", **end)


def stop_early(*signal_and_frame: object) -> None:
    """End at once: there is nothing new to save."""
    raise StoppedEarly


def train(config: Config, folder: Path, channel: Channel) -> int:
    """Start a run, or continue it; returns its exit code."""
    from td3.launch.resume import resume  # loads PyTorch, which takes seconds
    from td3.launch.start import start

    display = Reporter(channel)

    def ready(training: Any) -> None:
        channel.tell("ready", step=training.step)

    if (folder / "config.toml").exists():
        return resume(folder, config.loop.steps, display, on_training=ready)
    return start(config, folder, display, on_training=ready)[1]


if __name__ == "__main__":
    serve_parent(int(sys.argv[1]), int(sys.argv[2]), serve)
