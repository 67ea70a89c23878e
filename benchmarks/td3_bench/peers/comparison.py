"""Comparison with other libraries: all in turn, in rounds, each in its own process.

Libraries read the number of threads on import, so each library has one process per thread count.
All processes live until the end; while one trains, the others block on their pipes.
"""

import dataclasses
import json
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

from benchmarks.td3_bench.peers import LIBRARIES, OURS, Library
from benchmarks.td3_bench.processes import environment_with_root
from td3.bench.measure import (
    Benchmark,
    Figure,
    Rounds,
    describe_circumstances,
    describe_settings,
    prepare_device,
)
from td3.bench.throughput import RANDOM_STEPS
from td3.config import Config, to_dict
from td3.config.checks import check
from td3.environments.environment import Environment
from td3.errors import UserError
from td3.run.memory import check_memory

Item = TypeVar("Item")

START_SECONDS = 300.0  # timeout for import, compilation and warm-up
EXTRA_SECONDS = 60.0  # timeout beyond the requested training time


class LibraryFailed(Exception):
    """A library cannot continue; the message is one line."""


@dataclass
class LibraryResult:
    """The speeds of one library, or why there are none."""

    uses: str
    version: str = ""
    speeds: dict[int, list[float]] = field(default_factory=dict)
    """Steps per second in each round, by number of threads."""
    missing: str = ""
    """Why there are no figures."""

    def figure(self, threads: int) -> Figure:
        return Figure("1/s", self.speeds[threads])

    @property
    def best_threads(self) -> int:
        """The number of threads with the largest median."""
        return max(self.speeds, key=lambda threads: self.figure(threads).quartiles[1])

    def as_dict(self) -> dict[str, Any]:
        known = {"uses": self.uses, "version": self.version}
        if self.missing:
            return known | {"absent": self.missing}
        figures = {str(threads): self.figure(threads).as_dict() for threads in self.speeds}
        return known | {"better_threads": self.best_threads, "steps_per_second": figures}


@dataclass(frozen=True)
class Comparison(Benchmark):
    """Steps per second of all libraries, and the speed-ups of td3."""

    results: dict[str, LibraryResult]

    def as_dict(self) -> dict[str, Any]:
        contestants = {name: result.as_dict() for name, result in self.results.items()}
        return super().as_dict() | {"contestants": contestants}


def bench_peers(
    config: Config,
    threads: Sequence[int],
    rounds: Rounds,
    libraries: Mapping[str, Library] = LIBRARIES,
) -> Comparison:
    """Train with every installed library; report failures instead of raising them."""
    if not threads or min(threads) < 1 or len(set(threads)) < len(threads):
        raise UserError("threads must be different numbers, each 1 or more.")
    loop = dataclasses.replace(config.loop, update="step", random_steps=RANDOM_STEPS)
    config = check(dataclasses.replace(config, loop=loop, threads=threads[0]))
    circumstances = describe_circumstances()
    device = prepare_device(config)
    config = dataclasses.replace(config, device=str(device))
    environment = Environment(config.environment)
    task = environment.task
    environment.close()
    check_memory(config, task)
    results = {name: LibraryResult(library.uses) for name, library in libraries.items()}
    with ExitStack() as stack:
        started: list[tuple[str, int, LibraryProcess]] = []
        for name, library in libraries.items():
            for count in threads:
                with record_failure(results[name]):
                    check_installed(library, results[name])
                    worker = LibraryProcess(library, dataclasses.replace(config, threads=count))
                    stack.callback(worker.close)
                    worker.wait_until_ready()
                    started.append((name, count, worker))
        for turn in range(rounds.count):
            for name, count, worker in rotate(started, turn):
                with record_failure(results[name]):
                    speed = worker.train(rounds.seconds)
                    results[name].speeds.setdefault(count, []).append(speed)
            print(f"round {turn + 1} of {rounds.count} done", file=sys.stderr)
    settings = describe_settings(config, device, rounds) | {
        "environment": config.environment.id,
        "state_dim": task.state_dim,
        "action_dim": task.action_dim,
        "threads": list(threads),
        "update": config.loop.update,
    }
    return Comparison("peers", settings, speed_ups(results), circumstances, results)


def rotate(items: list[Item], turn: int) -> list[Item]:
    """Start with another item each turn, so that none is always first."""
    first = turn % max(len(items), 1)
    return items[first:] + items[:first]


def check_installed(library: Library, result: LibraryResult) -> None:
    if result.missing:
        raise LibraryFailed(result.missing)  # with another number of threads
    if find_spec(library.module) is None:
        raise LibraryFailed("not installed; pip install -r benchmarks/peers.txt")
    if not library.distribution:
        return
    try:
        result.version = version(library.distribution)
    except PackageNotFoundError:
        result.version = "unknown"


@contextmanager
def record_failure(result: LibraryResult) -> Iterator[None]:
    try:
        yield
    except LibraryFailed as failure:
        result.missing = str(failure)
        result.speeds = {}


def speed_ups(results: Mapping[str, LibraryResult]) -> dict[str, Figure]:
    """Return td3 ÷ library per round: at each number of threads, and with the best of each."""
    ours, found = results.get(OURS), {}
    if ours is None or ours.missing:
        return {}
    for name, theirs in results.items():
        if name == OURS or theirs.missing:
            continue
        pairs = {f"{count}_threads": (count, count) for count in theirs.speeds}
        pairs["better"] = (ours.best_threads, theirs.best_threads)
        for label, (mine, other) in pairs.items():
            both = zip(ours.speeds[mine], theirs.speeds[other], strict=True)
            found[f"{OURS}_over_{name}_{label}"] = Figure("", [us / them for us, them in both])
    return found


class LibraryProcess:
    """The process of one library, controlled through pipes."""

    def __init__(self, library: Library, config: Config) -> None:
        self.config = config
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - see close
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "benchmarks.td3_bench.peers.worker", library.adapter],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**environment_with_root(), **thread_variables(config)},
        )

    def wait_until_ready(self) -> None:
        self.ask(json.dumps(to_dict(self.config)), START_SECONDS)

    def train(self, seconds: float) -> float:
        """Train for about this long; return the steps per second."""
        answer = self.ask(str(seconds), seconds + EXTRA_SECONDS)
        return float(answer["steps"]) / float(answer["seconds"])

    def ask(self, line: str, seconds: float) -> dict[str, Any]:
        """Send a line and wait for the answer, with a timeout."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        late = threading.Event()

        def kill_process() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(seconds, kill_process)
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
            raise LibraryFailed(f"failed: no answer within {seconds:g} s")
        if not text:
            raise LibraryFailed(f"failed: {self.last_error()}")
        answer: dict[str, Any] = json.loads(text)
        if "error" in answer:
            raise LibraryFailed(f"failed: {answer['error']}")
        return answer

    def last_error(self) -> str:
        """Return the last line that the process wrote to stderr."""
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


def thread_variables(config: Config) -> dict[str, str]:
    """Return the variables that libraries read on import: threads, and the device of JAX."""
    threads, on_gpu = str(config.threads), config.device.startswith("cuda")
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return {
        **dict.fromkeys(names, threads),
        "NPROC": threads,  # size of the thread pool of XLA
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={str(config.threads > 1).lower()}",
        "JAX_PLATFORMS": "cuda" if on_gpu else "cpu",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # default: three quarters of the GPU
        **({} if on_gpu else {"CUDA_VISIBLE_DEVICES": ""}),
    }
