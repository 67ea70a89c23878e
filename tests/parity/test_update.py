"""The update against an independent float64 reference, number by number."""

import numpy as np
import pytest
import torch
from support.reference import Layers, ReferenceTD3

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.algorithm.stacked import StackedMLP

STATE, ACTION, BATCH = 5, 3, 32
SETTINGS = {"discount": 0.97, "tau": 0.01, "policy_noise": 0.3, "noise_clip": 0.4, "policy_freq": 2}
TOLERANCE = 1e-10


def layers(network: StackedMLP, *row: int) -> Layers:
    return [
        (weight[row].detach().numpy().copy(), bias[row].detach().numpy().ravel().copy())
        for weight, bias in network.layers()
    ]


def reference_of(agent: TD3, member: int, max_action: np.ndarray) -> ReferenceTD3:
    return ReferenceTD3(
        layers(agent.actor, member),
        layers(agent.critic, member, 0),
        layers(agent.critic, member, 1),
        max_action=max_action,
        actor_lr=1e-3,
        critic_lr=2e-3,
        **SETTINGS,
    )


def random_batch(rng: np.random.Generator, agents: int) -> tuple[Batch, torch.Tensor]:
    shapes = [STATE, STATE, ACTION, 1, 1]
    parts = [rng.standard_normal((agents, BATCH, width)) for width in shapes]
    parts[4] = (parts[4] > 1).astype(np.float64)
    noise = rng.standard_normal((agents, BATCH, ACTION))
    return Batch(*map(torch.from_numpy, parts)), torch.from_numpy(noise)


def largest_difference(agent: TD3, member: int, reference: ReferenceTD3) -> float:
    pairs = [
        (layers(agent.actor, member), reference.actor),
        (layers(agent.critic, member, 0), reference.critic_1),
        (layers(agent.critic, member, 1), reference.critic_2),
        (layers(agent.actor_target, member), reference.actor_target),
        (layers(agent.critic_target, member, 0), reference.critic_1_target),
        (layers(agent.critic_target, member, 1), reference.critic_2_target),
    ]
    return max(
        float(np.abs(mine - theirs).max())
        for ours, expected in pairs
        for my_layer, their_layer in zip(ours, expected, strict=True)
        for mine, theirs in zip(my_layer, their_layer, strict=True)
    )


@pytest.mark.parametrize(("updates", "agents"), [(1, 1), (1000, 1), (200, 3)])
def test_update_equals_the_reference(updates: int, agents: int) -> None:
    max_action = np.array([0.5, 1.0, 2.0])
    agent = TD3(
        STATE,
        ACTION,
        max_action,
        hidden_sizes=(16, 12),
        actor_learning_rate=1e-3,
        critic_learning_rate=2e-3,
        seed=range(agents),
        dtype=torch.float64,
    )
    references = [reference_of(agent, member, max_action) for member in range(agents)]
    rng = np.random.default_rng(1)
    for _ in range(updates):
        batch, noise = random_batch(rng, agents)
        seen = agent.update(batch, noise, UpdateSettings(**SETTINGS))
        for member, reference in enumerate(references):
            expected = reference.update([part[member].numpy() for part in batch], noise[member])
            assert seen.critic_loss[member].item() == pytest.approx(
                expected["critic_loss"], rel=1e-9
            )
            assert seen.q[member].item() == pytest.approx(expected["mean_q1"], abs=1e-9)
            assert (seen.actor_loss is None) == (expected["actor_loss"] is None)
    for member, reference in enumerate(references):
        assert largest_difference(agent, member, reference) <= TOLERANCE


def test_adam_moments_equal_the_reference() -> None:
    agent = TD3(
        STATE,
        ACTION,
        1.0,
        hidden_sizes=(16, 12),
        actor_learning_rate=1e-3,
        critic_learning_rate=2e-3,
        seed=0,
        dtype=torch.float64,
    )
    reference = reference_of(agent, 0, np.ones(ACTION))
    rng = np.random.default_rng(2)
    for _ in range(50):
        batch, noise = random_batch(rng, 1)
        agent.update(batch, noise, UpdateSettings(**SETTINGS))
        reference.update([part[0].numpy() for part in batch], noise[0])
    for network, optimizer, row, moments in (
        (agent.actor, agent.actor_optimizer, (0,), reference.actor_moments),
        (agent.critic, agent.critic_optimizer, (0, 0), reference.critic_1_moments),
        (agent.critic, agent.critic_optimizer, (0, 1), reference.critic_2_moments),
    ):
        assert optimizer.count.item() == moments.step
        for flat, expected in ((optimizer.mean, moments.first), (optimizer.square, moments.second)):
            for (weight, bias), (their_weight, their_bias) in zip(
                network.layers(flat), expected, strict=True
            ):
                np.testing.assert_allclose(weight[row].numpy(), their_weight, atol=TOLERANCE)
                np.testing.assert_allclose(bias[row].numpy().ravel(), their_bias, atol=TOLERANCE)
