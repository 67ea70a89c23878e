"""Categorical critics and scaled rewards on small networks."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.categorical import make_values
from td3.algorithm.networks import Critic
from td3.algorithm.replay import Batch
from td3.algorithm.return_scale import ReturnScale
from td3.algorithm.settings import UpdateSettings
from td3.algorithm.stacked import per_agent
from td3.algorithm.transitions import Transitions
from td3.config import VariantSettings
from td3.config.fields import setting


@dataclass(frozen=True)
class LeanSettings(VariantSettings):
    categorical: bool = setting(True, "Critics give distributions; otherwise plain numbers.")
    bins: int = setting(101, "Bins of the critics' distribution.", min=2)
    limit: float = setting(5.0, "Largest value of a bin.", above=0, search=(2.0, 20.0, "log"))
    scale_rewards: bool = setting(True, "Divide rewards by the running scale of the returns.")
    pessimistic: bool = setting(True, "Step 8: the smaller value; otherwise the critics' mean.")


class LeanTD3(TD3):
    """Replaces steps 3, 4, 8, 9, 11 and 13: categorical critics (C51) and scaled rewards.

    The cheap ingredients of SimbaV2 (Lee et al., 2025) and FlashSAC on TD3's own networks: each
    critic gives 101 values a probability (3), rewards are divided by the scale of the returns (4),
    the target is the distribution with the smaller mean (8), shifted and projected (9), the loss
    is the cross-entropy (11), and the actor climbs the mean of the first critic (13).

    Measured on InvertedDoublePendulum (three seeds, 10,000 steps): mean return +8,626 (+7,310 to
    +9,942) for the recipe `lean` against `paper`. A million steps are not measured yet.
    """

    Settings = LeanSettings
    learned_with = ("limit",)
    variant: LeanSettings

    def make_critic(self, inputs: int, **shared: Any) -> Critic:
        own, sizes = self.variant, (inputs, self.action_dim, self.hidden_sizes)
        self.bins = make_values(own, self.agents, self.dtype, self.device)
        self.return_scale = ReturnScale(self.agents, own.limit, self.dtype, self.device)
        return Critic(*sizes, critics=self.critics, outputs=self.bins.outputs, **shared)

    def watch(self, transitions: Transitions, discounts: NDArray[np.float64]) -> None:
        if self.variant.scale_rewards:
            self.return_scale.watch(transitions, discounts)

    def prepare(self, batch: Batch) -> Batch:
        return batch._replace(reward=batch.reward / self.return_scale.divisor)

    def target_q(self, batch: Batch, noise: Any, settings: UpdateSettings) -> Tensor:
        """Steps 5 to 9: the distribution that the critics should learn, (agents, batch, bins)."""
        next_state = self.observe_target(batch.next_state)
        next_action = self.target_action(next_state, noise, settings)
        outputs = self.critic_target(next_state, next_action)
        combined = self.combine([self.bins.distribution(output) for output in outputs], noise)
        discount = (1 - batch.done) * per_agent(settings.discount, batch.done)
        return self.bins.target(combined, batch.reward, discount)

    def combine(self, next_values: Sequence[Tensor], noise: Any) -> Tensor:
        """Step 8: the distribution with the smaller mean, (agents, batch, bins)."""
        choose = self.bins.smallest if self.variant.pessimistic else self.bins.average
        return choose(next_values)

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        """Step 11: the sum of the critics' cross-entropies to the target, (agents,)."""
        errors = [self.bins.loss(self.bins.log_distribution(own), target_q) for own in values]
        return functools.reduce(torch.add, [error.mean(dim=(1, 2)) for error in errors])

    def actor_loss(self, state: Tensor) -> Tensor:
        """Step 13: minus the mean of the first critic's distribution, (agents,)."""
        output = self.critic.Q1(state, self.actor(state))
        return -self.bins.mean(self.bins.distribution(output)).mean(dim=(1, 2))

    def as_value(self, output: Tensor) -> Tensor:
        return self.target_value(self.bins.distribution(output))

    def target_value(self, target: Tensor) -> Tensor:
        return self.bins.mean(target) * self.return_scale.divisor
