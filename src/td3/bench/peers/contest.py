"""td3 bench peers: everyone in turn, in rounds, each in a process of its own.

Thread settings are read when a library is imported, so every contestant has one process for each
thread count. They all live until the end; while one trains, the others wait for their pipes.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, TypeVar

from td3.bench.measure import (
    RANDOM_STEPS,
    Benchmark,
    Figure,
    Rounds,
    Tick,
    describe,
    prepare,
    take_note,
)
from td3.bench.peers import ENTRIES, OURS, Entry
from td3.config import Config, to_dict
from td3.config.checks import check
from td3.environments.environment import Environment
from td3.errors import UserError
from td3.run.memory import check_memory

Item = TypeVar("Item")

START_SECONDS = 300.0  # to import, make everything, compile and warm up
PATIENCE = 60.0  # beyond the seconds that were asked for


class Failed(Exception):
    """A contestant cannot go on; the message says why in one line."""


@dataclass
class Result:
    """What became of one contestant."""

    uses: str
    version: str = ""
    speeds: dict[int, list[float]] = field(default_factory=dict)
    """Steps per second in each round, by thread count."""
    absent: str = ""
    """Why there are no figures."""

    def figure(self, threads: int) -> Figure:
        return Figure("1/s", self.speeds[threads])

    @property
    def better(self) -> int:
        """The thread count with the larger median."""
        return max(self.speeds, key=lambda threads: self.figure(threads).quartiles[1])

    def as_dict(self) -> dict[str, Any]:
        known = {"uses": self.uses, "version": self.version}
        if self.absent:
            return known | {"absent": self.absent}
        figures = {str(threads): self.figure(threads).as_dict() for threads in self.speeds}
        return known | {"better_threads": self.better, "steps_per_second": figures}


@dataclass(frozen=True)
class Contest(Benchmark):
    """Steps per second of everyone, and how many times theirs ours are."""

    results: dict[str, Result]

    def as_dict(self) -> dict[str, Any]:
        contestants = {name: result.as_dict() for name, result in self.results.items()}
        return super().as_dict() | {"contestants": contestants}


def bench_peers(
    config: Config,
    threads: Sequence[int],
    rounds: Rounds,
    tick: Tick = lambda: None,
    entries: Mapping[str, Entry] = ENTRIES,
) -> Contest:
    """Train with every library that is installed; what fails is reported, not raised."""
    if not threads or min(threads) < 1 or len(set(threads)) < len(threads):
        raise UserError("threads must be different counts of 1 or more.")
    loop = dataclasses.replace(config.loop, update="step", random_steps=RANDOM_STEPS)
    config = check(dataclasses.replace(config, loop=loop))
    circumstances = take_note()
    device = prepare(config)
    config = dataclasses.replace(config, device=str(device))
    environment = Environment(config.environment)
    task = environment.task
    environment.close()
    check_memory(config, task)
    results = {name: Result(entry.uses) for name, entry in entries.items()}
    with ExitStack() as stack:
        started: list[tuple[str, int, Worker]] = []
        for name, entry in entries.items():
            for count in threads:
                with noting_failure(results[name]):
                    check_installed(entry, results[name])
                    worker = Worker(entry, dataclasses.replace(config, threads=count))
                    stack.callback(worker.close)
                    worker.wait_until_ready()
                    started.append((name, count, worker))
                tick()
        for turn in range(rounds.count):
            for name, count, worker in rotated(started, turn):
                with noting_failure(results[name]):
                    speed = worker.train(rounds.seconds)
                    results[name].speeds.setdefault(count, []).append(speed)
            tick()
    described = describe(config, device, rounds) | {
        "environment": config.environment.id,
        "state_dim": task.state_dim,
        "action_dim": task.action_dim,
        "threads": list(threads),
        "update": config.loop.update,
    }
    return Contest("peers", described, ratios(results), circumstances, results)


def rotated(items: list[Item], turn: int) -> list[Item]:
    """All of them, beginning with another one each turn, so that nobody is always first."""
    first = turn % max(len(items), 1)
    return items[first:] + items[:first]


def check_installed(entry: Entry, result: Result) -> None:
    if result.absent:
        raise Failed(result.absent)  # at another thread count
    if find_spec(entry.module) is None:
        raise Failed("not installed; pip install 'td3[peers]'")
    try:
        result.version = version(entry.distribution)
    except PackageNotFoundError:
        result.version = "unknown"


@contextmanager
def noting_failure(result: Result) -> Iterator[None]:
    try:
        yield
    except Failed as failure:
        result.absent = str(failure)
        result.speeds = {}


def ratios(results: Mapping[str, Result]) -> dict[str, Figure]:
    """Ours ÷ theirs, round by round: at each thread count, and at the better one of each."""
    ours, found = results.get(OURS), {}
    if ours is None or ours.absent:
        return {}
    for name, theirs in results.items():
        if name == OURS or theirs.absent:
            continue
        pairs = {f"{count}_threads": (count, count) for count in theirs.speeds}
        for label, (mine, other) in (pairs | {"better": (ours.better, theirs.better)}).items():
            both = zip(ours.speeds[mine], theirs.speeds[other], strict=True)
            found[f"{OURS}_over_{name}_{label}"] = Figure("", [us / them for us, them in both])
    return found


class Worker:
    """One contestant's process, told what to do through a pipe."""

    def __init__(self, entry: Entry, config: Config) -> None:
        self.config = config
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - see close
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "td3.bench.peers.worker", entry.adapter],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, **environment_of(config)},
        )

    def wait_until_ready(self) -> None:
        self.ask(json.dumps(to_dict(self.config)), START_SECONDS)

    def train(self, seconds: float) -> float:
        """Steps per second over about so long."""
        answer = self.ask(str(seconds), seconds + PATIENCE)
        return float(answer["steps"]) / float(answer["seconds"])

    def ask(self, line: str, seconds: float) -> dict[str, Any]:
        """Send a line and wait for the answer, but not for ever."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(seconds, give_up)
        timer.start()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            text = self.process.stdout.readline()
        except BrokenPipeError:
            text = ""
        finally:
            timer.cancel()
        if late.is_set():
            raise Failed(f"failed: no answer within {seconds:g} s")
        if not text:
            raise Failed(f"failed: {self.last_words()}")
        answer: dict[str, Any] = json.loads(text)
        if "error" in answer:
            raise Failed(f"failed: {answer['error']}")
        return answer

    def last_words(self) -> str:
        """The last line that a process wrote before it died."""
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1] if lines else f"its process ended with code {code}"

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        self.process.kill()
        self.process.wait()
        self.errors.close()


def environment_of(config: Config) -> dict[str, str]:
    """Variables that libraries read when they are imported: threads, and JAX's device."""
    threads, on_gpu = str(config.threads), config.device.startswith("cuda")
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return {
        **dict.fromkeys(names, threads),
        "NPROC": threads,  # the size of XLA's thread pool
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={str(config.threads > 1).lower()}",
        "JAX_PLATFORMS": "cuda" if on_gpu else "cpu",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # JAX takes three quarters of a GPU otherwise
        **({} if on_gpu else {"CUDA_VISIBLE_DEVICES": ""}),
    }
