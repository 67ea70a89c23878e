"""The running scale of returns equals that of the whole history."""

import numpy as np
import pytest
import torch

from td3.algorithm.return_scale import REFRESH_EVERY, SLOTS, ReturnScale
from td3.algorithm.transitions import Transitions
from td3.errors import UserError

DISCOUNTS = np.array([0.9, 0.99])


@pytest.mark.parametrize("environments", [1, 3])
def test_divisor_equals_statistics_of_all_returns(environments: int) -> None:
    rng, limit = np.random.default_rng(0), 5.0
    scale = ReturnScale(2, limit, torch.float64, torch.device("cpu"))
    owners, indices = np.repeat([0, 1], environments), np.arange(2 * environments)
    returns, history = np.zeros(2 * environments), [list[float](), list[float]()]
    for step in range(REFRESH_EVERY):
        begins = rng.random(len(owners)) < 0.1 if step else np.ones(len(owners), dtype=np.bool_)
        rows = np.zeros((len(owners), 6), dtype=np.float32)
        rows[:, -2] = rng.normal(3, 1, len(owners))
        scale.watch(Transitions(owners, indices, rows, begins), DISCOUNTS)
        for i, owner in enumerate(owners):
            returns[i] = rows[i, -2] + (0 if begins[i] else DISCOUNTS[owner] * returns[i])
            history[owner].append(returns[i])
    for agent in range(2):
        own = np.array(history[agent])
        expected = max(np.sqrt(own.var() + 1e-8), np.abs(own).max() / limit)
        assert float(scale.divisor[agent]) == pytest.approx(expected, rel=1e-9)


def test_agent_without_transitions_keeps_its_divisor() -> None:
    scale = ReturnScale(2, 5.0, torch.float64, torch.device("cpu"))
    rows = np.full((1, 6), 2.0, dtype=np.float32)
    for step in range(REFRESH_EVERY):
        one = Transitions(np.array([1]), np.array([1]), rows, np.array([step == 0]))
        scale.watch(one, DISCOUNTS)
    assert float(scale.divisor[0]) == 1
    assert float(scale.divisor[1]) > 1
    assert float(scale.count[0]) == 0


@pytest.mark.parametrize(("environments", "refused"), [(SLOTS, False), (SLOTS + 1, True)])
def test_more_environments_than_slots_are_refused(environments: int, refused: bool) -> None:
    scale = ReturnScale(2, 5.0, torch.float64, torch.device("cpu"))
    owners, indices = np.repeat([0, 1], environments), np.arange(2 * environments)
    rows = np.ones((len(owners), 6), dtype=np.float32)
    new = Transitions(owners, indices, rows, np.ones(len(owners), dtype=np.bool_))
    if refused:
        with pytest.raises(UserError, match="at most 64 environments per agent, got 65"):
            scale.watch(new, DISCOUNTS)
    else:
        scale.watch(new, DISCOUNTS)
        assert (scale.returns == 1).all()


def test_many_agents_with_one_environment_each_use_their_own_return() -> None:
    scale = ReturnScale(100, 5.0, torch.float64, torch.device("cpu"))
    everyone, rows = np.arange(100), np.zeros((100, 6), dtype=np.float32)
    rows[:, -2] = everyone
    scale.watch(Transitions(everyone, everyone, rows, np.ones(100, dtype=np.bool_)), np.ones(100))
    assert scale.mean.tolist() == list(range(100))
