"""One agent of the variant flash with PyTorch's own modules, step by step."""

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from td3.algorithm.replay import Batch
from td3.algorithm.residual import Body
from td3.algorithm.settings import UpdateSettings
from td3.algorithm.variants.flash import FlashSettings


def norm(width: int, body: Body) -> nn.Module:
    return nn.BatchNorm1d(width, eps=1e-5, momentum=0.01) if body.batch_norm else nn.Identity()


class Block(nn.Module):
    def __init__(self, body: Body) -> None:
        super().__init__()
        self.residual, wide = body.residual, 4 * body.width
        self.wide = nn.Linear(body.width, wide, bias=False)
        self.wide_norm = norm(wide, body)
        self.narrow = nn.Linear(wide, body.width, bias=False)
        self.narrow_norm = norm(body.width, body)

    def forward(self, x: Tensor) -> Tensor:
        inside = F.relu(self.wide_norm(self.wide(x)))
        inside = F.relu(self.narrow_norm(self.narrow(inside)))
        return x + inside if self.residual else inside


class Network(nn.Module):
    """The reference of `ResidualNetwork` for one network."""

    def __init__(self, inputs: int, outputs: int, body: Body) -> None:
        super().__init__()
        self.body = body
        self.input_norm, self.input = norm(inputs, body), nn.Linear(inputs, body.width, bias=False)
        self.blocks = nn.ModuleList([Block(body) for _ in range(body.blocks)])
        self.output_scale = nn.Parameter(torch.ones(body.width), body.output_norm)
        self.output = nn.Linear(body.width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.input(self.input_norm(x))
        for block in self.blocks:
            x = block(x)
        if self.body.output_norm:
            x = F.rms_norm(x, x.shape[-1:], eps=1e-6) * self.output_scale
        return self.output(x)  # type: ignore[no-any-return]

    def parts(self) -> list[tuple[str, nn.Module, nn.Module]]:
        """Name, linear layer and its normalisation, in the order of their use."""
        found = [("input", self.input, self.input_norm)]
        for number, block in enumerate(self.blocks, start=1):
            found.append((f"block_{number}.wide", block.wide, block.wide_norm))
            found.append((f"block_{number}.narrow", block.narrow, block.narrow_norm))
        return found

    @torch.no_grad()
    def copy_from(self, layers: dict[str, Tensor], mean: Tensor, variance: Tensor) -> "Network":
        """Take over one network's layers and running statistics."""
        position = 0
        for name, linear, batch_norm in self.parts():
            linear.weight.copy_(layers[f"{name}.weight"].T)
            if isinstance(batch_norm, nn.BatchNorm1d):
                width = batch_norm.num_features
                batch_norm.weight.copy_(layers[f"{name}.scale"][0])
                batch_norm.bias.copy_(layers[f"{name}.shift"][0])
                batch_norm.running_mean.copy_(mean[0, position : position + width])
                batch_norm.running_var.copy_(variance[0, position : position + width])
                position += width
        if self.body.output_norm:
            self.output_scale.copy_(layers["output.scale"][0])
        self.output.weight.copy_(layers["output.weight"].T)
        self.output.bias.copy_(layers["output.bias"][0])
        return self

    def numbers(self) -> dict[str, Tensor]:
        """Layers by the names of `ResidualNetwork`."""
        found = {"output.weight": self.output.weight.T, "output.bias": self.output.bias[None]}
        if self.body.output_norm:
            found["output.scale"] = self.output_scale[None]
        for name, linear, batch_norm in self.parts():
            found[f"{name}.weight"] = linear.weight.T
            if isinstance(batch_norm, nn.BatchNorm1d):
                found |= {f"{name}.scale": batch_norm.weight[None]}
                found |= {f"{name}.shift": batch_norm.bias[None]}
        return found

    def statistics(self) -> list[Tensor]:
        """Running means and variances in the order of `ResidualNetwork`."""
        norms = [part for _, _, part in self.parts() if isinstance(part, nn.BatchNorm1d)]
        return [numbers for own in norms for numbers in (own.running_mean, own.running_var)]

    @torch.no_grad()
    def project(self) -> None:
        for _, linear, batch_norm in self.parts():
            linear.weight.copy_(unit_rows(linear.weight))
            if isinstance(batch_norm, nn.BatchNorm1d):
                both = torch.cat([batch_norm.weight, batch_norm.bias])
                factor = (
                    batch_norm.num_features / (both.square().sum() + len(both) / 2 * 1e-8)
                ) ** 0.5
                batch_norm.weight *= factor
                batch_norm.bias *= factor
        self.output.weight.copy_(unit_rows(self.output.weight))
        if self.body.output_norm:
            self.output_scale /= (self.output_scale.square().mean() + 1e-8) ** 0.5


def unit_rows(weight: Tensor) -> Tensor:
    return weight / (weight.square().sum(1, keepdim=True) + 1e-8) ** 0.5


def project_target(probabilities: Tensor, values: Tensor, reward: Tensor, discount: Tensor) -> Any:
    """The categorical projection of C51 with loops over samples and bins."""
    spacing, last = float(values[1] - values[0]), len(values) - 1
    found = torch.zeros_like(probabilities)
    for sample in range(len(probabilities)):
        for k in range(len(values)):
            shifted = float(reward[sample] + discount[sample] * values[k])
            place = (
                min(max(shifted, float(values[0])), float(values[-1])) - float(values[0])
            ) / spacing
            low = min(int(place), last)
            share = place - low
            found[sample, low] += probabilities[sample, k] * (1 - share)
            if share > 0:
                found[sample, min(low + 1, last)] += probabilities[sample, k] * share
    return found


@dataclass
class Reference:
    """The update of one agent."""

    own: FlashSettings
    actor: Network
    critics: list[Network]
    values: Tensor | None
    """Of the bins; None: critics give plain numbers."""
    rate: float
    divisor: float = 1.0
    updates: int = 0
    targets: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.targets = {
            "actor": copy.deepcopy(self.actor),
            "critics": copy.deepcopy(self.critics),
        }
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), self.rate)
        parameters = [p for critic in self.critics for p in critic.parameters()]
        self.critic_adam = torch.optim.Adam(parameters, self.rate)

    def both(
        self, critics: list[Network], given: tuple[Tensor, ...]
    ) -> list[tuple[Tensor, Tensor]]:
        state, action, next_state, next_action = given
        now, then = torch.cat([state, action], 1), torch.cat([next_state, next_action], 1)
        found = []
        for critic in critics:
            if self.own.joint_batch:
                critic.train()
                raw = self.logs(critic(torch.cat([now, then])))
                found.append((raw[: len(now)], raw[len(now) :]))
            else:
                critic.eval()
                following = self.logs(critic(then))
                critic.train()
                found.append((self.logs(critic(now)), following))
        return found

    def logs(self, raw: Tensor) -> Tensor:
        return raw if self.values is None else raw.log_softmax(-1)

    def mean(self, raw: Tensor) -> Tensor:
        """The expected value of each row, (batch,)."""
        return raw[:, 0] if self.values is None else raw.softmax(-1) @ self.values

    def target(self, nexts: list[Tensor], reward: Tensor, discount: Tensor) -> Tensor:
        if self.values is None:
            one, other = nexts
            both = torch.minimum(one, other) if self.own.pessimistic else (one + other) / 2
            return reward + discount * both
        one, other = nexts[0].exp(), nexts[1].exp()
        is_less = (other @ self.values < one @ self.values)[:, None]
        mixed = torch.where(is_less, other, one) if self.own.pessimistic else (one + other) / 2
        return project_target(mixed, self.values, reward, discount)  # type: ignore[no-any-return]

    def loss(self, logs: Tensor, target: Tensor) -> Tensor:
        if self.values is None:
            return F.mse_loss(logs, target)
        return -(target * logs).sum(-1).mean()

    def update(self, batch: Batch, noise: Tensor, settings: UpdateSettings) -> tuple[float, float]:
        state, next_state, action, reward, done = batch
        reward = reward / self.divisor
        with torch.no_grad():
            chooser = self.targets["actor"] if self.own.target_actor else self.actor
            chooser.eval()
            clip = settings.noise_clip
            smoothing = (noise * settings.policy_noise).clamp(-clip, clip)
            next_action = (torch.tanh(chooser(next_state)) + smoothing).clamp(-1, 1)
            given = state, action, next_state, next_action
            kept = copy.deepcopy(self.targets["critics"])
            nexts = [then for _, then in self.both(self.targets["critics"], given)]
            self.targets["critics"] = kept  # targets do not follow their own batches
            target = self.target(nexts, reward, (1 - done) * settings.discount)
        losses = [self.loss(now, target) for now, _ in self.both(self.critics, given)]
        critic_loss = sum(losses) / len(losses)
        self.critic_adam.zero_grad()
        critic_loss.backward()
        self.critic_adam.step()
        self.after(self.critics)
        actor_loss = float("nan")
        if self.updates % settings.policy_freq == 0:
            actor_loss = self.improve(state, next_state)
            self.follow(self.targets["actor"], self.actor, settings.tau)
            for target_critic, critic in zip(self.targets["critics"], self.critics, strict=True):
                self.follow(target_critic, critic, settings.tau)
        self.updates += 1
        return float(critic_loss.detach()), actor_loss

    def improve(self, state: Tensor, next_state: Tensor) -> float:
        self.actor.train()
        raw = self.actor(torch.cat([state, next_state]))[: len(state)]
        pairs = torch.cat([state, torch.tanh(raw)], 1)
        values = []
        for critic in self.critics:
            critic.eval()
            values.append(self.mean(critic(pairs)))
        stacked = torch.stack(values)
        value = {"first": stacked[0], "mean": stacked.mean(0), "minimum": stacked.amin(0)}
        loss = -value[self.own.actor_follows].mean()
        loss = loss + self.own.saturation_penalty * raw.square().mean()
        self.actor_adam.zero_grad()
        loss.backward()
        self.actor_adam.step()
        self.after([self.actor])
        return float(loss.detach())

    def after(self, networks: list[Network]) -> None:
        for network in networks:
            if self.own.unit_weights:
                network.project()

    @torch.no_grad()
    def follow(self, target: Network, online: Network, tau: float) -> None:
        mine = [*target.parameters(), *target.buffers()]
        theirs = [*online.parameters(), *online.buffers()]
        for one, other in zip(mine, theirs, strict=True):
            if one.is_floating_point():
                one.lerp_(other, tau)
