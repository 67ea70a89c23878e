"""The GPU learner on a simulated device: everything except the device itself."""

import numpy as np
import pytest
import torch
from support.learners import (
    ACTION,
    STATE,
    act_and_learn,
    as_transitions,
    assert_same,
    config,
    parts,
)
from support.simulated_device import Event, simulate_device

from td3.config import Config
from td3.execution.gpu.inputs import DeviceInputs
from td3.execution.gpu.learner import GpuLearner
from td3.execution.gpu.random_upload import AHEAD
from td3.seeding import stream_state
from td3.training.learner import Learner

ROW = 2 * STATE + ACTION + 2


@pytest.fixture(autouse=True)
def _simulated_device(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_device(monkeypatch)


def make_both(settings: Config) -> tuple[Learner, GpuLearner]:
    return Learner(*parts(settings)), GpuLearner(*parts(settings), compiled=False, fused=False)


@pytest.mark.parametrize("host", [False, True], ids=["replay on device", "replay on host"])
@pytest.mark.parametrize("agents", [1, 3])
def test_gpu_learner_matches_eager_learner(host: bool, agents: int) -> None:
    plain, fast = make_both(config(agents))
    if host:  # a different name of the same device
        fast.replay.device = torch.device("cpu", 0)
    act_and_learn((plain, fast), steps=71, per_agent=2)
    assert plain.agent.updates.tolist() == [140] * agents
    assert_same(plain, fast)


@pytest.mark.parametrize("host", [False, True], ids=["replay on device", "replay on host"])
@pytest.mark.parametrize("agents", [1, 3])
def test_gpu_learner_on_slow_device_matches_eager_learner(
    host: bool, agents: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_device(monkeypatch, late=True)
    plain, fast = make_both(config(agents, agent={"policy_freq": 8}))
    if host:
        fast.replay.device = torch.device("cpu", 0)
    act_and_learn((plain, fast), steps=71, per_agent=2)
    assert plain.agent.updates.min() > 4 * AHEAD
    torch.cuda.synchronize()
    assert_same(plain, fast)


@pytest.mark.parametrize("host", [False, True], ids=["replay on device", "replay on host"])
def test_own_numbers_of_a_variant_arrive_in_blocks(
    host: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_device(monkeypatch, late=True)
    variant = {"name": "ensemble", "critics": 5, "subset": 2}
    plain, fast = make_both(config(3, agent={"policy_freq": 8}, variant=variant))
    if host:
        fast.replay.device = torch.device("cpu", 0)
    act_and_learn((plain, fast), steps=71, per_agent=2)
    assert isinstance(fast.updates[None].inputs, DeviceInputs)
    states = [[stream_state(s) for s in learner.streams()["smooth"]] for learner in (plain, fast)]
    assert states[0] == states[1]
    torch.cuda.synchronize()
    assert_same(plain, fast)


@pytest.mark.parametrize("others_early", [False, True])
def test_random_upload_on_slow_device_keeps_numbers_until_used(
    others_early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_device(monkeypatch, late=True, others_early=others_early)
    plain, fast = make_both(config())
    act_and_learn((plain, fast), steps=5, per_agent=1)
    for learner in (plain, fast):
        learner.learn(8 * AHEAD)
    torch.cuda.synchronize()
    assert_same(plain, fast)


def test_transition_upload_on_slow_device_stores_every_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulate_device(monkeypatch, late=True)
    plain, fast = make_both(config())
    rng = np.random.default_rng(0)
    for _ in range(6):  # without updates, as while actions are random
        rows = rng.normal(size=(3, ROW)).astype(np.float32)
        for learner in (plain, fast):
            learner.store(as_transitions(range(3), rows))
    torch.cuda.synchronize()
    assert plain.replay.rows is not None
    assert fast.replay.rows is not None
    assert torch.equal(plain.replay.rows, fast.replay.rows)


@pytest.mark.parametrize("what", ["synchronize", "wait"])
def test_simulated_device_detects_missing_waits(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_device(monkeypatch, late=True)
    monkeypatch.setattr(Event, what, lambda self: None)
    with pytest.raises(AssertionError):
        act_and_learn(make_both(config(1)), steps=5, per_agent=1)


@pytest.mark.parametrize("normalised", [False, True])
def test_act_waits_only_for_work_that_changes_the_actions(
    normalised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_device(monkeypatch, late=True)
    varied = {"environment": {"normalize_observations": normalised}, "agent": {"policy_freq": 9}}
    _, fast = make_both(config(**varied))
    rng = np.random.default_rng(0)
    for _ in range(3):  # only the first update changes the actor
        fast.store(as_transitions(range(3), rng.normal(size=(3, ROW)).astype(np.float32)))
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
def test_actions_prefetched_before_learning_are_computed_again(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_device(monkeypatch, late=late)
    plain, fast = make_both(config())
    act_and_learn((plain, fast), steps=3, per_agent=1)
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


@pytest.mark.parametrize("late", [False, True])
def test_actions_prefetched_before_agents_change_are_computed_again(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `td3 tune`, where a new agent takes the place of another."""
    simulate_device(monkeypatch, late=late)
    plain, fast = make_both(config())
    act_and_learn((plain, fast), steps=3, per_agent=1)
    states, chosen = np.ones((3, STATE), dtype=np.float32), []
    for learner in (plain, fast):
        learner.prefetch_actions(states)
        torch.cuda.synchronize()
        with torch.no_grad():
            learner.agent.actor.flat.mul_(0.5)
        learner.agents_changed()
        chosen.append(learner.act(states))
    np.testing.assert_array_equal(*chosen)


def test_reading_the_streams_changes_nothing() -> None:
    plain, fast = make_both(config())
    for piece in range(4):
        act_and_learn((plain, fast), steps=13, per_agent=1, seed=piece)
        assert_same(plain, fast)  # it reads the streams


def test_learn_member_updates_only_that_member() -> None:
    plain, fast = make_both(config())
    act_and_learn((plain, fast), steps=21, per_agent=1)
    for learner in (plain, fast):
        learner.streams()
        for member, updates in ((1, 40), (0, 7), (1, 5)):
            learner.learn_member(member, updates)
    assert fast.agent.updates.tolist() == [27, 65, 20]
    assert_same(plain, fast)


def test_gpu_learner_with_grid_matches_eager_learner() -> None:
    grid = {"agent.discount": [0.9, 0.99], "agent.policy_noise": [0.1, 0.4]}
    plain, fast = make_both(config(2, grid=grid))
    act_and_learn((plain, fast), steps=20, per_agent=1)
    assert fast.agent.agents == 8
    assert_same(plain, fast)


@pytest.mark.parametrize("owners", [[0, 0], [0, 1], [0, 0, 2], [1]])
def test_store_first_step_with_resets_matches_eager_learner(owners: list[int]) -> None:
    plain, fast = make_both(config())
    rows = np.arange(len(owners) * ROW, dtype=np.float32).reshape(len(owners), ROW)
    for learner in (plain, fast):
        learner.store(as_transitions(owners, rows))
    act_and_learn((plain, fast), steps=3, per_agent=2)
    assert_same(plain, fast)


def test_store_steps_with_resets_captures_no_new_graph() -> None:
    plain, fast = make_both(config(1))
    uploads = set()
    for count in (4, 3, 4, 2, 4, 0, 4):
        rows = np.full((count, ROW), count, dtype=np.float32)
        for learner in (plain, fast):
            learner.store(as_transitions([0] * count, rows))
        uploads.add(fast.transition_upload)
    assert len(uploads) == 1
    act_and_learn((plain, fast), steps=3, per_agent=4)
    assert_same(plain, fast)


def test_store_with_an_environment_that_only_reset_adds_no_transition() -> None:
    plain, fast = make_both(config())
    row = np.ones((2, ROW), dtype=np.float32)
    act_and_learn((plain, fast), steps=3, per_agent=1)
    for learner in (plain, fast):
        learner.store(as_transitions([0, 2], row))
    assert fast.replay.added.tolist() == [4, 3, 4]
    act_and_learn((plain, fast), steps=3, per_agent=1)
    assert_same(plain, fast)
