"""TD3 without one of its three tricks, on the agent axis with TD3 itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.settings import UpdateSettings
from td3.algorithm.stacked import per_agent
from td3.algorithm.trained import Trained
from td3.config import VariantSettings
from td3.config.fields import setting

TRICKS = ("twin", "smoothing", "delay")
DELAY = 2


@dataclass(frozen=True)
class TrickSettings(VariantSettings):
    changed: float = setting(0.0, "1: an agent without the tricks that are off.", min=0, max=1)
    twin: bool = setting(True, "Step 8 keeps the smaller value; otherwise the first critic's.")
    smoothing: bool = setting(True, "Step 6 adds noise.")
    delay: bool = setting(True, "Steps 13 to 15 on every second update; needs policy_freq 1.")


class WithoutTricks(TD3):
    """Replaces steps 6, 8 and 13 to 15, for agents with `changed` = 1 only; others are TD3.

    Without `delay`, the run has policy_freq 1, and agents that are not changed leave out the
    delayed steps on every second update.
    """

    Settings = TrickSettings
    variant: TrickSettings

    @property
    def changed(self) -> Tensor:
        """Which agents are changed, (agents,)."""
        flags = torch.as_tensor(self.variant.changed, device=self.device) > 0.5
        return flags.expand(self.agents)

    @property
    def waits(self) -> Tensor:
        """Which agents leave out the delayed steps of this update, (agents,)."""
        odd = torch.from_numpy(self.updates % DELAY != 0).to(self.device)
        return odd & ~self.changed & (not self.variant.delay)

    def target_action(self, next_state: Tensor, noise: Any, settings: UpdateSettings) -> Tensor:
        if not self.variant.smoothing:
            noise = torch.where(per_agent(self.changed, noise) > 0, 0.0, noise)
        return super().target_action(next_state, noise, settings)

    def combine(self, next_values: Sequence[Tensor], noise: Any) -> Tensor:
        smaller = super().combine(next_values, noise)
        if self.variant.twin:
            return smaller
        return torch.where(per_agent(self.changed, smaller) > 0, next_values[0], smaller)

    def minimize(self, loss: Tensor, *networks: Trained[Any]) -> None:
        """Step 13: agents that wait keep their actor and its moments."""
        actor, waits = self.trained["actor"], self.waits
        if actor not in networks or not waits.any():
            super().minimize(loss, *networks)
            return
        optimizer = actor.optimizer
        parts = (actor.online.flat.detach(), optimizer.mean, optimizer.square, optimizer.count)
        before = [part.clone() for part in parts]
        super().minimize(loss, *networks)
        for part, old in zip(parts, before, strict=True):
            part[waits] = old[waits]

    def move_target(self, network: Trained[Any], settings: UpdateSettings) -> None:
        """Steps 14 and 15: targets of agents that wait stay where they are."""
        waits = self.waits
        if waits.any():
            tau = torch.where(waits, 0.0, torch.as_tensor(settings.tau, dtype=torch.float64))
            settings = replace(settings, tau=tau)
        super().move_target(network, settings)
