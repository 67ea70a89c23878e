"""Changes that a user may make to the algorithm, each of which every mode must honour."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.adam import Adam
from td3.algorithm.agent import TD3
from td3.algorithm.networks import Actor, Critic
from td3.algorithm.replay import Batch, ReplayBuffer
from td3.algorithm.settings import Diagnostics, UpdateSettings
from td3.algorithm.stacked import StackedParameters
from td3.algorithm.trained import Trained


class Penalty(TD3):
    """A penalty on the parameters, found through `parameters()`."""

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        penalty = sum(p.square().sum(dim=(1, 2)) for p in self.critic.parameters())
        return super().critic_loss(values, target_q) + 10 * penalty


class ClippedGradients(TD3):
    """PyTorch's own clipping of gradients."""

    def minimize(self, loss: Tensor, *networks: Trained[Any]) -> None:
        parameters = [network.online.flat for network in networks]
        gradients = torch.autograd.grad(loss.sum(), parameters)
        for network, gradient in zip(networks, gradients, strict=True):
            network.online.flat.grad = gradient
            torch.nn.utils.clip_grad_norm_(network.online.parameters(), 0.01)
            network.optimizer.step()


class RandomInside(TD3):
    """Random numbers of PyTorch inside the update."""

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        return super().critic_loss(values, target_q + torch.randn(target_q.shape).to(target_q))


class NumpyInside(TD3):
    """Random numbers of NumPy inside the update."""

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        number = float(self.smooth[0].standard_normal())
        return super().critic_loss(values, target_q + number)


class OtherDelay(TD3):
    """Actor steps at other times."""

    def due(self, policy_freq: int) -> bool:
        return bool(self.updates[0] % 3 == 1)


class OtherTrain(TD3):
    """Every update twice."""

    def train(self, replay_buffer: Any, iterations: int, *others: Any, **named: Any) -> Any:
        return super().train(replay_buffer, 2 * iterations, *others, **named)


class OtherNoise(TD3):
    """Smoothing noise of another distribution."""

    def draw_noise(self, batch_size: int) -> Tensor:
        noise: Tensor = super().draw_noise(batch_size)
        return noise.sign()


class NewestFirst(ReplayBuffer):
    """Sampling and gathering of one's own."""

    def draw(self, batch_size: int) -> NDArray[np.int64]:
        return np.maximum(super().draw(batch_size), 3)

    def gather(self, indices: NDArray[np.int64], device: Any = None, out: Any = None) -> Batch:
        batch = super().gather(indices, device)
        return batch._replace(reward=2 * batch.reward)


class OtherSampling(TD3):
    replay_class = NewestFirst


class GradientDescent(Adam):
    """An optimizer of one's own."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        (parameter,) = self.param_groups[0]["params"]
        parameter -= 0.01 * parameter.grad


class OtherOptimizer(TD3):
    def make_optimizer(self, network: StackedParameters, learning_rate: float | Tensor) -> Adam:
        return GradientDescent(network, learning_rate)


class LayerNormInside(Critic):
    def compute(self, x: Tensor, flat: Tensor) -> Tensor:
        *hidden, (weight, bias) = self.layers(flat)
        for hidden_weight, hidden_bias in hidden:
            x = torch.baddbmm(hidden_bias, x, hidden_weight)
            x = F.relu(F.layer_norm(x, x.shape[-1:]))
        return torch.baddbmm(bias, x, weight)


class LayerNorm(TD3):
    """An operator with several results, in an overridden `compute`."""

    def make_critic(self, inputs: int, **shared: Any) -> Critic:
        return LayerNormInside(inputs, self.action_dim, self.hidden_sizes, **shared)


class OwnTensor(TD3):
    """A tensor of one's own, changed in place and by assignment."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        shape = (self.agents, 1, 1)
        self.scale = torch.ones(shape, dtype=self.dtype, device=self.device)
        self.offset = torch.zeros(shape, dtype=self.dtype, device=self.device)

    def prepare(self, batch: Batch) -> Batch:
        self.scale.mul_(0.9).add_(0.1 * batch.reward.abs().mean(dim=(1, 2), keepdim=True))
        self.offset = 0.9 * self.offset + 0.1
        return batch._replace(reward=batch.reward / self.scale + self.offset)


class ReadsUpdates(TD3):
    """A number that depends on how many updates there were."""

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        return super().critic_loss(values, target_q) * float(1 + self.updates[0])


class Counts(TD3):
    """A number of one's own that an update changes."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.count = 0

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        self.count += 1
        return super().critic_loss(values, target_q) * self.count


class ReadsLoss(TD3):
    """A decision that depends on a number on the device."""

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        loss = super().critic_loss(values, target_q)
        return 2 * loss if float(loss.detach().sum()) > 0 else loss


class OtherUpdate(TD3):
    """The whole update overridden: two critic steps."""

    def update(
        self, batch: Batch, noise: Any, settings: UpdateSettings | None = None
    ) -> Diagnostics:
        super().update(batch, noise, settings)
        self.updates -= 1
        return super().update(batch, noise, settings)


class ThreeCritics(TD3):
    critics = 3


class SineActor(Actor):
    def forward(self, state: Tensor) -> Tensor:
        return torch.sin(super().forward(state))


class OtherActor(TD3):
    def make_actor(self, inputs: int, **shared: Any) -> Actor:
        return SineActor(inputs, self.action_dim, self.max_action, self.hidden_sizes, **shared)

    def observe(self, state: Tensor) -> Tensor:
        return super().observe(state).tanh()


FAST: list[type[TD3]] = [
    TD3,
    Penalty,
    ClippedGradients,
    OtherDelay,
    OtherNoise,
    OtherSampling,
    OtherOptimizer,
    LayerNorm,
    OwnTensor,
    ThreeCritics,
    OtherActor,
]
"""Changes that fast modes execute."""
SLOW: dict[type[TD3], str] = {
    RandomInside: "draws random numbers with PyTorch",
    NumpyInside: "changes self.smooth",
    OtherTrain: "train method is overridden",
    ReadsUpdates: "reads self.updates",
    Counts: "changes self.count",
    ReadsLoss: "cannot be traced",
    OtherUpdate: "reads self.updates",
}
"""Changes for which fast modes step aside, and what they report."""
