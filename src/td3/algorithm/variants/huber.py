"""Huber loss: large errors of the critics count linearly."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.stacked import per_agent
from td3.config import VariantSettings
from td3.config.fields import setting


@dataclass(frozen=True)
class HuberSettings(VariantSettings):
    delta: float = setting(
        1.0,
        "Error from which the loss is linear.",
        above=0,
        search=(0.1, 10.0, "log"),
        common=True,
    )


class HuberTD3(TD3):
    """Replaces step 11: the Huber loss instead of the squared error (Huber, 1964).

    An error e below `delta` costs e², a larger one delta · (2 · |e| - delta). With a large delta
    this is TD3. Rare, large rewards pull less at the critics.

    Measured on Pendulum (ten seeds, 5,000 steps): mean return +12 (-28 to +53) against TD3, no
    significant difference.
    """

    Settings = HuberSettings
    variant: HuberSettings

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        delta = per_agent(self.variant.delta, target_q)
        losses = []
        for value in values:
            error = (value - target_q).abs()
            inside = error.clamp(max=delta)
            losses.append((inside * (2 * error - inside)).mean(dim=(1, 2)))
        return functools.reduce(torch.add, losses)
