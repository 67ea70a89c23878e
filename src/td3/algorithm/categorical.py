"""Values as distributions over fixed bins (C51: Bellemare et al., 2017)."""

import torch
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
        spacing = (high - low) / (self.values.shape[-1] - 1)
        shifted = (reward + discount * self.values).clamp(low, high)
        distance = (shifted.unsqueeze(-1) - self.values.unsqueeze(-2)).abs()
        share = (1 - distance / spacing.unsqueeze(-1)).clamp(min=0)
        return torch.sum(probabilities.unsqueeze(-1) * share, dim=-2)


def cross_entropy(log_probabilities: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of two distributions over bins, (agents, batch, bins) → (agents, batch, 1)."""
    return -torch.sum(target * log_probabilities, dim=-1, keepdim=True)
