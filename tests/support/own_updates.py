"""Changes that a user may make to the algorithm, each of which every mode must honour."""

import itertools
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
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


class Factor(TD3):
    """Multiplies the critic loss by a factor that subclasses choose."""

    def factor(self, target_q: Tensor) -> Any:
        return 1.0

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        return super().critic_loss(values, target_q) * self.factor(target_q)


class PythonRandom(Factor):
    """A rare event, which the check of the first updates may miss."""

    def factor(self, target_q: Tensor) -> float:
        return 10.0 if random.random() < 0.05 else 1.0


class NumpyGlobal(Factor):
    def factor(self, target_q: Tensor) -> float:
        return 10.0 if np.random.rand() < 0.05 else 1.0  # noqa: NPY002


class OwnGenerator(Factor):
    """A random generator of one's own: of Python, of old NumPy, of PyTorch."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.generator = self.make_generator()

    def make_generator(self) -> Any:
        return random.Random(0)

    def factor(self, target_q: Tensor) -> Any:
        return 10.0 if self.generator.random() < 0.05 else 1.0


class OwnRandomState(OwnGenerator):
    def make_generator(self) -> Any:
        return np.random.RandomState(0)

    def factor(self, target_q: Tensor) -> Any:
        return 10.0 if self.generator.rand() < 0.05 else 1.0


class OwnTorchGenerator(OwnGenerator):
    def make_generator(self) -> Any:
        return torch.Generator().manual_seed(0)

    def factor(self, target_q: Tensor) -> Any:
        numbers = torch.rand(self.agents, generator=self.generator)
        return numbers.to(target_q.device)


@dataclass(slots=True)
class InSlots:
    count: int
    tensor: Tensor


class CountsInSlots(Factor):
    """Changes an object that has no `__dict__`."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.slots = InSlots(0, torch.ones(self.agents, device=self.device))

    def factor(self, target_q: Tensor) -> float:
        self.slots.count += 1
        return 10.0 if self.slots.count % 7 == 0 else 1.0


class TensorInSlots(CountsInSlots):
    def factor(self, target_q: Tensor) -> Any:
        self.slots.tensor = 0.9 * self.slots.tensor + 0.1 * target_q.abs().mean(dim=(1, 2))
        return self.slots.tensor


class CountsByIterator(Factor):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.counter = itertools.count(1)

    def factor(self, target_q: Tensor) -> float:
        return 10.0 if next(self.counter) % 7 == 0 else 1.0


class RemembersInDeque(Factor):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        sizes = torch.ones(3, self.agents, device=self.device)
        self.sizes = deque([size.clone() for size in sizes], maxlen=3)

    def factor(self, target_q: Tensor) -> Tensor:
        self.sizes.append(target_q.abs().mean(dim=(1, 2)))
        return torch.stack(list(self.sizes)).mean(dim=0)


class ReadsArray(Factor):
    def factor(self, target_q: Tensor) -> float:
        return float(np.abs(target_q.cpu().numpy()).mean())


class ReadsList(Factor):
    def factor(self, target_q: Tensor) -> Tensor:
        return target_q.new_tensor(target_q.mean(dim=(1, 2)).tolist())


class CatchesErrors(Factor):
    """Would take another branch while it is traced."""

    def factor(self, target_q: Tensor) -> float:
        try:
            return 2.0 if float(target_q.abs().max()) > 1 else 1.0
        except RuntimeError:
            return 3.0


class ChoosesByMask(Factor):
    """Results whose shape depends on numbers."""

    def factor(self, target_q: Tensor) -> Tensor:
        means = [values[values > 0].sum() for values in target_q]
        return torch.stack(means)


class SharedTensor(Factor):
    """Tensors that belong to all agents: their first axis is not the agent."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.weights = torch.linspace(0.5, 1.5, 8, device=self.device)
        self.total = torch.zeros((), device=self.device)

    def factor(self, target_q: Tensor) -> Tensor:
        self.total += 1
        return (target_q.squeeze(-1).abs() * self.weights).mean(dim=1) / self.total


class OwnOptimizer(Factor):
    """A learned factor with an optimizer of PyTorch, which makes its state in its first step."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.logarithm = torch.zeros(self.agents, device=self.device, requires_grad=True)
        self.optimizer = torch.optim.Adam([self.logarithm], lr=0.01)

    def factor(self, target_q: Tensor) -> Tensor:
        size = target_q.abs().mean(dim=(1, 2))
        self.optimizer.zero_grad()
        with torch.enable_grad():
            (self.logarithm.exp() * (size - 1)).sum().backward()
        self.optimizer.step()
        return self.logarithm.detach().exp()


class AssignsData(TD3):
    def move_target(self, network: Trained[Any], settings: UpdateSettings) -> None:
        target = network.target.flat
        target.data = 0.9 * target.data + 0.1 * network.online.flat.data


class Scheduled(TD3):
    """A scheduler of PyTorch, which replaces a method of the optimizer."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        optimizer = self.critic_optimizer
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def minimize(self, loss: Tensor, *networks: Trained[Any]) -> None:
        super().minimize(loss, *networks)
        if networks[0] is self.trained["critic"]:
            self.schedule.step()


class CountsInClass(Factor):
    """A counter that all agents of the class share."""

    count = 0

    @classmethod
    def reset(cls) -> None:
        cls.count = 0

    def factor(self, target_q: Tensor) -> float:
        type(self).count += 1
        return 10.0 if self.count % 7 == 0 else 1.0


COUNTS = {"module": 0}
TOTAL = 0


def count_up() -> int:
    global TOTAL
    TOTAL += 1
    return TOTAL


class CountsInModule(CountsInClass):
    @classmethod
    def reset(cls) -> None:
        global TOTAL
        TOTAL = 0

    def factor(self, target_q: Tensor) -> float:
        return 10.0 if count_up() % 7 == 0 else 1.0


class CountsInTable(CountsInClass):
    @classmethod
    def reset(cls) -> None:
        COUNTS["module"] = 0

    def factor(self, target_q: Tensor) -> float:
        COUNTS["module"] += 1
        return 10.0 if COUNTS["module"] % 7 == 0 else 1.0


OUTSIDE = {
    CountsInClass: "changes CountsInClass.count",
    CountsInModule: "changes support.own_updates.TOTAL",
    CountsInTable: "changes support.own_updates.COUNTS.module",
}
"""Changes of something that is not part of the agent, and what fast modes report."""


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
    TensorInSlots,
    RemembersInDeque,
    SharedTensor,
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
    PythonRandom: "draws random numbers outside PyTorch",
    NumpyGlobal: "draws random numbers outside PyTorch",
    OwnGenerator: "changes self.generator",
    OwnRandomState: "changes self.generator",
    OwnTorchGenerator: "changes self.generator",
    CountsInSlots: "changes self.slots.count",
    CountsByIterator: "self.counter is an iterator",
    ReadsArray: "uses numpy() of a tensor",
    ReadsList: "uses tolist() of a tensor",
    CatchesErrors: "cannot be traced",
    ChoosesByMask: "the shape of a result depends on numbers",
    AssignsData: "uses an assignment to data",
    Scheduled: "changes self.schedule",
    OwnOptimizer: "adds the tensor self.optimizer.state.0.step",
}
"""Changes for which fast modes step aside, and what they report."""
NOT_STORED = {
    Counts,
    CountsByIterator,
    CountsInSlots,
    NumpyGlobal,
    OwnGenerator,
    OwnRandomState,
    OwnTorchGenerator,
    PythonRandom,
    Scheduled,
}
"""Changes of what is not a tensor; checkpoints do not contain it."""
