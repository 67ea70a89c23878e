"""Trainings of a plan, as processes that outlive the command.

A plan is a TOML file in benchmarks/plans. Each part has several processes with a few seeds each, so
that all cores and the GPU are busy. `start` starts or continues them, `collect` waits and stores
what is there, `stop` ends them.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.td3_bench.joined import join_runs
from benchmarks.td3_bench.processes import environment_with_root
from td3.config.toml import read_toml
from td3.errors import UserError, nearest
from td3.files import last_step
from td3.report.summary import read_run

POLL_SECONDS = 2.0
SECONDS_BETWEEN_LINES = 30.0
AUTHORS = "authors"
PLANS = Path(__file__).parents[1] / "plans"
PLAN_KEYS = {"steps", "evaluation_every", "flags", "tasks", "seeds", "processes", "parts"}
PART_KEYS = {"tasks", "seeds", "processes", "flags", "program"}
# Many processes share the cores.
FEW_THREADS = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}


class Part(NamedTuple):
    """The seeds of a task with some settings."""

    name: str
    """The settings and the task, e.g. "original/Hopper-v5"."""
    task: str
    seeds: int
    processes: int
    flags: tuple[str, ...] = ()
    """Flags of `td3 train`."""
    program: str = "td3"
    """Or "authors", for their code."""

    @property
    def groups(self) -> list[range]:
        """The seeds of each process."""
        edges = [self.seeds * k // self.processes for k in range(self.processes + 1)]
        return [range(a, b) for a, b in itertools.pairwise(edges)]


class Plan(NamedTuple):
    """The trainings of a plan file."""

    steps: int
    evaluation_every: int
    parts: tuple[Part, ...]


def read_plan(name: str) -> Plan:
    """Read a plan by its name in benchmarks/plans, or by its path."""
    path = PLANS / f"{name}.toml"
    if not path.is_file():
        path = Path(name)
    if not path.is_file():
        known = sorted(path.stem for path in PLANS.glob("*.toml"))
        raise UserError(f"No plan {name!r}.{nearest(name, known)} Plans: {', '.join(known)}.")
    table = read_toml(path)
    check_keys(path, table, PLAN_KEYS, {"steps", "evaluation_every", "parts"})
    return Plan(table["steps"], table["evaluation_every"], tuple(parts_of(path, table)))


def parts_of(path: Path, plan: dict[str, Any]) -> Iterator[Part]:
    """One part for each settings and task; what a part leaves out is taken from the plan."""
    for settings, own in plan["parts"].items():
        check_keys(path, own, PART_KEYS, set())
        both = {"processes": 1, "program": "td3"} | plan | own
        check_keys(path, both, PLAN_KEYS | PART_KEYS, {"tasks", "seeds"})
        flags = (*plan.get("flags", ()), *own.get("flags", ()))
        for task in both["tasks"]:
            shared = both["seeds"], both["processes"], flags, both["program"]
            yield Part(f"{settings}/{task}", task, *shared)


def check_keys(path: Path, table: dict[str, Any], known: set[str], needed: set[str]) -> None:
    for key in table.keys() - known:
        raise UserError(f"{path} has an unknown key {key!r}.{nearest(key, known)}")
    for key in needed - table.keys():
        raise UserError(f"{path} lacks {key!r}.")


class Job(NamedTuple):
    """One process: a few seeds of a part."""

    part: Part
    seeds: range
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder.with_suffix(".log")

    @property
    def is_finished(self) -> bool:
        started = (self.folder / "config.toml").is_file()
        return started and read_run(self.folder).status == "finished"

    def command(self, source: Path, steps: int, every: int, more: Sequence[str]) -> list[str]:
        """The command that trains these seeds, or continues."""
        run, evaluations = str(self.folder), ["--evaluation.every", str(every)]
        if self.part.program == AUTHORS:  # starts again: it keeps no checkpoints
            own = ["--source", str(source), "--run", run, "--seed", str(self.seeds[0])]
            own += ["--steps", str(steps), *evaluations]
            return [sys.executable, "-m", "benchmarks", "authors", self.part.task, *own]
        td3 = [sys.executable, "-m", "td3"]
        if (self.folder / "config.toml").is_file():
            return [*td3, "resume", run, "--quiet"]
        own = ["--seed", str(self.seeds[0]), "--seeds", str(len(self.seeds)), "--run", run]
        own += ["--loop.steps", str(steps), *evaluations, "--threads", "1", "--quiet", *more]
        return [*td3, "train", self.part.task, *self.part.flags, *own]


def jobs(parts: Sequence[Part], runs: Path) -> Iterator[Job]:
    for part in parts:
        for seeds in part.groups:
            yield Job(part, seeds, runs / f"{part.name}-{seeds[0]}")


def choose_parts(plan: Plan, names: Sequence[str], processes: int) -> list[Part]:
    """The parts whose names start with one of these; `processes` 0 keeps the plan's number."""
    chosen = [part for part in plan.parts if not names or part.name.startswith(tuple(names))]
    if not chosen:
        raise UserError(f"No part {names[0]!r}. Parts: {', '.join(p.name for p in plan.parts)}.")
    if not processes:
        return chosen
    return [part._replace(processes=min(processes, part.seeds)) for part in chosen]


def start(
    todo: Sequence[Job], source: Path, steps: int, every: int, more: Sequence[str]
) -> list["subprocess.Popen[bytes]"]:
    """Start all jobs that are not finished, each in its own session."""
    if shutil.which("nvidia-cuda-mps-control"):  # kernels of several processes at the same time
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False)
    started = []
    for job in todo:
        if job.is_finished or is_running(job):
            continue
        job.folder.parent.mkdir(parents=True, exist_ok=True)
        with job.log.open("ab") as log:
            process = subprocess.Popen(
                job.command(source, steps, every, more),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=environment_with_root() | FEW_THREADS,
            )
        pid_file(job).write_text(str(process.pid), encoding="utf-8")
        started.append(process)
    return started


def pid_file(job: Job) -> Path:
    return job.folder.with_suffix(".pid")


def is_running(job: Job) -> bool:
    """Whether the process that `start` recorded still runs; another one is not counted."""
    if not pid_file(job).is_file():
        return False
    pid = pid_file(job).read_text(encoding="utf-8")
    try:  # the command line of a process that has ended is empty
        return str(job.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def stop(todo: Sequence[Job]) -> None:
    """Ask all processes to save and exit, and wait for them."""
    for job in todo:
        if is_running(job):
            os.kill(int(pid_file(job).read_text(encoding="utf-8")), signal.SIGTERM)
    while any(is_running(job) for job in todo):
        time.sleep(POLL_SECONDS / 4)


def collect(todo: Sequence[Job], seconds: float, out: Path) -> bool:
    """Wait until all have ended or the time is up, then store. Return whether all finished."""
    end = time.monotonic() + seconds
    shown = time.monotonic()
    before = {job.folder: last_step(job.folder / "events.jsonl") for job in todo}
    while time.monotonic() < end and any(is_running(job) for job in todo):
        time.sleep(min(POLL_SECONDS, max(0.0, end - time.monotonic())))
        if time.monotonic() - shown > SECONDS_BETWEEN_LINES:
            passed, shown = time.monotonic() - shown, time.monotonic()
            before = show_progress(todo, before, passed)
    store(todo, out)
    return all(job.is_finished for job in todo)


def show_progress(todo: Sequence[Job], before: dict[Path, int], seconds: float) -> dict[Path, int]:
    """Print the step of each process and its rate; return the steps."""
    now = {job.folder: last_step(job.folder / "events.jsonl") for job in todo}
    for name in dict.fromkeys(job.part.name for job in todo):
        own = [job for job in todo if job.part.name == name]
        steps = " ".join(f"{now[job.folder] // 1000}k" for job in own)
        rates = " ".join(f"{(now[j.folder] - before[j.folder]) / seconds:.0f}" for j in own)
        running = sum(is_running(job) for job in own)
        print(f"{name}: {running} running, steps {steps}, steps/s {rates}", flush=True)
    return now


def store(todo: Sequence[Job], out: Path) -> None:
    """Join the seeds of each part; name what cannot be stored and the last words of failures."""
    for part in dict.fromkeys(job.part for job in todo):
        own = [job for job in todo if job.part == part]
        for job in own:
            if not job.is_finished and not is_running(job) and job.log.is_file():
                words = job.log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
                print(f"{job.folder} ended early: {json.dumps(words)}")
        try:
            join_runs([job.folder for job in own], out / part.name)
        except (UserError, OSError) as error:
            print(f"{part.name} is not stored: {error}")
