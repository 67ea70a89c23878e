"""The learner for a GPU, with a graph that is only a function called again: all but the device."""

from typing import Any

import numpy as np
import pytest
import torch
from pretend import pretend_graphs

from td3.accelerate.captured import Captured
from td3.agent import TD3
from td3.config import Config, from_dict
from td3.learner import Learner
from td3.metrics import Interval
from td3.population import Population
from td3.replay import ReplayBuffer
from td3.seeding import stream_state

STATE, ACTION, CPU = 5, 2, torch.device("cpu")


@pytest.fixture(autouse=True)
def _no_gpu_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_graphs(monkeypatch)


def config(agents: int = 3, **tables: Any) -> Config:
    small = {"agent": {"hidden_sizes": [16, 16], "batch_size": 8}, "environment": {"id": "none"}}
    return from_dict({**small, "seeds": agents, **tables})


def parts(settings: Config) -> tuple[TD3, ReplayBuffer, Interval, Population]:
    seeds = settings.agent_seeds
    agent = TD3(STATE, ACTION, hidden_sizes=(16, 16), seed=seeds)
    population = Population(settings, CPU)
    return agent, ReplayBuffer(50, seed=seeds), Interval(len(seeds), CPU), population


def both(settings: Config) -> tuple[Learner, Captured]:
    return Learner(*parts(settings)), Captured(*parts(settings), compiled=False, fused=False)


def assert_same(plain: Learner, fast: Learner) -> None:
    fast.settle()
    mine, theirs = plain.agent.tensors(), fast.agent.tensors()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert plain.replay.rows is not None
    assert fast.replay.rows is not None
    assert torch.equal(plain.replay.rows, fast.replay.rows)
    assert torch.equal(plain.interval.sums, fast.interval.sums)
    assert (plain.interval.counts == fast.interval.counts).all()
    for name, streams in plain.streams().items():
        pairs = zip(streams, fast.streams()[name], strict=True)
        assert all(stream_state(one) == stream_state(other) for one, other in pairs)


def live(
    learners: tuple[Learner, Learner], steps: int, per_agent: int, seed: int = 0,
    announced: bool = True,
) -> None:  # fmt: skip
    """Act, learn and store: the ring of 50 fills and wraps, blocks of draws end within."""
    agents = learners[0].agent.agents
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        rows = rng.normal(size=(agents * per_agent, 2 * STATE + ACTION + 2)).astype(np.float32)
        states = rng.normal(size=(agents * per_agent, STATE)).astype(np.float32)
        actions = []
        for learner in learners:
            updates = per_agent if len(learner.replay) else 0
            actions.append(learner.act(states, then=updates if announced else 0))
            if updates:
                learner.learn(updates)
            learner.store(np.repeat(np.arange(agents), per_agent), rows)
        assert (actions[0] == actions[1]).all()


@pytest.mark.parametrize("announced", [False, True])
@pytest.mark.parametrize("host", [False, True], ids=["ring on the device", "ring on the host"])
@pytest.mark.parametrize("agents", [1, 3])
def test_it_does_what_the_plain_learner_does(host: bool, agents: int, announced: bool) -> None:
    plain, fast = both(config(agents))
    if host:  # another name for the same device
        fast.replay.device = torch.device("cpu", 0)
    live((plain, fast), steps=71, per_agent=2, announced=announced)
    assert plain.agent.updates.tolist() == [140] * agents
    assert_same(plain, fast)


def test_asking_where_the_streams_stand_changes_nothing() -> None:
    plain, fast = both(config())
    for piece in range(4):
        live((plain, fast), steps=13, per_agent=1, seed=piece)
        assert_same(plain, fast)  # which asks


def test_members_learn_alone() -> None:
    plain, fast = both(config())
    live((plain, fast), steps=21, per_agent=1)
    for learner in (plain, fast):
        learner.streams()
        for member, updates in ((1, 40), (0, 7), (1, 5)):
            learner.learn_alone(member, updates)
    assert fast.agent.updates.tolist() == [27, 65, 20]
    assert_same(plain, fast)


def test_a_grid_gives_each_member_its_numbers() -> None:
    grid = {"agent.discount": [0.9, 0.99], "agent.policy_noise": [0.1, 0.4]}
    plain, fast = both(config(2, grid=grid))
    live((plain, fast), steps=20, per_agent=1)
    assert fast.agent.agents == 8
    assert_same(plain, fast)


def test_transitions_wait_for_the_next_states_or_until_they_are_needed() -> None:
    plain, fast = both(config())
    live((plain, fast), steps=3, per_agent=1)
    assert plain.replay.rows is not None
    assert fast.replay.rows is not None
    written = (fast.replay.rows != 0).any(dim=-1).sum(dim=1)
    assert (fast.replay.added.tolist(), written.tolist()) == ([3] * 3, [2] * 3)
    for _ in range(4):  # as while actions are random
        row = np.ones((3, 2 * STATE + ACTION + 2), dtype=np.float32)
        for learner in (plain, fast):
            learner.store(np.arange(3), row)
    fast.settle()
    assert torch.equal(plain.replay.rows, fast.replay.rows)


def test_an_environment_that_only_reset_stores_nothing() -> None:
    plain, fast = both(config())
    row = np.ones((2, 2 * STATE + ACTION + 2), dtype=np.float32)
    live((plain, fast), steps=3, per_agent=1)
    for learner in (plain, fast):
        learner.store(np.array([0, 2]), row)
    assert fast.replay.added.tolist() == [4, 3, 4]
    live((plain, fast), steps=3, per_agent=1)
    assert_same(plain, fast)
