"""What goes into an update besides its batch, and what comes out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class Noise(NamedTuple):
    """The random numbers of an update of a variant with `own_numbers`."""

    smoothing: Tensor
    """Standard normal numbers of step 6, (agents, batch, action_dim)."""
    own: Tensor
    """What `draw_own` wrote, (agents, own_numbers)."""


class Diagnostics(NamedTuple):
    """What an update measured, still on the device: one number per agent, (agents,)."""

    critic_loss: Tensor
    q: Tensor
    actor_loss: Tensor | None
    priorities: Tensor | None = None
    """Of the sampled transitions, (agents, batch)."""


FAST_PATHS: list[Callable[..., list[Diagnostics] | None]] = []
"""What `TD3.train` tries first; `td3/__init__.py` adds `execution/direct.py`."""


def train_fast(*given: Any) -> list[Diagnostics] | None:
    """The result of the fast path for the arguments of `TD3.train`; None if there is none."""
    return FAST_PATHS[0](*given) if FAST_PATHS else None
