"""Complete runs with environments in workers."""

import dataclasses
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from support.long import some
from support.orphans import is_running
from support.run_tools import StopAt, command, different, flags, tiny, train_in_pieces

from td3.config import Config
from td3.launch.session import open_training
from td3.run.folder import create

WORKERS = {"vectorization": "workers", "workers": 2}
VARIANTS: dict[str, dict[str, Any]] = {
    "three environments": {"environment": {"count": 3}},
    "function of a module, numbers from info": {
        "environment": {
            "id": "support.worker_tasks:make_counting",
            "info": ["is_success", "pull"],
            "count": 3,
        },
    },
    "cheetah, five agents": {
        "environment": {"id": "HalfCheetah-v5"},
        "seeds": 5,
        "loop": {"steps": 400},
    },
    "walker, whose used object resets differently": {
        "environment": {"id": "BipedalWalker-v3"},
        "seeds": 2,
    },
}


def with_backend(config: Config, vectorization: str) -> Config:
    workers = 2 if vectorization == "workers" else 0
    environment = dataclasses.replace(
        config.environment, vectorization=vectorization, workers=workers
    )
    return dataclasses.replace(config, environment=environment)


@pytest.mark.parametrize(
    "variant", some(VARIANTS, "three environments", "walker, whose used object resets differently")
)
def test_run_that_switches_backends_matches_a_run_in_one_process(
    variant: str, tmp_path: Path
) -> None:
    """Every file is the same, byte by byte."""
    config = tiny(**VARIANTS[variant])
    train_in_pieces(with_backend(config, "own"), tmp_path / "own", [])
    create(with_backend(config, "workers"), tmp_path / "turns")
    turns = {37: "workers", 163: "own", 330: "workers", config.loop.steps + 1: "auto"}
    for piece, (stop, vectorization) in enumerate(turns.items()):
        request = StopAt(stop)
        with open_training(
            with_backend(config, vectorization), tmp_path / "turns", None
        ) as training:
            training.on_step = request
            if piece:
                assert training.restore() == []
            training.loop(request)
    assert different(tmp_path / "own", tmp_path / "turns") == []


def start_training(folder: Path, **environment: Any) -> "subprocess.Popen[bytes]":
    """Start a long run in its own process group; return when it has saved a checkpoint."""
    config = tiny(
        environment=environment,
        loop={"steps": 500_000, "log_every": 20},
        evaluation={"every": 100_000},
    )
    process = subprocess.Popen(
        command("train", *flags(config), "--run", str(folder), "--quiet"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    limit = time.monotonic() + 60
    while not list((folder / "checkpoints").glob("[0-9]*")):
        assert time.monotonic() < limit
        assert process.poll() is None
        time.sleep(0.05)
    return process


def children(process: "subprocess.Popen[bytes]") -> list[int]:
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(word) for word in listed.split()]


@pytest.mark.parametrize("moment", [0.0, 0.31])
def test_killed_worker_stops_the_run_with_one_sentence(moment: float, tmp_path: Path) -> None:
    process = start_training(tmp_path / "run", count=4, **WORKERS)
    workers = children(process)
    assert len(workers) == 2
    time.sleep(moment)
    os.kill(workers[1], signal.SIGKILL)
    _, problem = process.communicate(timeout=30)
    message = problem.decode()
    assert process.returncode == 1
    assert message.startswith(
        "td3: Environment worker 1 (environments 2-3) was killed by signal 9. Saved up to step "
    )
    assert message.count("\n") == 1
    assert not Path(f"/proc/{workers[0]}").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_the_whole_group_saves_and_exits(number: int, tmp_path: Path) -> None:
    process = start_training(tmp_path / "run", count=2, **WORKERS)
    workers = children(process)
    os.killpg(process.pid, number)
    _, problem = process.communicate(timeout=60)
    assert process.returncode == 128 + number, problem.decode()
    assert b"Traceback" not in problem
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_killed_async_vector_worker_stops_the_run_with_one_sentence(tmp_path: Path) -> None:
    process = start_training(tmp_path / "run", count=2, vectorization="async")
    killed = max(children(process))
    os.kill(killed, signal.SIGKILL)
    _, problem = process.communicate(timeout=30)
    message = problem.decode()
    assert process.returncode == 1, message
    assert message.startswith(
        "td3: A worker process of the Pendulum-v1 vector ended: environment 1, killed "
        "by signal 9. Saved up to step "
    )
    assert message.count("\n") == 1, message


def test_async_vector_workers_end_with_a_killed_run_even_if_they_are_stopped(
    tmp_path: Path,
) -> None:
    process = start_training(tmp_path / "run", count=2, vectorization="async")
    workers = children(process)
    assert len(workers) == 2
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    with process:
        process.kill()
    limit = time.monotonic() + 5
    while any(is_running(worker) for worker in workers):
        assert time.monotonic() < limit
        time.sleep(0.05)
