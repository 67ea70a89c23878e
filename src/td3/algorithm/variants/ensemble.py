"""An ensemble of critics; the target is the minimum of a few random ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.settings import UpdateSettings
from td3.config import VariantSettings
from td3.config.fields import setting


@dataclass(frozen=True)
class EnsembleSettings(VariantSettings):
    critics: int = setting(10, "Number of critics.", min=1, max=1000, common=True)
    subset: int = setting(2, "Critics whose minimum is the target.", min=1, max=1000, common=True)


class EnsembleNoise(NamedTuple):
    """The random numbers of one update."""

    smoothing: Tensor
    left_out: Tensor
    """0 for the chosen critics of each agent, infinity for the others, (critics, agents, 1, 1)."""


class EnsembleTD3(TD3):
    """Replaces steps 3, 8 and 13: N critics; the minimum of a random subset; the actor's mean.

    From REDQ (Chen et al., 2021), which does it in SAC with 20 updates per step (here:
    --loop.updates-per-step). The subset is drawn for every update.
    """

    Settings = EnsembleSettings
    variant: EnsembleSettings

    @property
    def critics(self) -> int:  # type: ignore[override]
        return self.variant.critics

    def draw_noise(self, batch_size: int) -> EnsembleNoise:
        left_out = np.full((self.critics, self.agents, 1, 1), np.inf, dtype=np.float32)
        subset = min(self.variant.subset, self.critics)
        for agent, stream in enumerate(self.smooth):
            left_out[stream.permutation(self.critics)[:subset], agent] = 0
        mask = torch.from_numpy(left_out).to(self.device, self.dtype)
        return EnsembleNoise(super().draw_noise(batch_size), mask)

    def target_action(
        self, next_state: Tensor, noise: EnsembleNoise, settings: UpdateSettings
    ) -> Tensor:
        return super().target_action(next_state, noise.smoothing, settings)

    def combine(self, next_values: Sequence[Tensor], noise: EnsembleNoise) -> Tensor:
        return (torch.stack(list(next_values)) + noise.left_out).amin(dim=0)

    def actor_loss(self, state: Tensor) -> Tensor:
        values = self.critic(state, self.actor(state))
        return -torch.stack(list(values)).mean(dim=(0, 2, 3))
