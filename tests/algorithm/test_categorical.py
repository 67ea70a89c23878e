"""Distributions over bins: projection of the target, mean, loss."""

import pytest
import torch

from td3.algorithm.categorical import Bins, cross_entropy
from tests.support.flash_reference import project_target


def random_probabilities(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(*shape, generator=generator, dtype=torch.float64).softmax(-1)


@pytest.mark.parametrize("count", [2, 11, 101])
def test_target_equals_projection_with_loops(count: int) -> None:
    bins = Bins(2, count, torch.tensor([5.0, 2.0]), torch.float64, "cpu")
    probabilities = random_probabilities(2, 6, count)
    reward = torch.tensor([0.0, 0.3, -7.0, 7.0, 1e-9, -0.2], dtype=torch.float64).view(1, 6, 1)
    discount = torch.tensor([0.99, 0.0, 0.99, 0.0, 1.0, 0.5], dtype=torch.float64).view(1, 6, 1)
    found = bins.target(probabilities, reward.expand(2, 6, 1), discount.expand(2, 6, 1))
    for agent in range(2):
        values = bins.values[agent, 0]
        expected = project_target(probabilities[agent], values, reward[0], discount[0])
        torch.testing.assert_close(found[agent], expected, rtol=1e-9, atol=1e-12)


def test_target_keeps_the_mean_inside_the_limits() -> None:
    bins = Bins(1, 101, 5.0, torch.float64, "cpu")
    probabilities = random_probabilities(1, 4, 101)
    reward, discount = torch.full((1, 4, 1), 0.04), torch.full((1, 4, 1), 0.99)
    found = bins.mean(bins.target(probabilities, reward.double(), discount.double()))
    torch.testing.assert_close(
        found, reward + discount * bins.mean(probabilities), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(("limit", "count"), [(5.0, 101), (7.3, 101), (1.0, 123)])
def test_target_beyond_the_limits_loses_no_probability(limit: float, count: int) -> None:
    """In single precision (high - low) / spacing may be a little more than the last bin."""
    bins = Bins(1, count, limit, torch.float32, "cpu")
    probabilities = torch.full((1, 2, count), 1.0).softmax(-1)
    reward = torch.tensor([[[100.0], [-100.0]]])
    found = bins.target(probabilities, reward, torch.zeros(1, 2, 1))
    for sample, at in ((0, -1), (1, 0)):
        assert float(found[0, sample, at]) == pytest.approx(1, abs=1e-6)


def test_cross_entropy_is_smallest_at_the_target() -> None:
    target = random_probabilities(1, 1, 5)
    own = cross_entropy(target.log(), target)
    other = cross_entropy(random_probabilities(1, 2, 5)[:, 1:].log(), target)
    assert float(own) < float(other)
