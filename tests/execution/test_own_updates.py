"""What a user writes is what runs: every change of the algorithm, in every mode."""

import dataclasses
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from support import own_updates
from support.learners import ACTION, RING, STATE, config
from support.own_updates import (
    FAST,
    NOT_STORED,
    OUTSIDE,
    SLOW,
    CountsInClass,
    CountsInTable,
    LayerNorm,
    OtherActor,
    OwnTensor,
    Penalty,
    RandomInside,
)

from td3.algorithm.agent import TD3
from td3.execution import CpuLearner
from td3.execution.checked import CHECKED, CheckedLearner
from td3.execution.gpu.learner import GpuLearner
from td3.execution.guard import Guard
from td3.seeding import restore_stream, stream_state
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
Make = Callable[..., CheckedLearner]


def gpu(**options: bool) -> Make:
    return lambda *parts, **more: GpuLearner(*parts, **options, **more)


# name → device, learner, largest difference
MODES: dict[str, tuple[str, Make, float]] = {
    "cpu plan": ("cpu", CpuLearner, 1e-5),
    "cuda graph": ("cuda", gpu(compiled=False, fused=False), 1e-4),
    "compiled": ("cuda", gpu(compiled=True, fused=False), 1e-4),
    "fused": ("cuda", gpu(compiled=True, fused=True), 3e-2),
}
EVERY_MODE = [
    pytest.param(name, marks=[GPU, pytest.mark.gpu] if MODES[name][0] == "cuda" else [])
    for name in MODES
]


def make(kind: type[TD3], agents: int, device: str, learner: Callable[..., Any]) -> Any:
    settings = config(agents)
    place = torch.device(device)
    seeds = settings.agent_seeds
    agent = kind(STATE, ACTION, hidden_sizes=(16, 16), seed=seeds, device=device)
    replay = kind.replay_class(RING, seed=seeds, device=device)
    replay.allocate(STATE, ACTION)
    assert replay.rows is not None
    rows = np.random.default_rng(1).normal(size=replay.rows.shape)
    rows[..., -1] = rows[..., -1] > 1
    replay.rows.copy_(torch.from_numpy(rows))
    replay.added[:] = RING
    return learner(agent, replay, Interval(agents, place), Population(settings, place))


def learn(learner: Learner, updates: int = 12) -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    for _ in range(updates // 3):
        learner.learn(1)
        learner.learn(2)


def largest_difference(one: Learner, other: Learner) -> float:
    theirs = other.agent.tensors()
    differences = {
        name: float((tensor - theirs[name]).abs().max()) if tensor.numel() else 0.0
        for name, tensor in one.agent.tensors().items()
        if "square" not in name
    }
    return max(differences.values())


@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("kind", FAST, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("mode", EVERY_MODE)
def test_own_update_in_a_fast_mode_gives_eager_numbers(
    mode: str, kind: type[TD3], agents: int
) -> None:
    device, learner, limit = MODES[mode]
    torch.backends.cuda.matmul.allow_tf32 = False
    eager = make(kind, agents, device, Learner)
    reports: list[str] = []
    fast = make(kind, agents, device, lambda *parts: learner(*parts, report=reports.append))
    states = np.random.default_rng(2).normal(size=(agents, STATE)).astype(np.float32)
    for each in (eager, fast):
        learn(each)
    assert reports == []
    assert not fast.learns_eagerly
    assert largest_difference(eager, fast) <= limit
    assert np.abs(eager.act(states) - fast.act(states)).max() <= max(limit, 1e-5)
    assert reports == []
    fast.close()


@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("kind", SLOW, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("mode", EVERY_MODE)
def test_own_update_that_no_trace_represents_runs_eagerly_and_is_reported_once(
    mode: str, kind: type[TD3], agents: int
) -> None:
    device, learner, _ = MODES[mode]
    eager = make(kind, agents, device, Learner)
    reports: list[str] = []
    fast = make(
        kind, agents, device, lambda *parts: learner(*parts, check=True, report=reports.append)
    )
    for each in (eager, fast):
        learn(each)
    assert len(reports) == 1
    assert SLOW[kind] in reports[0]
    assert f"disabled for {kind.__name__}.update" in reports[0]
    assert largest_difference(eager, fast) == 0
    fast.close()


@pytest.mark.parametrize("kind", OUTSIDE, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("mode", EVERY_MODE)
def test_own_update_that_changes_a_class_or_module_runs_eagerly_from_the_same_value(
    mode: str, kind: type[CountsInClass]
) -> None:
    device, learner, _ = MODES[mode]
    reports: list[str] = []
    options: dict[str, Any] = {"check": True, "report": reports.append}
    both = []
    for make_learner in (Learner, partial(learner, **options)):
        kind.reset()
        both.append(make(kind, 2, device, make_learner))
        learn(both[-1])
    assert len(reports) == 1
    assert OUTSIDE[kind] in reports[0]
    assert largest_difference(*both) == 0
    both[1].close()


def test_guard_notices_a_changed_class_attribute_and_module_constant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = CountsInTable(3, 2, hidden_sizes=(4, 4), seed=0)
    guard = Guard(agent)
    assert guard.holds()
    monkeypatch.setattr(CountsInTable, "count", 5)
    assert not guard.holds()
    guard = Guard(agent)
    assert guard.holds()
    monkeypatch.setitem(own_updates.COUNTS, "module", 5)
    assert not guard.holds()


RESUMED = [("cpu plan", "cpu plan")]
RESUMED_ON_GPU = [("fused", "fused"), ("cpu plan", "cuda graph"), ("compiled", "cpu plan")]


@pytest.mark.parametrize(
    ("first", "second"),
    [*RESUMED, *(pytest.param(*pair, marks=[GPU, pytest.mark.gpu]) for pair in RESUMED_ON_GPU)],
)
@pytest.mark.parametrize(
    "kind", [*FAST, *(kind for kind in SLOW if kind not in NOT_STORED)], ids=lambda k: k.__name__
)
def test_own_update_of_a_resumed_learner_gives_eager_numbers(
    kind: type[TD3], first: str, second: str
) -> None:
    """Also on another device."""
    if first != second and kind is RandomInside:
        pytest.skip("devices have different random numbers")
    torch.backends.cuda.matmul.allow_tf32 = False
    eager = make(kind, 2, MODES[second][0], Learner)
    reports: list[str] = []
    options: dict[str, Any] = {"check": True, "report": reports.append}
    before, after = (
        make(kind, 2, device, partial(learner, **options))
        for device, learner, _ in (MODES[first], MODES[second])
    )
    learn(eager, 6)
    learn(before, 6)
    move_state(before, after)
    learn(eager, 6)
    learn(after, 6)
    exact = kind in SLOW and first == second
    limit = 0 if exact else max(MODES[first][2], MODES[second][2])
    assert largest_difference(eager, after) <= limit
    assert after.learns_eagerly == (kind in SLOW)
    assert all(SLOW.get(kind, "nothing") in report for report in reports)
    for each in (before, after):
        each.close()


def move_state(before: CheckedLearner, after: CheckedLearner) -> None:
    """What a checkpoint does: tensors, streams, transitions, and what runs as plain PyTorch."""
    after.agent.restore({k: t.to(after.agent.device) for k, t in before.agent.tensors().items()})
    after.resume(before.plain_parts())
    streams = before.streams()
    for name, own in after.streams().items():
        for stream, old in zip(own, streams[name], strict=True):
            restore_stream(stream, stream_state(old))
    after.replay.take_over(before.replay, range(before.agent.agents))


@pytest.mark.parametrize("mode", EVERY_MODE)
@pytest.mark.parametrize("change", ["rate", "betas", "attribute", "rates of a schedule"])
def test_change_between_updates_is_honoured(mode: str, change: str) -> None:
    device, learner, limit = MODES[mode]
    torch.backends.cuda.matmul.allow_tf32 = False
    both = [make(OwnTensor, 2, device, kind) for kind in (Learner, learner)]
    for each in both:
        learn(each, 6)
        group = each.agent.critic_optimizer.param_groups[0]
        if change == "rate":
            group["lr"] *= 0.1
        elif change == "betas":
            group["betas"] = (0.5, 0.9)
        elif change == "attribute":
            each.agent.scale = 3 * each.agent.scale
        else:
            group["lr"] *= 0.01
        learn(each, 6)
    assert largest_difference(*both) <= limit
    both[1].close()


def test_check_finds_a_fast_path_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    eager = make(TD3, 2, "cpu", Learner)
    fast = make(TD3, 2, "cpu", lambda *p: CpuLearner(*p, check=True, report=reports.append))
    learn_fast = CpuLearner.learn_fast

    def wrong(self: CpuLearner, updates: int, member: int | None) -> None:
        learn_fast(self, updates, member)
        self.agent.critic.flat.data.mul_(1.001)

    monkeypatch.setattr(CpuLearner, "learn_fast", wrong)
    for each in (eager, fast):
        learn(each)
    assert len(reports) == 1
    assert "critic" in reports[0]
    assert "would differ from that of plain PyTorch" in reports[0]
    assert largest_difference(eager, fast) == 0
    plain, other = (each.streams() for each in (eager, fast))
    for name in plain:
        for one, two in zip(plain[name], other[name], strict=True):
            assert one.bit_generator.state == two.bit_generator.state


@pytest.mark.parametrize("mode", EVERY_MODE)
@pytest.mark.parametrize("kind", [TD3, Penalty, LayerNorm, OtherActor], ids=lambda k: k.__name__)
def test_check_accepts_and_does_not_change_the_numbers(mode: str, kind: type[TD3]) -> None:
    device, learner, _ = MODES[mode]
    found = []
    for check in (True, False):
        reports: list[str] = []
        one = make(
            kind,
            2,
            device,
            lambda *p, check=check, reports=reports: learner(
                *p, check=check, report=reports.append
            ),
        )
        learn(one)
        assert reports == []
        assert one.to_check[None] == 0
        found.append({name: tensor.clone() for name, tensor in one.agent.tensors().items()})
        one.close()
    assert CHECKED > 0
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_resumed_learner_keeps_its_decision_without_another_check() -> None:
    first = make(TD3, 2, "cpu", lambda *p: CpuLearner(*p, check=True))
    second = make(TD3, 2, "cpu", lambda *p: CpuLearner(*p, check=True))
    learn(first)
    first.resume(first.plain_parts())
    assert not first.learns_eagerly
    assert not any(first.to_check.values())
    second.resume([])  # before the first update: still to be checked
    assert all(second.to_check.values())
    second.resume(["learning", "acting"])
    assert second.learns_eagerly
    assert second.acts_eagerly
    assert second.plain_parts() == ["learning", "acting"]


def test_guard_notices_a_changed_number_flag_list_and_tensor() -> None:
    agent = OwnTensor(3, 2, hidden_sizes=(4, 4), seed=0)
    agent.names = ["a"]  # type: ignore[attr-defined]
    changes: dict[str, Callable[[], object]] = {
        "scale": lambda: setattr(agent, "scale", agent.scale + 1),
        "new": lambda: setattr(agent, "new", 1),
        "names": lambda: agent.names.append("b"),  # type: ignore[attr-defined]
        "trained.critic.online.training": lambda: agent.critic.eval(),
        "trained.actor.optimizer.param_groups.0.eps": (
            lambda: agent.actor_optimizer.param_groups[0].update(eps=1.0)
        ),
        "variant": lambda: setattr(agent, "variant", dataclasses.replace(agent.variant, name="x")),
    }
    for path, change in changes.items():
        guard = Guard(agent)
        assert guard.holds()
        change()
        assert not guard.holds()
        assert guard.first_change == path
    guard = Guard(agent)
    agent.actor_optimizer.param_groups[0]["lr"] = 1.0  # an input of the trace
    agent.scale.mul_(2)
    agent.updates += 1
    assert guard.holds()
