"""Running scale of the returns, with separate statistics for every agent."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.transitions import Transitions
from td3.errors import UserError

SLOTS = 64
"""Environments per agent whose returns are followed."""
REFRESH_EVERY = 32  # transitions of an agent between two copies to the device


class ReturnScale:
    """max(standard deviation of the discounted return, largest |return| / limit).

    The return of an environment is a running sum, G ← reward + discount · G, that starts again with
    each episode. Rewards divided by this number have discounted returns of a moderate size.
    """

    def __init__(
        self, agents: int, limit: float | Tensor, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.limits = torch.as_tensor(limit, dtype=torch.float64).cpu().expand(agents).clone()
        numbers = torch.zeros(agents, SLOTS + 4, dtype=torch.float64)
        self.returns = numbers[:, :SLOTS].clone()
        self.count, self.mean, self.spread, self.largest = numbers[:, SLOTS:].T.clone().unbind()
        """Number, mean and sum of squared deviations of the returns, and the largest |return|."""
        self.scale = torch.ones(agents, dtype=torch.float64)
        self.divisor = torch.ones(agents, 1, 1, dtype=dtype, device=device)
        """`scale` on the device: what rewards are divided by."""

    def watch(self, transitions: Transitions, discounts: NDArray[np.float64]) -> None:
        """Follow the returns of new transitions; `discounts`: one for each agent."""
        owners = transitions.owners
        place = np.arange(len(owners)) - np.searchsorted(owners, owners)
        """Transitions of the same agent have the places 0, 1, …"""
        rewards, slots = (
            transitions.rows[:, -2].astype(np.float64),
            transitions.environments % SLOTS,
        )
        last = int(place.max(initial=-1))
        if last >= SLOTS:
            raise UserError(
                f"Rewards are scaled by the returns of at most {SLOTS} environments per agent, got "
                f"{last + 1}. Lower environment.count, or set variant.scale_rewards to false."
            )
        for number in range(last + 1):
            one = place == number
            agents, slot = owners[one], slots[one]
            returns = self.returns.numpy()
            before = np.where(transitions.begins[one], 0, returns[agents, slot])
            returns[agents, slot] = rewards[one] + discounts[agents] * before
            self.add(agents, returns[agents, slot])
        due = np.zeros(len(self.count), dtype=np.bool_)
        due[owners] = self.count.numpy()[owners] % REFRESH_EVERY == 0
        if due.any():
            self.refresh(due)

    def add(self, agents: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Welford's algorithm for one return of each of these agents."""
        count, mean, spread, largest = (
            tensor.numpy() for tensor in (self.count, self.mean, self.spread, self.largest)
        )
        count[agents] += 1
        distance = values - mean[agents]
        mean[agents] += distance / count[agents]
        spread[agents] += distance * (values - mean[agents])
        largest[agents] = np.maximum(largest[agents], np.abs(values))

    def refresh(self, due: NDArray[np.bool_]) -> None:
        """Compute the divisor of these agents from the statistics."""
        deviation = (self.spread / self.count.clamp(min=1) + 1e-8).sqrt()
        found = torch.maximum(deviation, self.largest / self.limits)
        self.scale.copy_(torch.where(torch.from_numpy(due), found, self.scale))
        self.divisor.copy_(self.scale.view(-1, 1, 1))
