"""The CPU learner against the eager one. Its kernels sum in another order: rounding differs."""

from typing import Any

import pytest
import torch
from support.learners import act_and_learn, assert_same, config, parts

from td3.config import Config
from td3.execution import CpuLearner
from td3.training.learner import Learner

ROUNDING = 1e-10  # in double precision


def make_both(settings: Config) -> tuple[Learner, CpuLearner]:
    double = torch.float64
    return Learner(*parts(settings, double)), CpuLearner(*parts(settings, double))


VARIANTS: dict[str, tuple[int, dict[str, Any]]] = {
    "one agent": (1, {}),
    "three agents": (3, {}),
    "one hidden layer": (2, {"agent": {"hidden_sizes": [24]}}),
    "three hidden layers": (2, {"agent": {"hidden_sizes": [40, 24, 16]}}),
    "normalised": (2, {"environment": {"normalize_observations": True}}),
    "delayed by three": (2, {"agent": {"policy_freq": 3}}),
    "a grid": (
        1,
        {"grid": {"agent.discount": [0.9, 0.99], "agent.critic_learning_rate": [1e-3, 1e-2]}},
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_cpu_learner_matches_eager_learner(variant: str) -> None:
    agents, tables = VARIANTS[variant]
    plain, planned = make_both(config(agents, **tables))
    before = plain.agent.critic.flat.detach().clone()
    act_and_learn((plain, planned), steps=101, per_agent=2, tolerance=1e-6)
    assert planned.agent.updates.tolist() == [200] * planned.agent.agents
    assert (planned.agent.critic.flat - before).abs().max() > 0.01
    assert_same(plain, planned, ROUNDING)


def test_learn_member_updates_only_that_member() -> None:
    plain, planned = make_both(config(3))
    act_and_learn((plain, planned), steps=21, per_agent=1, tolerance=1e-6)
    before = planned.agent.critic.flat.detach().clone()
    for learner in (plain, planned):
        for member, updates in ((1, 40), (0, 7), (1, 5)):
            learner.learn_member(member, updates)
    assert planned.agent.updates.tolist() == [27, 65, 20]
    assert torch.equal(planned.agent.critic.flat[2], before[2])
    assert_same(plain, planned, ROUNDING)
    with pytest.raises(ValueError, match="different numbers of updates"):
        planned.learn(1)


def test_cpu_learner_allocates_memory_once() -> None:
    def addresses() -> dict[int, list[int]]:
        free = planned.updates[None].pool.free
        return {size: [memory.data_ptr() for memory in kept] for size, kept in free.items()}

    plain, planned = make_both(config(2))
    act_and_learn((plain, planned), steps=4, per_agent=1, tolerance=1e-6)
    before = addresses()
    assert sum(map(len, before.values())) > 5
    act_and_learn((plain, planned), steps=6, per_agent=1, tolerance=1e-6)
    assert addresses() == before


def test_cpu_learner_after_restore_continues_exactly() -> None:
    one, other = (CpuLearner(*parts(config(2))) for _ in range(2))
    act_and_learn((one, other), steps=30, per_agent=1)
    saved = {name: tensor.clone() for name, tensor in one.agent.tensors().items()}
    one.learn(3)
    other.agent.restore({name: torch.ones_like(tensor) for name, tensor in saved.items()})
    other.agent.restore(saved)  # the plans exist already
    other.learn(3)
    assert_same(one, other)
