"""Evaluations in other processes: the same numbers, and no leftover process."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from support import worker_tasks
from support.orphans import end_with

from td3.algorithm.agent import TD3
from td3.config import Config, from_dict
from td3.environments.environment import Environment
from td3.environments.factories import name_environment
from td3.environments.workers import processes
from td3.errors import RunStopped
from td3.policy.evaluation import episode_seeds
from td3.policy.from_agent import policy_tensors
from td3.training import background_evaluation as evaluations
from td3.training.background_evaluation import BackgroundEvaluation, make_evaluations
from td3.training.loop_evaluation import LoopEvaluation, play_policy

TASK = "support.worker_tasks:Counting-v0"


def config_of(task: str = "Pendulum-v1", seeds: int = 1, **tables: Any) -> Config:
    environment = {"id": task, **tables.pop("environment", {})}
    return from_dict({"environment": environment, "seeds": seeds, "device": "cpu", **tables})


def agents(config: Config, **changes: Any) -> TD3:
    environment = Environment(config.environment)
    environment.close()
    dims = environment.task.state_dim, environment.task.action_dim
    return TD3(*dims, **{"hidden_sizes": (24, 16), "seed": config.agent_seeds, **changes})


@contextmanager
def background(config: Config, agent: TD3, processes: int = 2) -> Iterator[BackgroundEvaluation]:
    task = Environment(config.environment).task
    made = BackgroundEvaluation(agent, config, task, processes)
    try:
        yield made
    finally:
        made.close()


def test_background_evaluation_of_a_class_reports_success() -> None:
    """The other process imports the class by its name."""
    config = config_of("support.worker_tasks:Counting", evaluation={"episodes": 3})
    agent = agents(config)
    with background(config, agent, 1) as evaluations:
        evaluations.begin(0, [0])
        (result,) = evaluations.results()
        expected = play_policy(evaluations.card, policy_tensors(agent)[0], episode_seeds(0, 3), 99)
    assert expected.successes is not None
    assert result.found.successes is not None
    assert result.found.successes.tolist() == expected.successes.tolist()


def test_evaluations_of_a_local_function_stay_in_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluations, "in_background", lambda device: True)
    name, _ = name_environment(lambda: worker_tasks.Counting())
    config = config_of(name)
    agent, task = agents(config), Environment(config.environment).task
    assert not make_evaluations(agent, config, task, 0).background


@pytest.mark.parametrize(
    ("task", "normalize", "max_steps"),
    [("Pendulum-v1", False, 10_000), ("HalfCheetah-v5", True, 150), ("BipedalWalker-v3", True, 90)],
)
def test_background_evaluation_equals_evaluation_in_this_process(
    task: str, normalize: bool, max_steps: int
) -> None:
    config = config_of(task, 3, evaluation={"episodes": 2, "max_steps": max_steps})
    agent = agents(config, normalize_observations=normalize)
    if agent.normalizer:
        for _ in range(20):
            states = np.random.default_rng(3).standard_normal((3, agent.state_dim))
            agent.normalizer.observe(np.arange(3), states.astype(np.float32))
    with background(config, agent) as evaluations:
        evaluations.begin(7, [0, 1, 2])
        expected = [
            play_policy(evaluations.card, policy, episode_seeds(k, 2), max_steps)
            for k, policy in enumerate(policy_tensors(agent))
        ]
        before = policy_tensors(agent)
        with torch.no_grad():  # training goes on
            agent.actor.flat.normal_()
        results = evaluations.results()
        assert evaluations.results() == []
    assert [(result.step, result.agent) for result in results] == [(7, 0), (7, 1), (7, 2)]
    for result, alone, policy in zip(results, expected, before, strict=True):
        assert result.found.returns.dtype == alone.returns.dtype
        assert result.found.returns.tobytes() == alone.returns.tobytes()
        assert result.found.lengths.tobytes() == alone.lengths.tobytes()
        assert result.policy.keys() == policy.keys()
        assert all(torch.equal(result.policy[name], policy[name]) for name in policy)
    assert len({float(result.found.returns.mean()) for result in results}) == 3


@pytest.mark.parametrize("kind", ["loop", "background"])
def test_evaluation_of_some_agents_leaves_out_the_others(kind: str) -> None:
    config = config_of(TASK, 4, evaluation={"episodes": 3})
    agent = agents(config)
    with background(config, agent) as other:
        evaluations = (
            other if kind == "background" else LoopEvaluation(agent, config, task_of(config))
        )
        evaluations.begin(5, [1, 3])
        assert {key.partition(".")[0] for key in evaluations.tensors()} == {"1", "3"}
        assert [result.agent for result in evaluations.results()] == [1, 3]
        assert evaluations.tensors() == {}
        assert evaluations.step is None


def task_of(config: Config) -> Any:
    return Environment(config.environment).task


def test_restored_evaluation_starts_again_in_loop_or_background() -> None:
    """The saved policies are evaluated, although the agents have learned since."""
    config = config_of(seeds=12, evaluation={"episodes": 1})
    agent = agents(config)
    found = []
    with background(config, agent) as first, background(config, agent) as second:
        first.begin(5, range(12))
        saved = first.tensors()
        found.append(first.results())
        with torch.no_grad():
            agent.actor.flat.zero_()
        for other in (second, LoopEvaluation(agent, config, task_of(config))):
            other.restore(5, dict(sorted(saved.items())))
            assert other.step == 5
            assert other.tensors().keys() == saved.keys()
            found.append(other.results())
    recorded = [[(r.step, r.agent, r.found.returns.tolist()) for r in results] for results in found]
    assert recorded[0] == recorded[1] == recorded[2]
    assert [agent for _, agent, _ in recorded[0]] == list(range(12))


def test_background_evaluation_of_more_agents_than_processes_works() -> None:
    config = config_of(TASK, 7, evaluation={"episodes": 2})
    with background(config, agents(config), processes=2) as evaluations:
        for step in (0, 10, 20):
            evaluations.begin(step, range(7))
            assert [result.step for result in evaluations.results()] == [step] * 7
        assert len(evaluations.links) == 2
        pids = [link.process.pid for link in evaluations.links]
        assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids] == [19, 19]


@pytest.mark.parametrize("stuck", [False, True])
def test_killed_evaluator_is_named(stuck: bool) -> None:
    kwargs = {"trouble": "stuck", "at": 1} if stuck else {}
    config = config_of(TASK, 3, environment={"kwargs": kwargs}, evaluation={"episodes": 1})
    with background(config, agents(config), processes=1) as evaluations:
        evaluations.begin(0, [0, 1, 2])
        if not stuck:
            evaluations.results()
        os.kill(evaluations.links[0].process.pid, signal.SIGKILL)
        if not stuck:
            evaluations.begin(10, [0, 1, 2])
        with pytest.raises(RunStopped) as caught:
            evaluations.results()
    assert str(caught.value) == "Evaluator 0 was killed by signal 9"


@pytest.mark.parametrize("trouble", ["raise", "nan", "exit"])
def test_error_in_an_episode_is_reported(trouble: str) -> None:
    kwargs = {"trouble": trouble, "at": 9}
    config = config_of(TASK, 2, environment={"kwargs": kwargs}, evaluation={"episodes": 2})
    agent = agents(config)
    with background(config, agent) as evaluations:
        evaluations.begin(0, [0, 1])
        with pytest.raises(RunStopped) as caught:
            evaluations.results()
    message = str(caught.value)
    if trouble == "exit":
        assert message in [f"Evaluator {number} ended with exit code 3" for number in (0, 1)]
    else:
        with pytest.raises(RunStopped) as here:
            play_policy(evaluations.card, policy_tensors(agent)[0], [1, 2], max_steps=100)
        assert message == str(here.value)
        assert "Traceback" in str(caught.value.__cause__)


def test_closed_evaluators_leave_no_process() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    config = config_of(TASK, 2, environment={"kwargs": {"trouble": "stuck"}})
    with background(config, agents(config)) as evaluations:
        evaluations.begin(0, [0, 1])
        processes = [link.process for link in evaluations.links]
        start = time.monotonic()
    assert time.monotonic() - start < 4  # does not wait for the episodes
    assert [process.returncode for process in processes] == [-9, -9]
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("wide", [False, True])
def test_evaluator_that_is_stopped_while_it_starts_is_named(
    wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wide policy does not even fit into the buffer of the connection."""
    monkeypatch.setattr(processes, "START_SECONDS", 1.0)
    config = config_of(TASK, environment={"patience": 0.5}, evaluation={"episodes": 1})
    agent = agents(config, hidden_sizes=(600, 600)) if wide else agents(config)
    with background(config, agent, 1) as evaluations:
        evaluations.start()
        os.kill(evaluations.links[0].process.pid, signal.SIGSTOP)
        evaluations.begin(0, [0])
        with pytest.raises(RunStopped, match=r"^Evaluator 0 has not answered for 1 s"):
            evaluations.results()


def test_background_evaluation_unused_starts_no_process() -> None:
    config = config_of(TASK)
    with background(config, agents(config)) as evaluations:
        assert evaluations.links == []


ORPHANS = """
import sys
sys.path[:0] = sys.argv[1:]
from test_background_evaluation import TASK, agents, background, config_of
import time
config = config_of(TASK, 2, environment={"kwargs": {"trouble": "stuck"}})
with background(config, agents(config)) as evaluations:
    evaluations.begin(0, [0, 1])
    print(*[link.process.pid for link in evaluations.links], flush=True)
    time.sleep(60)
"""


def test_evaluators_end_with_a_killed_parent() -> None:
    here = Path(__file__).parent
    folders = [str(here), str(here.parent)]
    parent = subprocess.Popen([sys.executable, "-c", ORPHANS, *folders], stdout=subprocess.PIPE)
    assert end_with(parent)


def test_make_evaluations_uses_background_only_on_gpu() -> None:
    assert evaluations.in_background(torch.device("cuda", 0))
    assert not evaluations.in_background(torch.device("cpu"))
    config = config_of(TASK)
    assert not make_evaluations(agents(config), config, task_of(config), workers=0).background


@pytest.mark.parametrize(
    ("cores", "workers", "seeds", "expected"),
    [
        (16, 10, 10, 5),
        (16, 0, 10, 10),
        (16, 15, 10, 1),
        (2, 0, 10, 1),
        (1, 0, 10, 1),
        (16, 0, 1, 1),
    ],
)
def test_make_evaluations_uses_free_cores(
    cores: int, workers: int, seeds: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluations, "usable_cores", lambda: cores)
    monkeypatch.setattr(evaluations, "in_background", lambda device: True)
    config = config_of(TASK, seeds)
    made = make_evaluations(agents(config), config, task_of(config), workers)
    assert isinstance(made, BackgroundEvaluation)
    assert made.processes == expected
    made.close()


def test_make_evaluations_of_local_task_uses_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluations, "in_background", lambda device: True)
    gym.register("OnlyHere-v0", entry_point=worker_tasks.Counting)
    config = config_of("OnlyHere-v0")
    assert not make_evaluations(agents(config), config, task_of(config), workers=0).background
