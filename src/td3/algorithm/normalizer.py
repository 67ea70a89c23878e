"""Running normalisation of observations, with separate statistics for every agent."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

CLIP = 10.0  # standard deviations


class Normalizer(nn.Module):
    """(x - mean) / std over all observations of an agent, clipped to ±CLIP."""

    count: Tensor
    mean: Tensor
    spread: Tensor
    """Sum of squared deviations from the mean."""

    def __init__(
        self, agents: int, state_dim: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        wide = torch.float64  # for sums over millions of steps
        self.register_buffer("count", torch.zeros(agents, 1, dtype=wide))
        self.register_buffer("mean", torch.zeros(agents, state_dim, dtype=wide))
        self.register_buffer("spread", torch.zeros(agents, state_dim, dtype=wide))
        self.shift = torch.zeros(agents, 1, state_dim, dtype=dtype, device=device)
        self.scale = torch.ones(agents, 1, state_dim, dtype=dtype, device=device)

    def observe(self, agents: NDArray[np.int64], states: NDArray[np.floating]) -> None:
        """Update the statistics; row i belongs to agent `agents[i]`."""
        rows = torch.from_numpy(states).double()
        shape = len(self.count), len(agents) // len(self.count)
        if np.array_equal(agents, np.repeat(np.arange(shape[0]), shape[1])):
            for state in rows.unflatten(0, shape).unbind(1):  # all agents together
                self.add(slice(None), state)
        else:
            for agent, state in zip(agents.tolist(), rows, strict=True):
                self.add(agent, state)
        self.refresh()

    def add(self, agents: int | slice, state: Tensor) -> None:
        """Welford's algorithm for one observation of each of these agents."""
        count, mean, spread = self.count[agents], self.mean[agents], self.spread[agents]
        count += 1
        distance = state - mean
        mean += distance / count
        spread += distance * (state - mean)

    def refresh(self) -> None:
        """Compute shift and scale from the statistics."""
        variance = self.spread / self.count.clamp(min=1)
        scale = torch.where(self.count > 1, (variance + 1e-8).rsqrt(), 1.0)
        self.shift.copy_(self.mean.unsqueeze(1))
        self.scale.copy_(scale.unsqueeze(1))

    def forward(self, states: Tensor) -> Tensor:
        return ((states - self.shift) * self.scale).clamp(-CLIP, CLIP)
