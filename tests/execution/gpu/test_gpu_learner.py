"""The learner for a GPU, with a graph that is only a function called again: all but the device."""

import numpy as np
import pytest
import torch
from support.learners import ACTION, STATE, assert_same, config, live, parts, taken
from support.pretend import Event, pretend_graphs

from td3.config import Config
from td3.execution.gpu.learner import Captured
from td3.execution.gpu.random_upload import AHEAD
from td3.training.learner import Learner

ROW = 2 * STATE + ACTION + 2


@pytest.fixture(autouse=True)
def _no_gpu_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_graphs(monkeypatch)


def both(settings: Config) -> tuple[Learner, Captured]:
    return Learner(*parts(settings)), Captured(*parts(settings), compiled=False, fused=False)


@pytest.mark.parametrize("host", [False, True], ids=["ring on the device", "ring on the host"])
@pytest.mark.parametrize("agents", [1, 3])
def test_it_does_what_the_plain_learner_does(host: bool, agents: int) -> None:
    plain, fast = both(config(agents))
    if host:  # another name for the same device
        fast.replay.device = torch.device("cpu", 0)
    live((plain, fast), steps=71, per_agent=2)
    assert plain.agent.updates.tolist() == [140] * agents
    assert_same(plain, fast)


@pytest.mark.parametrize("host", [False, True], ids=["ring on the device", "ring on the host"])
@pytest.mark.parametrize("agents", [1, 3])
def test_a_device_that_is_late_changes_nothing(
    host: bool, agents: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_graphs(monkeypatch, late=True)
    plain, fast = both(config(agents, agent={"policy_freq": 8}))
    if host:
        fast.replay.device = torch.device("cpu", 0)
    live((plain, fast), steps=71, per_agent=2)
    assert plain.agent.updates.min() > 4 * AHEAD
    torch.cuda.synchronize()
    assert_same(plain, fast)


@pytest.mark.parametrize("others_early", [False, True])
def test_random_numbers_are_kept_until_a_late_device_has_used_them(
    others_early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_graphs(monkeypatch, late=True, others_early=others_early)
    plain, fast = both(config())
    live((plain, fast), steps=5, per_agent=1)
    for learner in (plain, fast):
        learner.learn(8 * AHEAD)
    torch.cuda.synchronize()
    assert_same(plain, fast)


def test_many_transitions_are_stored_by_a_late_device(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_graphs(monkeypatch, late=True)
    plain, fast = both(config())
    rng = np.random.default_rng(0)
    for _ in range(6):  # as while actions are random
        rows = rng.normal(size=(3, ROW)).astype(np.float32)
        for learner in (plain, fast):
            learner.store(taken(range(3), rows))
    torch.cuda.synchronize()
    assert plain.replay.rows is not None
    assert fast.replay.rows is not None
    assert torch.equal(plain.replay.rows, fast.replay.rows)


@pytest.mark.parametrize("what", ["synchronize", "wait"])
def test_who_does_not_wait_for_a_late_device_is_found_out(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_graphs(monkeypatch, late=True)
    monkeypatch.setattr(Event, what, lambda self: None)
    with pytest.raises(AssertionError):
        live(both(config(1)), steps=5, per_agent=1)


@pytest.mark.parametrize("normalised", [False, True])
def test_actions_wait_for_what_moves_how_an_agent_acts_and_for_nothing_else(
    normalised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_graphs(monkeypatch, late=True)
    varied = {"environment": {"normalize_observations": normalised}, "agent": {"policy_freq": 9}}
    _, fast = both(config(**varied))
    rng = np.random.default_rng(0)
    for _ in range(3):  # the first update moves the actor, the others do not
        fast.store(taken(range(3), rng.normal(size=(3, ROW)).astype(np.float32)))
        fast.learn(1)
    before = fast.agent.critic.flat.clone()
    fast.act(np.zeros((3, STATE), dtype=np.float32))
    torch.cuda.synchronize()
    fast.learn(1)
    first = fast.agent.critic.flat.clone()
    fast.act(np.ones((3, STATE), dtype=np.float32))
    assert torch.equal(first, fast.agent.critic.flat) != normalised
    assert not torch.equal(before, first)


@pytest.mark.parametrize("late", [False, True])
def test_what_was_expected_before_learning_is_thought_over(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_graphs(monkeypatch, late=late)
    plain, fast = both(config())
    live((plain, fast), steps=3, per_agent=1)
    states, others = (np.full((3, STATE), number, dtype=np.float32) for number in (1.0, 2.0))
    chosen = []
    for learner in (plain, fast):
        learner.prefetch_actions(states)
        learner.learn(2)
        chosen.append([learner.act(states), learner.act(others)])
        learner.prefetch_actions(states)
        learner.prefetch_actions(others)
        chosen[-1].append(learner.act(others))
        learner.prefetch_actions(states)
        chosen[-1] += [learner.act(others), learner.act(states)]
    np.testing.assert_array_equal(*chosen)


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
            learner.learn_member(member, updates)
    assert fast.agent.updates.tolist() == [27, 65, 20]
    assert_same(plain, fast)


def test_a_grid_gives_each_member_its_numbers() -> None:
    grid = {"agent.discount": [0.9, 0.99], "agent.policy_noise": [0.1, 0.4]}
    plain, fast = both(config(2, grid=grid))
    live((plain, fast), steps=20, per_agent=1)
    assert fast.agent.agents == 8
    assert_same(plain, fast)


@pytest.mark.parametrize("owners", [[0, 0], [0, 1], [0, 0, 2], [1]])
def test_a_first_step_in_which_some_environments_only_reset(owners: list[int]) -> None:
    plain, fast = both(config())
    rows = np.arange(len(owners) * ROW, dtype=np.float32).reshape(len(owners), ROW)
    for learner in (plain, fast):
        learner.store(taken(owners, rows))
    live((plain, fast), steps=3, per_agent=2)
    assert_same(plain, fast)


def test_resets_among_random_steps_capture_nothing_anew() -> None:
    plain, fast = both(config(1))
    storings = set()
    for count in (4, 3, 4, 2, 4, 0, 4):
        rows = np.full((count, ROW), count, dtype=np.float32)
        for learner in (plain, fast):
            learner.store(taken([0] * count, rows))
        storings.add(fast.storing)
    assert len(storings) == 1
    live((plain, fast), steps=3, per_agent=4)
    assert_same(plain, fast)


def test_an_environment_that_only_reset_stores_nothing() -> None:
    plain, fast = both(config())
    row = np.ones((2, ROW), dtype=np.float32)
    live((plain, fast), steps=3, per_agent=1)
    for learner in (plain, fast):
        learner.store(taken([0, 2], row))
    assert fast.replay.added.tolist() == [4, 3, 4]
    live((plain, fast), steps=3, per_agent=1)
    assert_same(plain, fast)
