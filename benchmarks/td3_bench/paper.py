"""Train the tasks of the TD3 paper: one process per task, all seeds of a task at once.

Stopped or killed, the next call continues. Finished runs are stored in small files.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.td3_bench.best_policy import keep_results
from benchmarks.td3_bench.plan import Plan
from benchmarks.td3_bench.processes import environment_with_root
from td3.errors import RunStopped, UserError, first_line
from td3.signals import StopRequest

POLL_SECONDS = 0.5


@dataclass
class Progress:
    """How far the tasks are."""

    steps: dict[str, int] = field(default_factory=dict)
    """Steps of the tasks that have started."""
    finished: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Error messages of tasks that failed."""
    returns: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Measured return of the best policy of each finished task."""
    exit_code: int = 0
    """Not 0 if a signal stopped the training."""


def train_tasks(plan: Plan, show: Callable[[Progress], None] = lambda progress: None) -> Progress:
    """Train the tasks that are not finished, keep the results, and test the best policies."""
    with ThreadPoolExecutor(1) as tester, StopRequest() as stop:
        trainer = Trainer(plan, tester)
        try:
            while trainer.is_busy() or (trainer.waiting and not stop.requested):
                if not stop.requested:
                    trainer.start_waiting()
                elif not trainer.progress.exit_code:
                    trainer.progress.exit_code = stop.exit_code
                    trainer.terminate()
                time.sleep(POLL_SECONDS)
                trainer.collect_finished(stopping=bool(stop.requested))
                show(trainer.progress)
        finally:
            trainer.terminate()
        trainer.progress.exit_code = stop.exit_code
    return trainer.progress


class Trainer:
    """Starts the processes of the tasks and collects what they leave."""

    def __init__(self, plan: Plan, tester: ThreadPoolExecutor) -> None:
        self.plan, self.tester = plan, tester
        self.progress = Progress()
        self.waiting, self.free_cores = list(plan.tasks), share_cores(plan.at_once)
        self.running: dict[str, tuple[subprocess.Popen[bytes], set[int]]] = {}
        self.tests: dict[str, Future[dict[str, Any]]] = {}

    def is_busy(self) -> bool:
        return bool(self.running or self.tests)

    def start_waiting(self) -> None:
        """Start tasks while cores are free."""
        while self.waiting and self.free_cores:
            task = self.waiting.pop(0)
            if self.plan.is_finished(task):
                self.finish(task)
            else:
                cores = self.free_cores.pop()
                self.running[task] = start_task(self.plan, task, cores), cores

    def finish(self, task: str) -> None:
        self.progress.finished.append(task)
        self.tests[task] = self.tester.submit(keep_results, self.plan, task)

    def collect_finished(self, stopping: bool) -> None:
        for task, (process, cores) in list(self.running.items()):
            self.progress.steps[task] = last_step(self.plan.run_folder(task))
            if process.poll() is None:
                continue
            self.running.pop(task)
            self.free_cores.append(cores)
            if process.returncode == 0:
                self.finish(task)
            elif not stopping:
                self.progress.failed[task] = last_error(self.plan, task, process.returncode)
        for task in [task for task, test in self.tests.items() if test.done()]:
            test = self.tests.pop(task)
            try:
                self.progress.returns[task] = test.result()
            except (OSError, RunStopped, UserError) as error:
                message = f"trained, but the results could not be stored: {first_line(error)}"
                self.progress.failed[task] = message

    def terminate(self) -> None:
        """Ask all processes to save and exit."""
        for process, _ in self.running.values():
            process.send_signal(signal.SIGTERM)


def log_file(plan: Plan, task: str) -> Path:
    return plan.run_folder(task).with_suffix(".log")


def start_task(plan: Plan, task: str, cores: set[int]) -> "subprocess.Popen[bytes]":
    """Start a task in its own session, so that Ctrl-C reaches only this process."""
    with log_file(plan, task).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "benchmarks.td3_bench.train_one", *plan.command(task)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment_with_root(),
        )
    if cores:
        os.sched_setaffinity(process.pid, cores)
    return process


def last_error(plan: Plan, task: str, code: int) -> str:
    """Return why a task failed."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    text = log_file(plan, task).read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("td3: ") if lines else f"exit code {code}"


def share_cores(parts: int) -> list[set[int]]:
    """Split the usable cores equally; the parts are empty if processes cannot be bound."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    each = len(cores) // parts
    return [set(cores[each * part : each * (part + 1)]) for part in range(parts)]


def last_step(run: Path) -> int:
    """Read the step of the last event from the end of the file."""
    path = run / "events.jsonl"
    if not path.exists():
        return 0
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        lines = file.read().splitlines()
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0
