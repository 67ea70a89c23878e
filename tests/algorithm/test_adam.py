"""Adam's moments of units that no longer learn."""

import pytest
import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.state import FLUSH_EVERY

UPDATES = 2_000


def denormal(numbers: Tensor) -> int:
    return int(((numbers != 0) & (numbers.abs() < torch.finfo(torch.float32).tiny)).sum())


@pytest.mark.parametrize("tidy", [True, False])
def test_faded_moments_are_dropped_before_they_slow_the_processor(tidy: bool) -> None:
    agent = TD3(3, 2, hidden_sizes=(8,), seed=0)
    optimizer = agent.critic_optimizer
    before = agent.critic.flat.detach().clone()
    moved = {}
    agent.critic.flat.grad = torch.full_like(before, 1e-3)
    optimizer.step()
    agent.critic.flat.grad.zero_()  # the unit gets no gradient any more
    found = []
    for update in range(1, UPDATES + 1):
        optimizer.step()
        agent.updates += 1
        if tidy:
            agent.flush_denormals()
        if update % FLUSH_EVERY == FLUSH_EVERY - 1:
            found.append(denormal(optimizer.mean))
            moved[update] = agent.critic.flat.detach().clone()
    assert any(found) != tidy
    assert bool(optimizer.mean.any()) != tidy
    assert optimizer.square.all(), "it fades a hundred times as slowly"
    assert not torch.equal(before, agent.critic.flat)
    assert torch.equal(moved[2 * FLUSH_EVERY - 1], agent.critic.flat), "dropped while it mattered"


def test_what_is_not_faded_stays() -> None:
    agent = TD3(3, 2, hidden_sizes=(8,), seed=0)
    optimizer = agent.actor_optimizer
    kept = torch.tensor([1e-19, -1e-19, torch.nan, torch.inf, 1.0])
    optimizer.mean[0, :7] = torch.tensor([1e-21, -1e-21, *kept])
    optimizer.square[0, :2] = torch.tensor([1e-31, 1e-29])
    agent.updates[:] = FLUSH_EVERY
    agent.flush_denormals()
    assert optimizer.mean[0, :2].tolist() == [0, 0]
    assert torch.equal(optimizer.mean[0, 2:7].nan_to_num(7), kept.nan_to_num(7))
    assert (optimizer.square[0, :2] > 0).tolist() == [False, True]
