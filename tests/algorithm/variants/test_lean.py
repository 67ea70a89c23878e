"""The variant lean computes what PyTorch's own modules compute, for each agent alone."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.algorithm.variants.lean import LeanSettings, LeanTD3
from tests.support.flash_reference import project_target

STATE, ACTION, SIZE, RATE, BINS = 5, 2, 16, 1e-3, 11
SETTINGS = UpdateSettings(tau=0.1, policy_noise=0.15, noise_clip=0.3)


def make(seeds: list[int], **own: object) -> LeanTD3:
    return LeanTD3(
        STATE,
        ACTION,
        hidden_sizes=(8, 6),
        seed=seeds,
        dtype=torch.float64,
        actor_learning_rate=RATE,
        critic_learning_rate=RATE,
        variant=LeanSettings(name="lean", bins=BINS, **own),  # type: ignore[arg-type]
    )


def random_batch(agents: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def draw(width: int) -> Tensor:
        return torch.randn(agents, SIZE, width, generator=generator, dtype=torch.float64)

    return Batch(draw(STATE), draw(STATE), draw(ACTION).tanh(), draw(1), (draw(1) > 1).double())


def modules(layers: dict[str, Tensor]) -> nn.Sequential:
    """One network as PyTorch modules."""
    found: list[nn.Module] = []
    for number in (1, 2, 3):
        weight, bias = layers[f"layer_{number}.weight"], layers[f"layer_{number}.bias"]
        linear = nn.Linear(*weight.shape).double()
        linear.load_state_dict({"weight": weight.T, "bias": bias[0]})
        found += [linear, nn.ReLU()]
    return nn.Sequential(*found[:-1])


class Reference:
    """One agent of the variant, step by step."""

    def __init__(self, agent: LeanTD3, member: int, divisor: float) -> None:
        actor, critics = agent.actor.named_layers(), agent.critic.named_layers()
        self.actor = modules({name: layer[member] for name, layer in actor.items()})
        self.critics = [
            modules({name: layer[member, k] for name, layer in critics.items()}) for k in range(2)
        ]
        self.actor_target, self.critic_targets = copy.deepcopy((self.actor, self.critics))
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), RATE)
        weights = [weight for critic in self.critics for weight in critic.parameters()]
        self.critic_adam = torch.optim.Adam(weights, RATE)
        self.bins, self.divisor, self.updates = agent.bins.values[member, 0], divisor, 0

    def target(self, batch: Batch, noise: Tensor) -> Tensor:
        smoothing = (noise * 0.15).clamp(-0.3, 0.3)
        action = (self.actor_target(batch.next_state).tanh() + smoothing).clamp(-1, 1)
        pairs = torch.cat([batch.next_state, action], dim=1)
        one, other = (critic(pairs).softmax(1) for critic in self.critic_targets)
        is_less = (other @ self.bins < one @ self.bins).unsqueeze(1)
        discount = (1 - batch.done) * 0.99
        reward = batch.reward / self.divisor
        return project_target(torch.where(is_less, other, one), self.bins, reward, discount)

    def update(self, batch: Batch, noise: Tensor) -> tuple[float, float]:
        """Return the critic loss and the mean value of the first critic."""
        with torch.no_grad():
            target = self.target(batch, noise)
        outputs = [critic(torch.cat([batch.state, batch.action], 1)) for critic in self.critics]
        loss = torch.stack([F.cross_entropy(output, target) for output in outputs]).sum()
        self.critic_adam.zero_grad()
        loss.backward()
        self.critic_adam.step()
        if self.updates % 2 == 0:
            action = self.actor(batch.state).tanh()
            value = self.critics[0](torch.cat([batch.state, action], 1)).softmax(1) @ self.bins
            self.actor_adam.zero_grad()
            (-value.mean()).backward()
            self.actor_adam.step()
            online = [*self.actor.parameters(), *(w for c in self.critics for w in c.parameters())]
            follow = [self.actor_target, *self.critic_targets]
            targets = [weight for network in follow for weight in network.parameters()]
            for mine, theirs in zip(targets, online, strict=True):
                mine.data.lerp_(theirs.data, 0.1)
        self.updates += 1
        value = (outputs[0].detach().softmax(1) @ self.bins).mean() * self.divisor
        return float(loss.detach()), float(value)


def test_update_equals_pytorch_modules_in_float64() -> None:
    agents, divisors = make([0, 1]), (2.0, 3.0)
    references = [Reference(agents, member, divisors[member]) for member in range(2)]
    agents.return_scale.divisor[:, 0, 0] = torch.tensor(divisors)
    for number in range(6):
        batch, noise = random_batch(2, number), random_batch(2, 99).action
        found = agents.update(batch, noise, SETTINGS)
        for member, one in enumerate(references):
            rows = Batch(*(part[member] for part in batch))
            loss, value = one.update(rows, noise[member])
            assert float(found.critic_loss[member]) == pytest.approx(loss, rel=1e-9)
            assert float(found.q[member]) == pytest.approx(value, rel=1e-9)
    states = random_batch(1, 7).state[0]
    for member, one in enumerate(references):
        mine = agents.member(member)
        expected = one.actor_target(states).tanh()
        torch.testing.assert_close(mine.actor_target(states), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("pessimistic", [True, False])
def test_without_its_ingredients_equals_td3(pessimistic: bool) -> None:
    lean = make([0, 1], categorical=False, scale_rewards=False, pessimistic=pessimistic)
    kind = TD3 if pessimistic else MeanTD3
    rates = {"actor_learning_rate": RATE, "critic_learning_rate": RATE}
    sizes: Any = {"hidden_sizes": (8, 6), "dtype": torch.float64, **rates}
    plain = kind(STATE, ACTION, seed=[0, 1], **sizes)
    for number in range(3):
        batch, noise = random_batch(2, number), random_batch(2, 99).action
        for agent in (lean, plain):
            agent.update(batch, noise, SETTINGS)
    expected = plain.tensors()
    for name in (name for name in lean.tensors() if name in expected):
        torch.testing.assert_close(lean.tensors()[name], expected[name], msg=name)


class MeanTD3(TD3):
    def combine(self, next_values: Sequence[Tensor], noise: Any) -> Tensor:
        return (next_values[0] + next_values[1]) / 2


def test_rewards_are_not_scaled_when_the_setting_is_off() -> None:
    agent = make([0], scale_rewards=False)
    batch = random_batch(1, 0)
    assert torch.equal(agent.prepare(batch).reward, batch.reward)
