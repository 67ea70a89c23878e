"""Running normalisation of observations, one set of statistics per agent."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

CLIP = 10.0  # standard deviations; a reading far outside what was ever seen carries no more


class Normalizer(nn.Module):
    """(x - mean) / std over everything this agent has observed, clipped to ±CLIP."""

    count: Tensor
    mean: Tensor
    spread: Tensor

    def __init__(
        self, agents: int, state_dim: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        wide = torch.float64  # sums over millions of steps
        self.register_buffer("count", torch.zeros(agents, 1, dtype=wide))
        self.register_buffer("mean", torch.zeros(agents, state_dim, dtype=wide))
        self.register_buffer("spread", torch.zeros(agents, state_dim, dtype=wide))
        self.shift = torch.zeros(agents, 1, state_dim, dtype=dtype, device=device)
        self.scale = torch.ones(agents, 1, state_dim, dtype=dtype, device=device)

    def observe(self, agents: NDArray[np.int64], states: NDArray[np.floating]) -> None:
        """Take in one row per environment; row i belongs to agent `agents[i]` (Welford)."""
        for agent, state in zip(agents, torch.from_numpy(states).double(), strict=True):
            self.count[agent] += 1
            distance = state - self.mean[agent]
            self.mean[agent] += distance / self.count[agent]
            self.spread[agent] += distance * (state - self.mean[agent])
        self.refresh()

    def refresh(self) -> None:
        """Carry the statistics over to what `forward` uses."""
        variance = self.spread / self.count.clamp(min=1)
        scale = torch.where(self.count > 1, (variance + 1e-8).rsqrt(), 1.0)
        self.shift.copy_(self.mean.unsqueeze(1))
        self.scale.copy_(scale.unsqueeze(1))

    def forward(self, states: Tensor) -> Tensor:
        return ((states - self.shift) * self.scale).clamp(-CLIP, CLIP)

    def share(self, agent: int) -> "Normalizer":
        """One agent's normaliser, on the same memory."""
        rows = slice(agent, agent + 1)
        one = Normalizer(1, self.mean.shape[1], self.shift.dtype, self.shift.device)
        one.count, one.mean, one.spread = self.count[rows], self.mean[rows], self.spread[rows]
        one.shift, one.scale = self.shift[rows], self.scale[rows]
        return one
