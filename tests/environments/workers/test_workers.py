"""Environments in workers: the same numbers as in one process, and no lost or leftover worker."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from support import worker_tasks
from support.orphans import end_with

from td3.config import Config, EnvironmentConfig, from_dict
from td3.environments import backend
from td3.environments.backend import make_environments, step_seconds, worker_count
from td3.environments.base import Arrays, Environments
from td3.environments.environment import Environment
from td3.environments.in_process import InProcess
from td3.environments.workers import messages, processes, shared_memory
from td3.environments.workers.pool import WorkerPool
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
) -> Iterator[tuple[InProcess, WorkerPool]]:
    """The same environments in this process and in workers, each with its own streams."""
    own = InProcess(config, streams(count), remake_every)
    others = WorkerPool(config, streams(count), remake_every, workers)
    own.streams = [one.stream for one in own.replayable]  # type: ignore[attr-defined]
    try:
        yield own, others
    finally:
        own.close()
        others.close()


def actions(time: int, environments: Environments) -> Any:
    shape = (len(environments.states), environments.task.action_dim)
    return np.random.default_rng(time).uniform(-1, 1, shape).astype(np.float32)


def step_both(pair: tuple[Environments, ...], start: int, stop: int) -> int:
    """Step both alike and assert equal results; return how many episodes ended."""
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


def copy_arrays(arrays: Arrays) -> Arrays:
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
def test_workers_match_one_process_in_transitions_and_streams(
    task: str, steps: int, remake_every: int, ends: int
) -> None:
    with both(EnvironmentConfig(task), remake_every=remake_every) as pair:
        assert pair[0].states.tobytes() == pair[1].states.tobytes()
        assert step_both(pair, 1, steps + 1) >= ends
        one, other = (environments.snapshot() for environments in pair)
        assert list(one) == list(other)
        for key, array in one.items():
            assert (array.dtype, array.shape) == (other[key].dtype, other[key].shape)
            assert array.tobytes() == other[key].tobytes()


@pytest.mark.parametrize("ordered", [True, False])
def test_workers_that_slept_still_match_one_process(
    ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ordered stores, every counter comes with a wake-up over the connection."""
    monkeypatch.setattr(shared_memory, "ORDERED_STORES", ordered)
    with both(EnvironmentConfig(TASK), remake_every=20) as pair:
        assert pair[1].block.ordered == ordered
        step_both(pair, 1, 200)
        time.sleep(0.05)  # long enough for the workers to sleep
        step_both(pair, 200, 300)
        pair[1].send(actions(300, pair[0]), 300)
        time.sleep(0.05)
        with pytest.raises(RuntimeError, match="a step has been sent"):
            pair[1].snapshot()
        assert pair[1].receive().rewards.tobytes() == (
            pair[0].step(actions(300, pair[0]), 300).rewards.tobytes()
        )
        restored = pair[1].restore(copy_arrays(pair[0].snapshot()))
        assert restored[0] == []


@pytest.mark.parametrize("to_workers", [True, False])
@pytest.mark.parametrize("task", ["Pendulum-v1", TASK])
def test_snapshot_continues_in_the_other_backend(task: str, to_workers: bool) -> None:
    config = EnvironmentConfig(task)
    with both(config, remake_every=50) as first, both(config, 5, 3, remake_every=50) as second:
        step_both(first, 1, 333)
        source, target = first[not to_workers], second[to_workers]
        for here, there in zip(source.streams, target.streams, strict=True):  # type: ignore[union-attr]
            restore_stream(there, stream_state(here))
        assert target.restore(copy_arrays(source.snapshot()))[0] == []
        assert target.states.tobytes() == source.states.tobytes()
        step_both((source, target), 333, 700)


def test_restore_of_a_nondeterministic_task_restarts_with_the_same_seeds() -> None:
    with both(EnvironmentConfig(TASK, {"trouble": "unrepeatable"})) as (own, workers):
        for now in range(1, 10):
            own.step(actions(now, own), now)
            workers.step(actions(now, own), now)
        saved = copy_arrays(own.snapshot())
        one, other = own.restore(saved), workers.restore(saved)
        assert one == other
        assert one[0] == [0, 1, 2, 3, 4]
        assert own.states[:, :2].tobytes() == workers.states[:, :2].tobytes()
        assert states_of(own) == states_of(workers)


@pytest.mark.parametrize("trouble", ["raise", "nan"])
def test_fault_in_a_worker_gives_the_message_of_one_process(trouble: str) -> None:
    marks = [int(stream.integers(2**31)) % worker_tasks.MARKS for stream in streams(5)]
    config = EnvironmentConfig(TASK, {"trouble": trouble, "only": marks[3]})
    errors = []
    with both(config) as pair:
        step_both(pair, 10, 12)
        for environments in pair:
            with pytest.raises(RunStopped) as caught:
                environments.step(actions(12, environments), 12)
            errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert errors[0].endswith("in environment 3 at step 12")


def test_killed_worker_is_named_in_the_error() -> None:
    with both(EnvironmentConfig(TASK), count=8, workers=4) as (own, workers):
        step_both((own, workers), 1, 10)
        os.kill(workers.links[3].process.pid, signal.SIGKILL)
        with pytest.raises(RunStopped) as caught:
            workers.step(actions(10, own), 10)
        expected = "Environment worker 3 (environments 6-7) was killed by signal 9"
        assert str(caught.value) == expected
        with pytest.raises(RunStopped, match="worker 3"):
            workers.snapshot()


def test_worker_killed_while_it_sleeps_is_named_in_the_error() -> None:
    with both(EnvironmentConfig(TASK), count=3, workers=3) as (own, workers):
        time.sleep(0.05)
        os.kill(workers.links[1].process.pid, signal.SIGKILL)
        time.sleep(0.05)
        with pytest.raises(RunStopped, match=r"worker 1 \(environment 1\) was killed by signal 9"):
            workers.restore(copy_arrays(own.snapshot()))


def test_countdown_does_not_count_time_while_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.5, 600.0, 600.5, 601.5])
    monkeypatch.setattr(messages, "time", SimpleNamespace(monotonic=lambda: next(times)))
    countdown = messages.Countdown(2.5)
    for _ in range(3):
        countdown.check()
    with pytest.raises(TimeoutError):
        countdown.check()


def test_receive_waits_while_wake_ups_come_and_times_out_without() -> None:
    ours, theirs = Pipe()

    def wake_and_answer() -> None:
        for _ in range(8):
            time.sleep(0.1)
            messages.wake(theirs)
        theirs.send_bytes(b"done")

    sender = threading.Thread(target=wake_and_answer)
    sender.start()
    start = time.monotonic()
    assert messages.receive(ours, timeout=0.5) == b"done"
    assert time.monotonic() - start >= 0.8
    sender.join()
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        messages.receive(ours, timeout=0.2)
    assert 0.2 <= time.monotonic() - start < 2
    theirs.close()
    with pytest.raises(EOFError):
        messages.receive(ours, timeout=0.2)
    ours.close()


def test_read_of_a_message_that_was_cut_off_raises_eof() -> None:
    """A worker may be killed while it sends."""
    ours, theirs = Pipe()
    os.write(theirs.fileno(), b"\0\0\0\x09part")
    theirs.close()
    with pytest.raises(EOFError):
        messages.read(ours)
    ours.close()


def test_sleep_discards_old_wake_ups_and_keeps_the_answer() -> None:
    """A wake-up that came too late must not be taken for a report, nor an answer be lost."""
    memory = shared_memory.create_shared_file()
    learner, worker = (shared_memory.SharedBlock(memory, 1, 1, 1, 1, True) for _ in range(2))
    os.close(memory)
    ours, theirs = Pipe()
    messages.wake(theirs)
    learner.send_command(shared_memory.Command.SNAPSHOT, 5, [ours])
    assert worker.wait_for_command(0, theirs) == (shared_memory.Command.SNAPSHOT, 5)

    def report_and_answer() -> None:
        time.sleep(0.1)
        worker.report(0, theirs, failed=True)
        theirs.send_bytes(b"answer")

    sender = threading.Thread(target=report_and_answer)
    sender.start()
    start = time.monotonic()
    assert learner.wait_for_worker(0, ours)
    assert time.monotonic() - start >= 0.1
    sender.join()
    assert messages.receive(ours) == b"answer"
    ours.close()
    theirs.close()


@pytest.mark.parametrize("ordered", [True, False])
def test_worker_that_hangs_is_named_in_the_error(
    ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory, "ORDERED_STORES", ordered)
    config = EnvironmentConfig(TASK, kwargs={"trouble": "stuck", "at": 3}, patience=0.3)
    workers = WorkerPool(config, streams(4), NEVER, 4)
    try:
        for now in (1, 2):
            workers.step(actions(now, workers), now)
        start = time.monotonic()
        with pytest.raises(RunStopped) as caught:
            workers.step(actions(3, workers), 3)
        expected = "Environment worker 0 (environment 0) has not answered for 0.3 s; if a step may"
        assert str(caught.value).startswith(expected)
        assert 0.3 <= time.monotonic() - start < 3
        assert workers.links[0].process.wait(5) == -9
    finally:
        monkeypatch.setattr(processes, "CLOSE_SECONDS", 1.5)
        workers.close()
    assert [link.process.returncode for link in workers.links] == [-9] * 4
    assert time.monotonic() - start < 4  # 1.5 seconds for all of them, not each


def test_worker_that_exits_is_named_in_the_error() -> None:
    config = EnvironmentConfig(TASK, {"trouble": "exit", "at": 1})
    workers = WorkerPool(config, streams(4), NEVER, 2)
    with pytest.raises(RunStopped) as caught:
        workers.step(actions(1, workers), 1)
    workers.close()
    assert str(caught.value) == "Environment worker 0 (environments 0-1) ended with exit code 3"


def test_close_leaves_no_process_and_no_descriptor() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    workers = WorkerPool(EnvironmentConfig(TASK), streams(3), NEVER, 3)
    processes = [link.process for link in workers.links]
    workers.close()
    del workers
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(os.listdir("/proc/self/fd")) == before


ORPHANS = """
import sys, numpy as np
from td3.config import EnvironmentConfig
from td3.seeding import Streams
from td3.environments.workers.pool import WorkerPool
config = EnvironmentConfig("support.worker_tasks:Counting-v0", {"trouble": sys.argv[1], "at": 1})
workers = WorkerPool(config, [Streams.from_seed(k).env for k in range(2)], 10, 2)
print(*[link.process.pid for link in workers.links], flush=True)
workers.step(np.zeros((2, 1), np.float32), 1)
input()
"""


@pytest.mark.parametrize("trouble", ["", "stuck"])
def test_workers_end_when_their_parent_is_killed(trouble: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, trouble],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])},
    )
    assert end_with(parent)


def test_workers_know_a_task_registered_by_entry_point_name() -> None:
    gym.register("Elsewhere-v0", entry_point="support.worker_tasks:Counting", kwargs={"at": 9})
    with both(EnvironmentConfig("Elsewhere-v0"), count=2) as pair:
        step_both(pair, 1, 20)


@pytest.mark.parametrize("task", ["dm_control/cheetah-run-v0", "AntBulletEnv-v0"])
def test_workers_register_the_tasks_of_an_extra(task: str) -> None:
    pytest.importorskip("shimmy" if "dm_control" in task else "pybullet_envs_gymnasium")
    with both(EnvironmentConfig(task), count=2) as pair:
        step_both(pair, 1, 30)


def test_workers_refuse_a_task_that_only_this_process_has() -> None:
    gym.register("Here-v0", entry_point=worker_tasks.Counting)
    config = EnvironmentConfig("Here-v0", count=4)
    with pytest.raises(UserError, match="Here-v0 was registered with an object that only this"):
        WorkerPool(config, streams(2), NEVER, 2)
    gym.register("Odd-v0", entry_point="support.worker_tasks:Counting", kwargs={"at": np.int64(3)})
    with pytest.raises(UserError, match="Odd-v0 was registered with an object"):
        WorkerPool(EnvironmentConfig("Odd-v0"), streams(2), NEVER, 2)
    with closing(Environment(config)) as environment:
        assert step_seconds(environment) == 0
        assert environment.is_fresh


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
def test_auto_starts_workers_if_they_save_time(
    cores: int,
    microseconds: float,
    environments: int,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend, "usable_cores", lambda: cores)
    assert (
        worker_count(config_of(seeds=environments), environments, lambda: microseconds * 1e-6)
        == expected
    )


def test_auto_keeps_a_short_run_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "usable_cores", lambda: 16)
    short = config_of(loop={"steps": 5_000, "random_steps": 9})
    assert worker_count(short, 10, lambda: 70e-6) == 0
    assert worker_count(config_of(loop={"steps": 50_000}), 10, lambda: 70e-6) == 10
    assert worker_count(config_of(threads=12), 10, lambda: 70e-6) == 4


@pytest.mark.parametrize(
    ("device", "cores", "workers"),
    [("cuda", 16, 1), ("cuda:1", 2, 1), ("cuda", 1, 0), ("cpu", 16, 0)],
)
def test_auto_with_a_gpu_starts_a_worker_for_one_environment(
    device: str, cores: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "usable_cores", lambda: cores)
    assert worker_count(config_of(device=device), 1, lambda: 70e-6) == workers
    assert worker_count(config_of(device=device), 1, lambda: 20e-6) == 0
    monkeypatch.setattr(backend, "usable_cores", lambda: min(cores, 2))
    found = worker_count(config_of(device=device), 10, lambda: 20e-6)
    assert found == workers, "one worker steps ten environments while this process works"


def test_worker_count_follows_explicit_settings() -> None:
    for environment, expected in [
        ({"workers": 3}, 3),
        ({"workers": 30}, 10),
        ({"vectorization": "workers", "workers": 4}, 4),
        ({"vectorization": "own"}, 0),
    ]:
        assert worker_count(config_of(environment=environment), 10, lambda: 1.0) == expected


def test_step_seconds_measures_a_step() -> None:
    with closing(Environment(EnvironmentConfig("Pendulum-v1"))) as environment:
        assert 1e-6 < step_seconds(environment) < 1e-2
        assert not environment.is_fresh


BACKENDS = [
    ({"vectorization": "own"}, "2 environments in this process"),
    ({"vectorization": "workers", "workers": 1}, "2 environments in 1 worker process"),
    ({"vectorization": "workers", "workers": 2}, "2 environments in 2 worker processes"),
    ({"vectorization": "sync"}, "2 environments in Gymnasium's SyncVectorEnv"),
]


@pytest.mark.parametrize(("environment", "description"), BACKENDS)
def test_environments_describe_where_they_run(
    environment: dict[str, Any], description: str
) -> None:
    environments = make_environments(config_of(environment=dict(environment)), streams(2))
    assert environments.description == description
    collector = Collector(environments, 1, [], 0.0)
    collector.step(np.zeros((2, 1), dtype=np.float32), 1)
    environments.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Environment]:
    """The environments that are made in this process."""
    found: list[Environment] = []
    original = Environment.__init__

    def note(self: Environment, *arguments: Any) -> None:
        original(self, *arguments)
        found.append(self)

    monkeypatch.setattr(Environment, "__init__", note)
    return found


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(("vectorization", "here"), [("own", 2), ("workers", 1)])
def test_make_environments_makes_no_environment_only_to_read_its_task(
    vectorization: str, here: int, given: bool, made: list[Environment]
) -> None:
    config = config_of(environment={"vectorization": vectorization, "workers": 0})
    first = Environment(config.environment) if given else None
    environments = make_environments(config, streams(2), first)
    assert len(made) == here
    environments.close()
    with closing(InProcess(config.environment, streams(2), NEVER)) as expected:
        assert environments.states.tobytes() == expected.states.tobytes()


@pytest.mark.parametrize(("seconds", "here"), [(1.0, 1), (0.0, 3)])
def test_make_environments_never_trains_with_the_environment_that_it_timed(
    seconds: float, here: int, made: list[Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some simulators replay exactly only from a fresh object."""

    def pretend(environment: Environment) -> float:
        step_seconds(environment)
        return seconds

    monkeypatch.setattr(backend, "usable_cores", lambda: 8)
    monkeypatch.setattr(backend, "step_seconds", pretend)
    environments = make_environments(config_of(), streams(2))
    assert len(made) == here
    assert environments.description.endswith("processes" if seconds else "this process")
    if isinstance(environments, InProcess):
        assert made[0] not in [one.environment for one in environments.replayable]
    environments.close()
