"""Values as distributions over fixed bins (C51: Bellemare et al., 2017)."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from td3.algorithm.stacked import per_agent


class Bins:
    """Equally spaced values from -limit to limit; a critic gives each a probability."""

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

    def mean(self, probabilities: Tensor) -> Tensor:
        """The expected value, (agents, batch, bins) → (agents, batch, 1)."""
        return torch.sum(probabilities * self.values, dim=-1, keepdim=True)

    def smallest(self, distributions: Sequence[Tensor]) -> Tensor:
        """The distribution with the smallest mean, for each sample, (agents, batch, bins)."""
        smallest = distributions[0]
        for other in distributions[1:]:
            is_less = self.mean(other) < self.mean(smallest)
            smallest = torch.where(is_less, other, smallest)
        return smallest

    def target(self, probabilities: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """The distribution of reward + discount · value on the same bins.

        Each shifted value is shared between its two neighbours, in proportion to its distance; what
        lies outside counts for the outermost bin. The mean stays the same except for that.

        Args:
            probabilities: (agents, batch, bins).
            reward: (agents, batch, 1).
            discount: (agents, batch, 1); 0 where the episode ended.
        """
        low, high = self.values[..., :1], self.values[..., -1:]
        count = self.values.shape[-1]
        spacing = (high - low) / (count - 1)
        position = ((reward + discount * self.values).clamp(low, high) - low) / spacing
        to_upper = probabilities * (position - position.floor())
        # Positions increase, so the values in bin k are those from first[k] to first[k + 1].
        edges = torch.arange(count + 1, dtype=position.dtype, device=position.device)
        edges = edges.expand(*position.shape[:-1], -1)
        first = torch.searchsorted(position.contiguous(), edges.contiguous())
        inside, upper = (sums_between(x, first) for x in (probabilities, to_upper))
        return inside - upper + F.pad(upper[..., :-1], (1, 0))


def sums_between(x: Tensor, first: Tensor) -> Tensor:
    """Sums of x over the last axis from first[k] to first[k + 1], for every k."""
    return F.pad(x.cumsum(dim=-1), (1, 0)).gather(-1, first).diff(dim=-1)


def cross_entropy(log_probabilities: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of two distributions over bins, (agents, batch, bins) → (agents, batch, 1)."""
    return -torch.sum(target * log_probabilities, dim=-1, keepdim=True)
