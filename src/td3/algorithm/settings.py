"""What goes into an update besides its batch, and what comes out."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True)
class UpdateSettings:
    """The numbers of an update: one for all agents, or a tensor (agents,) with one for each.

    `policy_noise` and `noise_clip` are shares of `max_action`.
    """

    discount: float | Tensor = 0.99
    tau: float | Tensor = 0.005
    policy_noise: float | Tensor = 0.2
    noise_clip: float | Tensor = 0.5
    policy_freq: int = 2


class Diagnostics(NamedTuple):
    """What an update measured, still on the device: one number per agent, (agents,)."""

    critic_loss: Tensor
    q: Tensor
    actor_loss: Tensor | None
    priorities: Tensor | None = None
    """Of the sampled transitions, (agents, batch)."""
