"""What a critic gives: plain numbers, or distributions over fixed bins."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from td3.algorithm.stacked import per_agent


class Numbers:
    """Values as plain numbers with the squared error, with the methods of `Bins`."""

    outputs = 1
    """Numbers that a critic gives for each value."""

    def distribution(self, raw: Tensor) -> Tensor:
        """The value that a critic's outputs stand for, (…, outputs)."""
        return raw

    def log_distribution(self, raw: Tensor) -> Tensor:
        """The same for `loss` and `from_log`."""
        return raw

    def from_log(self, value: Tensor) -> Tensor:
        """From `log_distribution` to `distribution`."""
        return value

    def mean(self, value: Tensor) -> Tensor:
        """The expected value, (agents, batch, outputs) → (agents, batch, 1)."""
        return value

    def smallest(self, values: Sequence[Tensor]) -> Tensor:
        """The value with the smallest mean, for each sample."""
        smallest = values[0]
        for other in values[1:]:
            is_less = self.mean(other) < self.mean(smallest)
            smallest = torch.where(is_less, other, smallest)
        return smallest

    def average(self, values: Sequence[Tensor]) -> Tensor:
        """The mean of all values; of distributions, their mixture."""
        return torch.stack(list(values)).mean(dim=0)

    def target(self, value: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Step 9: reward + discount · value."""
        return reward + discount * value

    def loss(self, value: Tensor, target: Tensor) -> Tensor:
        """How far a `log_distribution` is from the target, (agents, batch, 1)."""
        return F.mse_loss(value, target, reduction="none")


class Bins(Numbers):
    """Distributions over fixed bins (C51: Bellemare et al., 2017).

    The bins are equally spaced from -limit to limit; a critic gives each a probability.
    """

    def __init__(
        self,
        agents: int,
        count: int,
        limit: float | Tensor,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        unit = torch.linspace(-1, 1, count, dtype=dtype, device=device).expand(agents, 1, -1)
        self.values = (unit * per_agent(limit, unit)).contiguous()
        """(agents, 1, bins)."""
        self.outputs = count

    def distribution(self, raw: Tensor) -> Tensor:
        return raw.softmax(dim=-1)

    def log_distribution(self, raw: Tensor) -> Tensor:
        return raw.log_softmax(dim=-1)

    def from_log(self, value: Tensor) -> Tensor:
        return value.exp()

    def mean(self, value: Tensor) -> Tensor:
        return torch.sum(value * self.values, dim=-1, keepdim=True)

    def loss(self, value: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(value, target)

    def target(self, value: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """The distribution of reward + discount · value on the same bins.

        Each shifted value is shared between its two neighbours, in proportion to its distance; what
        lies outside counts for the outermost bin. The mean stays the same except for that.

        Args:
            value: Probabilities, (agents, batch, bins).
            reward: (agents, batch, 1).
            discount: (agents, batch, 1); 0 where the episode ended.
        """
        low, high = self.values[..., :1], self.values[..., -1:]
        count = self.values.shape[-1]
        spacing = (high - low) / (count - 1)
        position = ((reward + discount * self.values - low) / spacing).clamp(0, count - 1)
        to_upper = value * (position - position.floor())
        # Positions increase, so the values in bin k are those from first[k] to first[k + 1].
        edges = torch.arange(count + 1, dtype=position.dtype, device=position.device)
        edges = edges.expand(*position.shape[:-1], -1)
        first = torch.searchsorted(position.contiguous(), edges.contiguous())
        inside, upper = (sums_between(x, first) for x in (value, to_upper))
        return inside - upper + F.pad(upper[..., :-1], (1, 0))


def make_values(own: Any, agents: int, dtype: torch.dtype, device: torch.device | str) -> Numbers:
    """What critics give, by a variant's settings `categorical`, `bins` and `limit`."""
    return Bins(agents, own.bins, own.limit, dtype, device) if own.categorical else Numbers()


def sums_between(x: Tensor, first: Tensor) -> Tensor:
    """Sums of x over the last axis from first[k] to first[k + 1], for every k."""
    return F.pad(x.cumsum(dim=-1), (1, 0)).gather(-1, first).diff(dim=-1)


def cross_entropy(log_probabilities: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of two distributions over bins, (agents, batch, bins) → (agents, batch, 1)."""
    return -torch.sum(target * log_probabilities, dim=-1, keepdim=True)
