"""Tracing, the CPU plan and its kernels, and the choice of the number of threads."""

import copy
import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.api.train import train
from td3.config import from_dict
from td3.execution import CpuLearner, threads
from td3.execution.cpu.compiler import Plan
from td3.execution.cpu.kernels import Pool, calls_for
from td3.execution.cpu.learner import CpuActing
from td3.execution.trace import agent_tensors, trace, update_inputs
from td3.launch.resume import resume
from td3.launch.session import open_training
from td3.run.folder import create

SETTINGS = {"discount": 0.99, "tau": 0.005, "policy_noise": 0.2, "noise_clip": 0.5}


def make_agent(agents: int = 1) -> TD3:
    return TD3(3, 2, hidden_sizes=(16, 12), seed=range(agents))


def make_inputs(agents: int = 1, batch: int = 8) -> tuple[Batch, Tensor]:
    generator = torch.Generator().manual_seed(agents + batch)
    rows = torch.randn(agents, batch, 10, generator=generator)
    noise = torch.randn(agents, batch, 2, generator=generator)
    return Batch(*rows.split((3, 3, 2, 1, 1), dim=-1)), noise


def clone_state(agent: TD3) -> list[Tensor]:
    return [tensor.clone() for tensor in agent.tensors().values()]


def all_equal(mine: list[Tensor], theirs: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("delayed", [True, False])
def test_trace_matches_update_exactly_and_leaves_agent_unchanged(delayed: bool) -> None:
    agent, (batch, noise) = make_agent(2), make_inputs(2)
    agent.updates += 0 if delayed else 1
    before = clone_state(agent)
    graph = trace(agent, batch, noise, SETTINGS, delayed)
    assert all_equal(clone_state(agent), before)
    traced = copy.deepcopy(agent)
    seen = graph.graph(update_inputs(traced, batch, noise, SETTINGS).flat())
    expected = [number for number in agent.update(batch, noise)[:3] if number is not None]
    assert all_equal(seen, expected)
    assert all_equal(tree_leaves(agent_tensors(traced)), tree_leaves(agent_tensors(agent)))


def test_trace_with_prepare_uses_the_prepared_networks() -> None:
    agent, (batch, noise) = make_agent(), make_inputs()
    prepared = []

    def prepare(copied: TD3) -> None:
        for network in (copied.actor, copied.critic, copied.actor_target, copied.critic_target):
            prepared.append(network)
            network.__dict__["compute"] = lambda x, flat, own=network: (
                own.layers(flat)[-1][1] * (x.sum(dim=-1, keepdim=True))
            )

    graph = trace(agent, batch, noise, SETTINGS, True, prepare)
    assert len(prepared) == 4
    assert "baddbmm" not in str(graph.graph.graph)
    assert not any("compute" in network.__dict__ for network in (agent.actor, agent.critic))


@pytest.mark.parametrize("networks", [1, 3])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(40, 7, 1), (40, 7, 6), (40, 1, 7), (1, 7, 6), (40, 7, 40)]
)
@pytest.mark.parametrize("bias", [False, True])
def test_calls_for_matrix_products_of_any_shape_match_matmul(
    networks: int, rows: int, inner: int, columns: int, bias: bool
) -> None:
    left, right = torch.randn(networks, rows, inner), torch.randn(networks, inner, columns)
    added = [torch.randn(networks, 1, columns)] if bias else []
    target = torch.ops.aten.baddbmm.default if bias else torch.ops.aten.bmm.default
    out = torch.full((networks, rows, columns), torch.nan)
    for call in calls_for(target, [*added, left, right], {}, out, Pool()):
        call()
    torch.testing.assert_close(out, left @ right + sum(added))


def make_plan(function: object, *inputs: Tensor) -> Plan:
    graph = make_fx(function)(*(tensor.clone() for tensor in inputs))
    return Plan(graph.graph, inputs, Pool())


def test_plan_called_repeatedly_matches_traced_function() -> None:
    def function(x: Tensor, total: Tensor) -> list[Tensor]:
        filled = torch.zeros_like(x)
        filled += x  # so it is not a constant
        hidden = torch.relu(x @ x.T)
        shifted = hidden.T + torch.ones_like(hidden)
        total += shifted.sum()
        return [shifted * hidden, filled, hidden.max().exp(), torch.full_like(x, 3.0)]

    x, total = torch.randn(4, 4), torch.zeros(())
    plan, own = make_plan(function, x, total), torch.zeros(())
    for _ in range(3):
        for mine, right in zip(plan(), function(x, own), strict=True):
            torch.testing.assert_close(mine, right)
        x += 1
    torch.testing.assert_close(total, own)


def test_plan_keeps_memory_of_values_with_later_uses() -> None:
    def function(x: Tensor) -> list[Tensor]:
        a = x * 2
        rows = a.unsqueeze(0)  # a view keeps its memory alive
        b = a + 1
        c = b * b.T
        return [rows.exp() + c, b.T - c]

    x = torch.randn(3, 3)
    for mine, right in zip(make_plan(function, x)(), function(x), strict=True):
        torch.testing.assert_close(mine, right)


@pytest.mark.parametrize(
    ("cores", "counts"), [(1, []), (2, [2]), (4, [2, 4]), (6, [2, 4, 6]), (16, [2, 4, 8, 16])]
)
def test_counts_up_to_tries_powers_of_two_and_all_cores(cores: int, counts: list[int]) -> None:
    assert threads.counts_up_to(cores) == counts


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [({1: 4.0, 2: 2.0, 4: 1.9, 8: 0.1}, 2), ({1: 4.0, 2: 3.9}, 1), ({1: 4.0, 2: 2.0, 4: 1.0}, 4)],
)
def test_fastest_threads_takes_more_threads_only_if_clearly_faster(
    seconds: dict[int, float], chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "usable_cores", lambda: max(seconds))

    def fake_seconds(work: Callable[[], None], threads: int) -> float:
        work()
        return seconds[threads]

    monkeypatch.setattr(threads, "seconds_of", fake_seconds)
    choose = partial(threads.fastest_threads, 17, 6, agents=1)
    assert choose(hidden_sizes=(256, 256), batch_size=256) == chosen
    assert choose(hidden_sizes=(32, 32), batch_size=64) == 1
    images = {"stack": 2, "of": {"image": [16, 16]}}
    assert threads.fastest_threads_for_images(images, (4,), 8, 16, agents=2) == chosen
    assert torch.get_num_threads() == before


def test_seconds_of_uses_the_given_number_of_threads() -> None:
    before = torch.get_num_threads()
    try:
        updates = threads.make_example(3, 2, (8,), 4, 2)
        assert 0 < threads.seconds_of(partial(updates, 2), threads=1) < 10
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_run_measures_threads_once_and_stores_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, asked = torch.get_num_threads(), []

    def fake_measurement(*sizes: object) -> int:
        asked.append(sizes)
        return 2

    monkeypatch.setattr(threads, "fastest_threads", fake_measurement)
    settings = {"agent": {"hidden_sizes": [8], "batch_size": 4}, "device": "cpu", "seeds": 2}
    loop = {"steps": 40, "random_steps": 20, "replay_size": 100}
    try:
        run = train("Pendulum-v1", "quick", run=tmp_path / "run", loop=loop, **settings).folder
        assert torch.get_num_threads() == 2
        assert asked == [(3, 1, (8,), 4, 2)]
        assert "\nthreads = 2\n" in (run / "config.toml").read_text(encoding="utf-8")
        resume(run, steps=60)
        train("Pendulum-v1", "quick", run=tmp_path / "given", loop=loop, threads=1, **settings)
        assert torch.get_num_threads() == 1
        assert len(asked) == 1
    finally:
        torch.set_num_threads(before)


def test_run_with_images_measures_threads_for_its_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fake_measurement(*sizes: object) -> int:
        asked.append(sizes)
        return 1

    monkeypatch.setattr(threads, "fastest_threads_for_images", fake_measurement)
    agent = {"hidden_sizes": [8], "batch_size": 4, "channels": [2, 2], "features": 5}
    loop = {"steps": 12, "random_steps": 6, "replay_size": 100}
    task = {"id": "support.find:Find-v0", "frame_stack": 2}
    settings = {"agent": agent, "loop": loop, "device": "cpu", "seeds": 2}
    train(task, "quick", run=tmp_path / "run", **settings)
    single = {"dict": {"picture": {"image": [16, 16]}, "position": {"box": [1]}}}
    assert asked == [({"stack": 2, "of": single}, (2, 2), 5, 4, 2)]


@pytest.mark.parametrize("update", ["step", "episode"])
def test_execution_setting_selects_the_learner(tmp_path: Path, update: str) -> None:
    config = from_dict(
        {
            "environment": {"id": "Pendulum-v1"},
            "agent": {"hidden_sizes": [8], "batch_size": 4},
            "loop": {"update": update, "replay_size": 100, "steps": 210, "random_steps": 195},
            "seeds": 2,
            "device": "cpu",
            "threads": 1,
        }
    )
    for execution in ("auto", "eager"):
        chosen = dataclasses.replace(config, execution=execution)
        folder = create(chosen, tmp_path / execution)
        with open_training(chosen, folder, None) as training:
            while training.agent.updates.min() < 2:
                training.advance()
            learner = training.learner
            assert isinstance(learner, CpuLearner) == (execution == "auto")
            if isinstance(learner, CpuLearner):
                assert list(learner.updates) == ([None] if update == "step" else [0, 1])


@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("normalised", [False, True])
def test_cpu_acting_matches_agent_act(agents: int, normalised: bool) -> None:
    agent = TD3(5, 2, 2.0, seed=range(agents), normalize_observations=normalised)
    states = torch.randn(agents, 4, 5)
    act = CpuActing(agent, states)
    for _ in range(3):
        torch.testing.assert_close(act(states), agent.act(states), rtol=0, atol=1e-6)
        agent.actor.flat.data.mul_(1.1)  # in place, like an update
        states = states + 1
        if agent.normalizer:
            agent.normalizer.observe(np.arange(agents), np.ones((agents, 5)))


def test_update_after_episode_sees_all_its_transitions(tmp_path: Path) -> None:
    config = from_dict(
        {
            "environment": {"id": "Pendulum-v1"},
            "agent": {"hidden_sizes": [8], "batch_size": 4},
            "loop": {"update": "episode", "replay_size": 500, "steps": 400, "random_steps": 10},
            "device": "cpu",
            "threads": 1,
        }
    )
    with open_training(config, create(config, tmp_path / "run"), None) as training:
        stored = []
        training.learner.__dict__["learn_member"] = lambda agent, updates: stored.append(
            int(training.replay.added[agent])
        )
        for _ in range(400):
            training.advance()
    assert stored == [200, 400]
