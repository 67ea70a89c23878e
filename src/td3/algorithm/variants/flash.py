"""TD3 on residual networks with categorical critics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.categorical import Numbers, make_values
from td3.algorithm.replay import Batch
from td3.algorithm.residual import Body, ResidualNetwork
from td3.algorithm.return_scale import ReturnScale
from td3.algorithm.settings import Diagnostics, UpdateSettings
from td3.algorithm.stacked import check_width, per_agent
from td3.algorithm.trained import Trained
from td3.algorithm.transitions import Transitions
from td3.config import VariantSettings
from td3.config.fields import setting
from td3.errors import UserError
from td3.layout import has_images


@dataclass(frozen=True)
class FlashSettings(VariantSettings):
    critic_width: int = setting(256, "Width of the critics; inside a block four times.", min=1)
    actor_width: int = setting(128, "Width of the actor; inside a block four times.", min=1)
    blocks: int = setting(2, "Residual blocks of each network.", min=0)
    batch_norm: bool = setting(True, "Normalise inputs and hidden layers over the batch.")
    unit_weights: bool = setting(True, "Scale each unit's weights to length 1 after each step.")
    residual: bool = setting(True, "Add the input of each block to its output.")
    output_norm: bool = setting(True, "Scale what the last layer gets to mean square 1.")
    joint_batch: bool = setting(True, "Critics see current and next states in one batch.")
    categorical: bool = setting(True, "Critics give distributions; otherwise plain numbers.")
    bins: int = setting(101, "Bins of the critics' distribution.", min=2)
    limit: float = setting(5.0, "Largest value of a bin.", above=0, search=(2.0, 20.0, "log"))
    scale_rewards: bool = setting(True, "Divide rewards by the running scale of the returns.")
    pessimistic: bool = setting(True, "Step 8: the smaller value; otherwise the critics' mean.")
    target_actor: bool = setting(True, "Step 5 uses the target actor; otherwise the actor.")
    actor_follows: Literal["first", "mean", "minimum"] = setting(
        "minimum", "The value that the actor climbs: first critic, mean or minimum of all."
    )
    saturation_penalty: float = setting(
        0.0,
        "Weight of the mean squared action before tanh in the actor's loss.",
        min=0,
        search=(1e-5, 1e-2, "log"),
    )


class FlashActor(ResidualNetwork):
    """Step 2: the actor, a residual network with tanh."""

    def __init__(
        self, inputs: int, action_dim: int, max_action: ArrayLike, body: Body, **shared: Any
    ) -> None:
        agents = shared.pop("agents")
        super().__init__((agents,), inputs, action_dim, body, **shared)
        self.state_dim = inputs
        limit = torch.as_tensor(max_action, dtype=shared["dtype"], device=shared["device"])
        self.max_action: Tensor
        self.register_buffer(
            "max_action", limit.expand(agents, 1, action_dim).clone(), persistent=False
        )

    def forward(self, state: Tensor, **how: Any) -> Tensor:
        """(agents, batch, state_dim) → (agents, batch, action_dim)."""
        check_width("state", state, self.state_dim)
        return self.limited(self.compute(state, **how))

    def limited(self, raw: Tensor) -> Tensor:
        """The action within ±max_action."""
        return self.max_action * torch.tanh(raw)


class FlashCritic(ResidualNetwork):
    """Step 3: critics that give each bin of values a probability, or plain numbers."""

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        critics: int,
        bins: Numbers,
        body: Body,
        **shared: Any,
    ) -> None:
        leading = (shared.pop("agents"), critics)
        super().__init__(leading, state_dim + action_dim, bins.outputs, body, **shared)
        self.bins = bins

    def log_distributions(
        self, state: Tensor, action: Tensor, part: int | None = None, **how: Any
    ) -> Tensor:
        """(agents, critics, batch, bins); with `part`, of one critic."""
        pairs = torch.cat([state, action], dim=-1)
        critics = self.leading[1] if part is None else 1
        networks = pairs.unsqueeze(1).expand(-1, critics, -1, -1).flatten(0, 1)
        raw = self.compute(networks, part=part, **how).unflatten(0, (-1, critics))
        return self.bins.log_distribution(raw)

    def forward(self, state: Tensor, action: Tensor, **how: Any) -> tuple[Tensor, ...]:
        """Every critic's expected values, (agents, batch, 1) each."""
        found = self.bins.from_log(self.log_distributions(state, action, **how))
        return tuple([self.bins.mean(own) for own in found.unbind(1)])

    def Q1(self, state: Tensor, action: Tensor) -> Tensor:
        """The first critic alone."""
        return self.forward(state, action, part=0)[0]


class FlashTD3(TD3):
    """Replaces steps 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14 and 15: the body of FlashSAC.

    From FlashSAC (Holiday-Robot, 2026), made deterministic: residual networks with batch
    normalisation (2, 3) whose weights are projected after each step (12, 13), rewards divided by
    the scale of the returns (4), current and next states in one batch (7, 10), the categorical
    target of the critic with the smaller mean (8, 9) with cross-entropy (11), and targets that
    include the running statistics (14, 15). Its effect on returns is not measured yet.
    """

    Settings = FlashSettings
    learned_with = ("limit",)
    variant: FlashSettings

    @property
    def networks(self) -> tuple[FlashActor, FlashCritic, FlashCritic]:
        """Actor, critics and target critics."""
        actor, critic = self.trained["actor"], self.trained["critic"]
        return actor.online, critic.online, critic.target

    def __init__(self, state_dim: int, action_dim: int, *args: Any, **more: Any) -> None:
        if more.get("layout") is not None and has_images(more["layout"]):
            raise UserError("The variant flash has no encoder for images.")
        super().__init__(state_dim, action_dim, *args, **more)
        own = self.variant
        self.return_scale = ReturnScale(self.agents, own.limit, self.dtype, self.device)

    def body(self, width: int) -> Body:
        own = self.variant
        parts = own.batch_norm, own.unit_weights, own.residual, own.output_norm
        return Body(width, own.blocks, *parts)

    def make_actor(self, inputs: int, **shared: Any) -> Any:
        body = self.body(self.variant.actor_width)
        return FlashActor(inputs, self.action_dim, self.max_action, body, **shared)

    def make_critic(self, inputs: int, **shared: Any) -> Any:
        own, body = self.variant, self.body(self.variant.critic_width)
        self.bins = make_values(own, self.agents, self.dtype, self.device)
        return FlashCritic(inputs, self.action_dim, self.critics, self.bins, body, **shared)

    def watch(self, transitions: Transitions, discounts: NDArray[np.float64]) -> None:
        if self.variant.scale_rewards:
            self.return_scale.watch(transitions, discounts)

    def prepare(self, batch: Batch) -> Batch:
        return batch._replace(reward=batch.reward / self.return_scale.divisor)

    def update(
        self, batch: Batch, noise: Any, settings: UpdateSettings | None = None
    ) -> Diagnostics:
        """Steps 5 to 15."""
        settings = settings or UpdateSettings()
        _, critic, critic_target = self.networks
        batch = self.prepare(batch)
        state, next_state = self.observe(batch.state), self.observe_target(batch.next_state)
        with torch.no_grad():
            # Steps 5 and 6: the next action, smoothed.
            next_action = self.target_action(next_state, noise, settings)

            # Steps 7 to 9: the distribution that the critics should learn.
            given = state, batch.action, next_state, next_action
            _, following = self.value(critic_target, *given)
            combined = self.combine(self.bins.from_log(following).unbind(1), noise)
            discount = (1 - batch.done) * per_agent(settings.discount, batch.done)
            target = self.bins.target(combined, batch.reward, discount)

        # Steps 10 and 11: all critics value the action in the buffer; cross-entropy to the target.
        current, _ = self.value(critic, *given, remember=True)
        critic_loss = self.critic_loss(current.unbind(1), target)

        # Step 12: one optimizer step of the critics, then project their weights.
        self.minimize(critic_loss, self.trained["critic"])

        actor_loss = None
        if self.due(settings.policy_freq):
            # Step 13: the actor takes a step up the critics' value.
            actor_loss = self.actor_loss(state, next_state)
            self.minimize(actor_loss, self.trained["actor"])
            actor_loss = actor_loss.detach()

            # Steps 14 and 15: the targets follow slowly.
            self.move_target(self.trained["actor"], settings)
            self.move_target(self.trained["critic"], settings)

        self.updates += 1
        with torch.no_grad():
            values = self.as_value(current[:, 0].detach())
        return Diagnostics(critic_loss.detach(), values.mean(dim=(1, 2)), actor_loss)

    def target_action(self, next_state: Tensor, noise: Any, settings: UpdateSettings) -> Tensor:
        """Steps 5 and 6."""
        actor = self.actor_target if self.variant.target_actor else self.actor
        return self.smooth_action(actor(next_state), noise, settings)

    def combine(self, next_values: Sequence[Tensor], noise: Any) -> Tensor:
        """Step 8: the distribution with the smaller mean, (agents, batch, bins)."""
        choose = self.bins.smallest if self.variant.pessimistic else self.bins.average
        return choose(next_values)

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        """Step 11: the mean of the critics' cross-entropies to the target, (agents,)."""
        losses = [self.bins.loss(own, target_q).mean(dim=(1, 2)) for own in values]
        return torch.stack(losses).mean(dim=0)

    def as_value(self, output: Tensor) -> Tensor:
        """The return of a value that `critic` gives, or of log-probabilities."""
        if output.shape[-1] > 1:
            return self.target_value(self.bins.from_log(output))
        return output * self.return_scale.divisor

    def target_value(self, target: Tensor) -> Tensor:
        return self.bins.mean(target) * self.return_scale.divisor

    def value(
        self,
        critic: FlashCritic,
        state: Tensor,
        action: Tensor,
        next_state: Tensor,
        next_action: Tensor,
        remember: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Steps 7 and 10: log-probabilities of the current and of the next values.

        In one batch both are normalised with the same statistics (CrossQ, Bhatt et al., 2024).
        """
        how = {"training": True, "remember": remember}
        if self.variant.joint_batch:
            states, actions = torch.cat([state, next_state], 1), torch.cat([action, next_action], 1)
            both = critic.log_distributions(states, actions, **how)
            current, following = both.chunk(2, dim=2)
            return current, following
        current = critic.log_distributions(state, action, **how)
        with torch.no_grad():
            return current, critic.log_distributions(next_state, next_action)

    def actor_loss(self, state: Tensor, next_state: Tensor) -> Tensor:  # type: ignore[override]
        """Step 13: minus the value of the actor's actions, (agents,)."""
        own, (actor, critic, _) = self.variant, self.networks
        raw = actor.compute(torch.cat([state, next_state], 1), training=True, remember=True)
        raw = raw.chunk(2, dim=1)[0]
        part = 0 if own.actor_follows == "first" else None
        values = torch.stack(critic(state, actor.limited(raw), part=part))
        value = values.amin(dim=0) if own.actor_follows == "minimum" else values.mean(dim=0)
        penalty = per_agent(own.saturation_penalty, raw) * raw.square()
        return torch.mean(penalty, dim=(1, 2)) - value.mean(dim=(1, 2))

    def minimize(self, loss: Tensor, *networks: Trained[Any]) -> None:
        """Steps 12 and 13: one optimizer step, then the projection of the weights."""
        super().minimize(loss, *networks)
        for network in networks:
            network.online.project()

    @torch.no_grad()
    def move_target(self, network: Trained[Any], settings: UpdateSettings) -> None:
        """Steps 14 and 15: Polyak averaging of weights and running statistics."""
        super().move_target(network, settings)
        target, online = network.target, network.online
        tau = per_agent(settings.tau, online.running_mean)
        target.running_mean.lerp_(online.running_mean, tau)
        target.running_variance.lerp_(online.running_variance, tau)
