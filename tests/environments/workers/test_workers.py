"""Environments in workers: the same numbers as in one process, and no lost or leftover worker."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from support import worker_tasks
from support.orphans import end_with

from td3.config import EnvironmentConfig
from td3.environments.backend import step_seconds
from td3.environments.base import Arrays, Environments
from td3.environments.environment import Environment
from td3.environments.in_process import InProcess
from td3.environments.workers import processes, shared_memory
from td3.environments.workers.pool import WorkerPool
from td3.errors import RunStopped, UserError
from td3.seeding import Stream, Streams, restore_stream, stream_state

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
    """Step both with the same actions and assert equal results; return how many episodes ended."""
    ended = 0
    for now in range(start, stop):
        chosen = actions(now, pair[0])
        one, other = (environments.step(chosen, now) for environments in pair)
        assert one.real is other.real is None
        assert one.infos == other.infos
        for mine, theirs in zip(one[:4], other[:4], strict=True):
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


def test_workers_report_the_infos_of_one_process() -> None:
    """Numbers always; the last info, as plain values, only while somebody asks for it."""
    config = EnvironmentConfig(TASK, info=("pull", "is_success"))
    with both(config) as pair:
        assert step_both(pair, 1, 9) == 5
        for environments in pair:
            environments.keep_info = True
        assert step_both(pair, 9, 30) == 15
        last = [environments.step(actions(30, pair[0]), 30) for environments in pair]
        assert all(steps.infos is None for steps in last)
        for now in range(31, 36):
            steps, other = (own.step(actions(now, pair[0]), now) for own in pair)
            assert steps.infos == other.infos
        assert steps.infos is not None
        assert sorted(steps.infos) == [0, 1, 2, 3, 4]
        assert set(steps.infos[0].numbers) == {"pull", "is_success"}
        assert steps.infos[0].final["lap"] == [7]


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


def test_new_worker_that_hangs_in_its_reset_is_named_in_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "START_SECONDS", 3.0)
    monkeypatch.setattr(processes, "CLOSE_SECONDS", 0.5)
    config = EnvironmentConfig(TASK, {"trouble": "stuck in reset"}, patience=0.3)
    task = Environment(config).task
    with pytest.raises(RunStopped, match=r"^Environment worker 0 .* has not answered for 3 s"):
        WorkerPool(config, streams(2), NEVER, 2, task)


def test_worker_that_is_stopped_while_it_starts_does_not_block_the_sender(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "START_SECONDS", 1.0)
    monkeypatch.setattr(processes, "CLOSE_SECONDS", 0.5)
    link = processes.start_process("td3.environments.workers.worker", "Worker 7", 0.3)
    os.kill(link.process.pid, signal.SIGSTOP)
    with pytest.raises(BlockingIOError):
        link.connection.send_bytes(bytes(10_000_000))
    processes.stop_all([link])
    assert link.process.returncode == -9


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


@pytest.mark.parametrize("trouble", ["", "stuck", "holds the interpreter", "stopped"])
def test_workers_end_when_their_parent_is_killed(trouble: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, trouble],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])},
    )
    assert end_with(parent, stopped=trouble == "stopped")


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
