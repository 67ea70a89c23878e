"""Environments in workers: the numbers of one process, and no worker that is lost or left."""

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from support import worker_tasks
from support.orphans import end_with

from td3.config import Config, EnvironmentConfig, from_dict
from td3.environments import backend as arrangement
from td3.environments.backend import arranged, worker_count
from td3.environments.base import Arrays, Environments
from td3.environments.in_process import InProcess
from td3.environments.workers import processes
from td3.environments.workers import shared_memory as exchange
from td3.environments.workers.pool import Workers
from td3.errors import RunStopped, UserError
from td3.seeding import Stream, Streams, restore_stream, stream_state
from td3.training.collector import Collector

TASK = "support.worker_tasks:Counting-v0"
NEVER = 10**9


def streams(count: int, per_agent: int = 2) -> list[Stream]:
    """One stream per environment; environments of an agent share theirs."""
    agents = [Streams.from_seed(seed).env for seed in range(count)]
    return [agents[index // per_agent] for index in range(count)]


@contextmanager
def both(
    config: EnvironmentConfig, count: int = 5, workers: int = 2, remake_every: int = NEVER
) -> Iterator[tuple[InProcess, Workers]]:
    """The same environments, in process and in workers, with their own copies of the streams."""
    own = InProcess(config, streams(count), remake_every)
    others = Workers(config, streams(count), remake_every, workers)
    own.streams = [slot.stream for slot in own.slots]  # type: ignore[attr-defined]
    try:
        yield own, others
    finally:
        own.close()
        others.close()


def actions(time: int, environments: Environments) -> Any:
    shape = (len(environments.states), environments.task.action_dim)
    return np.random.default_rng(time).uniform(-1, 1, shape).astype(np.float32)


def walk(pair: tuple[Environments, ...], start: int, stop: int) -> int:
    """Take the same steps everywhere and find no difference; returns the episodes that ended."""
    ended = 0
    for now in range(start, stop):
        taken = actions(now, pair[0])
        one, other = (environments.step(taken, now) for environments in pair)
        assert one.real is other.real is None
        for mine, theirs in zip(one[:-1], other[:-1], strict=True):
            assert mine.dtype == theirs.dtype
            assert mine.tobytes() == theirs.tobytes(), now
        assert pair[0].states.tobytes() == pair[1].states.tobytes(), now
        ended += int((one.terminated | one.truncated).sum())
    assert states_of(pair[0]) == states_of(pair[1])
    return ended


def states_of(environments: Any) -> list[dict[str, Any]]:
    return [stream_state(stream) for stream in environments.streams]


def copied(arrays: Arrays) -> Arrays:
    return {key: array.copy() for key, array in arrays.items()}


@pytest.mark.parametrize(
    ("task", "steps", "remake_every", "ends"),
    [
        ("Pendulum-v1", 2000, 350, 50),
        ("HalfCheetah-v5", 3100, 1500, 15),
        ("InvertedPendulum-v5", 1000, 100, 200),
        (TASK, 600, 20, 420),
    ],
)
def test_workers_give_the_transitions_and_streams_of_one_process(
    task: str, steps: int, remake_every: int, ends: int
) -> None:
    with both(EnvironmentConfig(task), remake_every=remake_every) as pair:
        assert pair[0].states.tobytes() == pair[1].states.tobytes()
        assert walk(pair, 1, steps + 1) >= ends
        one, other = (environments.snapshot() for environments in pair)
        assert list(one) == list(other)
        for key, array in one.items():
            assert (array.dtype, array.shape) == (other[key].dtype, other[key].shape)
            assert array.tobytes() == other[key].tobytes()


@pytest.mark.parametrize("watching", [True, False])
def test_waiting_takes_nothing_but_time(watching: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors that do not order stores are told of every number by the channel."""
    monkeypatch.setattr(exchange, "ORDERED", watching)
    with both(EnvironmentConfig(TASK), remake_every=20) as pair:
        assert pair[1].board.ordered == watching
        walk(pair, 1, 200)
        time.sleep(0.05)  # long enough for the workers to lie down
        walk(pair, 200, 300)
        pair[1].send(actions(300, pair[0]), 300)
        time.sleep(0.05)
        with pytest.raises(RuntimeError, match="a step is under way"):
            pair[1].snapshot()
        assert pair[1].receive().rewards.tobytes() == (
            pair[0].step(actions(300, pair[0]), 300).rewards.tobytes()
        )
        restored = pair[1].restore(copied(pair[0].snapshot()))
        assert restored[0] == []


@pytest.mark.parametrize("to_workers", [True, False])
@pytest.mark.parametrize("task", ["Pendulum-v1", TASK])
def test_a_life_goes_on_in_another_arrangement(task: str, to_workers: bool) -> None:
    config = EnvironmentConfig(task)
    with both(config, remake_every=50) as first, both(config, 5, 3, remake_every=50) as second:
        walk(first, 1, 333)
        source, target = first[not to_workers], second[to_workers]
        for here, there in zip(source.streams, target.streams, strict=True):  # type: ignore[union-attr]
            restore_stream(there, stream_state(here))
        assert target.restore(copied(source.snapshot()))[0] == []
        assert target.states.tobytes() == source.states.tobytes()
        walk((source, target), 333, 700)


def test_who_does_not_repeat_itself_begins_anew_with_the_same_seeds() -> None:
    with both(EnvironmentConfig(TASK, {"trouble": "unrepeatable"})) as (own, workers):
        for now in range(1, 10):
            own.step(actions(now, own), now)
            workers.step(actions(now, own), now)
        lives = copied(own.snapshot())
        one, other = own.restore(lives), workers.restore(lives)
        assert one == other
        assert one[0] == [0, 1, 2, 3, 4]
        assert own.states[:, :2].tobytes() == workers.states[:, :2].tobytes()
        assert states_of(own) == states_of(workers)


@pytest.mark.parametrize("trouble", ["raise", "nan"])
def test_trouble_in_an_environment_is_told_in_the_same_words(trouble: str) -> None:
    marks = [int(stream.integers(2**31)) % worker_tasks.MARKS for stream in streams(5)]
    config = EnvironmentConfig(TASK, {"trouble": trouble, "only": marks[3]})
    said = []
    with both(config) as pair:
        walk(pair, 10, 12)
        for environments in pair:
            with pytest.raises(RunStopped) as caught:
                environments.step(actions(12, environments), 12)
            said.append(str(caught.value))
    assert said[0] == said[1]
    assert said[0].endswith("in environment 3 at step 12")


def test_a_killed_worker_is_named() -> None:
    with both(EnvironmentConfig(TASK), count=8, workers=4) as (own, workers):
        walk((own, workers), 1, 10)
        os.kill(workers.links[3].process.pid, signal.SIGKILL)
        with pytest.raises(RunStopped) as caught:
            workers.step(actions(10, own), 10)
        said = str(caught.value)
        assert said == "Environment worker 3 (environments 6-7) was killed by signal 9"
        with pytest.raises(RunStopped, match="worker 3"):
            workers.snapshot()


def test_a_worker_killed_while_it_sleeps_is_named() -> None:
    with both(EnvironmentConfig(TASK), count=3, workers=3) as (own, workers):
        time.sleep(0.05)
        os.kill(workers.links[1].process.pid, signal.SIGKILL)
        time.sleep(0.05)
        with pytest.raises(RunStopped, match=r"worker 1 \(environment 1\) was killed by signal 9"):
            workers.restore(copied(own.snapshot()))


def test_being_stopped_oneself_is_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.5, 600.0, 600.5, 601.5])
    monkeypatch.setattr(exchange, "time", SimpleNamespace(monotonic=lambda: next(times)))
    left = exchange.Patience(2.5)
    for _ in range(3):
        left.check()
    with pytest.raises(TimeoutError):
        left.check()


def test_who_rings_is_waited_for_and_who_is_silent_is_not() -> None:
    ours, theirs = (exchange.Channel(end) for end in socket.socketpair())

    def ring_and_answer() -> None:
        for _ in range(8):
            time.sleep(0.1)
            theirs.ring()
        theirs.send(b"done")

    helper = threading.Thread(target=ring_and_answer)
    helper.start()
    start = time.monotonic()
    assert ours.receive(patience=0.5) == b"done"
    assert time.monotonic() - start >= 0.8
    helper.join()
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        ours.receive(patience=0.2)
    assert 0.2 <= time.monotonic() - start < 2
    theirs.end.close()
    with pytest.raises(EOFError):
        ours.receive(patience=0.2)
    ours.end.close()


@pytest.mark.parametrize("ordered", [True, False])
def test_a_worker_that_hangs_is_named(ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "ORDERED", ordered)
    config = EnvironmentConfig(TASK, kwargs={"trouble": "stuck", "at": 3}, patience=0.3)
    workers = Workers(config, streams(4), NEVER, 4)
    try:
        for now in (1, 2):
            workers.step(actions(now, workers), now)
        start = time.monotonic()
        with pytest.raises(RunStopped) as caught:
            workers.step(actions(3, workers), 3)
        said = "Environment worker 0 (environment 0) has not answered for 0.3 s; if a step may"
        assert str(caught.value).startswith(said)
        assert 0.3 <= time.monotonic() - start < 3
        assert workers.links[0].process.wait(5) == -9
    finally:
        monkeypatch.setattr(processes, "CLOSE_SECONDS", 1.5)
        workers.close()
    assert [link.process.returncode for link in workers.links] == [-9] * 4
    assert time.monotonic() - start < 4  # three are given the same 1.5 seconds, not 1.5 each


def test_a_worker_that_exits_is_named() -> None:
    config = EnvironmentConfig(TASK, {"trouble": "exit", "at": 1})
    workers = Workers(config, streams(4), NEVER, 2)
    with pytest.raises(RunStopped) as caught:
        workers.step(actions(1, workers), 1)
    workers.close()
    assert str(caught.value) == "Environment worker 0 (environments 0-1) ended with exit code 3"


def test_nothing_is_left_of_closed_workers() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    workers = Workers(EnvironmentConfig(TASK), streams(3), NEVER, 3)
    processes = [link.process for link in workers.links]
    workers.close()
    del workers
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(os.listdir("/proc/self/fd")) == before


ORPHANS = """
import sys, numpy as np
from td3.config import EnvironmentConfig
from td3.seeding import Streams
from td3.environments.workers.pool import Workers
config = EnvironmentConfig("support.worker_tasks:Counting-v0", {"trouble": sys.argv[1], "at": 1})
workers = Workers(config, [Streams.from_seed(k).env for k in range(2)], 10, 2)
print(*[link.process.pid for link in workers.links], flush=True)
workers.step(np.zeros((2, 1), np.float32), 1)
input()
"""


@pytest.mark.parametrize("trouble", ["", "stuck"])
def test_workers_end_with_a_killed_parent(trouble: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, trouble],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])},
    )
    assert end_with(parent)


def test_a_task_registered_by_name_is_known_to_workers() -> None:
    gym.register("Elsewhere-v0", entry_point="support.worker_tasks:Counting", kwargs={"at": 9})
    with both(EnvironmentConfig("Elsewhere-v0"), count=2) as pair:
        walk(pair, 1, 20)


@pytest.mark.parametrize("task", ["dm_control/cheetah-run-v0", "AntBulletEnv-v0"])
def test_workers_register_what_an_extra_brings(task: str) -> None:
    pytest.importorskip("shimmy" if "dm_control" in task else "pybullet_envs_gymnasium")
    with both(EnvironmentConfig(task), count=2) as pair:
        walk(pair, 1, 30)


def test_a_task_that_only_this_process_has_stays_here() -> None:
    gym.register("Here-v0", entry_point=worker_tasks.Counting)
    config = EnvironmentConfig("Here-v0", count=4)
    with pytest.raises(UserError, match="Here-v0 was registered with an object that only this"):
        Workers(config, streams(2), NEVER, 2)
    gym.register("Odd-v0", entry_point="support.worker_tasks:Counting", kwargs={"at": np.int64(3)})
    with pytest.raises(UserError, match="Odd-v0 was registered with an object"):
        Workers(EnvironmentConfig("Odd-v0"), streams(2), NEVER, 2)
    assert arrangement.step_seconds(Config(config)) == 0


def config_of(**tables: Any) -> Config:
    tables.setdefault("environment", {})["id"] = "Pendulum-v1"
    return from_dict(tables)


@pytest.mark.parametrize(
    ("cores", "microseconds", "environments", "expected"),
    [
        (16, 70, 10, 10),
        (16, 70, 32, 11),  # 3 each, as 15 would have
        (9, 70, 10, 5),
        (16, 70, 1, 0),
        (16, 10, 2, 0),
        (2, 70, 10, 0),
        (1, 70, 10, 0),
        (16, 0, 10, 0),
        (3, 1000, 10, 2),
    ],
)
def test_auto_takes_the_workers_that_pay(
    cores: int,
    microseconds: float,
    environments: int,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrangement, "usable_cores", lambda: cores)
    monkeypatch.setattr(arrangement, "step_seconds", lambda config: microseconds * 1e-6)
    assert worker_count(config_of(seeds=environments), environments) == expected


def test_auto_leaves_a_short_run_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrangement, "usable_cores", lambda: 16)
    monkeypatch.setattr(arrangement, "step_seconds", lambda config: 70e-6)
    assert worker_count(config_of(loop={"steps": 5_000, "random_steps": 9}), 10) == 0
    assert worker_count(config_of(loop={"steps": 50_000}), 10) == 10
    assert worker_count(config_of(threads=12), 10) == 4


@pytest.mark.parametrize(
    ("device", "cores", "workers"),
    [("cuda", 16, 1), ("cuda:1", 2, 1), ("cuda", 1, 0), ("cpu", 16, 0)],
)
def test_beside_a_gpu_one_environment_has_a_worker(
    device: str, cores: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrangement, "usable_cores", lambda: cores)
    monkeypatch.setattr(arrangement, "step_seconds", lambda config: 70e-6)
    assert worker_count(config_of(device=device), 1) == workers
    monkeypatch.setattr(arrangement, "step_seconds", lambda config: 20e-6)
    assert worker_count(config_of(device=device), 1) == 0
    monkeypatch.setattr(arrangement, "usable_cores", lambda: min(cores, 2))
    assert worker_count(config_of(device=device), 10) == workers, "it steps ten beside our work"


def test_the_number_of_workers_can_be_asked_for() -> None:
    for environment, expected in [
        ({"workers": 3}, 3),
        ({"workers": 30}, 10),
        ({"vectorization": "workers", "workers": 4}, 4),
        ({"vectorization": "own"}, 0),
    ]:
        assert worker_count(config_of(environment=environment), 10) == expected


def test_a_step_is_timed() -> None:
    assert 1e-6 < arrangement.step_seconds(config_of()) < 1e-2


def test_an_arrangement_says_what_it_is() -> None:
    for environment, said in [
        ({"vectorization": "own"}, "2 environments in this process"),
        ({"vectorization": "workers", "workers": 1}, "2 environments in 1 worker process"),
        ({"vectorization": "workers", "workers": 2}, "2 environments in 2 worker processes"),
        ({"vectorization": "sync"}, "2 environments in Gymnasium's SyncVectorEnv"),
    ]:
        environments = arranged(config_of(environment=environment), streams(2))
        assert environments.arrangement == said
        collector = Collector(environments, 1)
        collector.step(np.zeros((2, 1), dtype=np.float32), 1)
        environments.close()
