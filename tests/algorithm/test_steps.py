"""Steps 5 to 15, one by one: what each step changes and what it leaves unchanged."""

import copy

import pytest
import torch
from support.agents import ACTION, BATCH, copied, make_agent, make_batch, make_buffer
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.networks import Actor
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings


def next_actions(
    agent: TD3, batch: Batch, noise: Tensor, policy_noise: float, noise_clip: float
) -> tuple[Tensor, Tensor]:
    """The target actor's proposals, and the actions that the target critics are asked about."""
    seen: list[Tensor] = []
    hook = agent.critic_target.register_forward_pre_hook(
        lambda module, arguments: seen.extend(arguments)
    )
    proposals = agent.actor_target(batch.next_state)
    agent.update(batch, noise, UpdateSettings(policy_noise=policy_noise, noise_clip=noise_clip))
    hook.remove()
    next_state, action = seen
    assert torch.equal(next_state, batch.next_state)
    return proposals, action


def test_noise_is_standard_normal_and_different_for_every_sample() -> None:
    noise = make_agent().draw_noise(4000)
    assert noise.shape == (1, 4000, ACTION)
    assert len(noise.unique()) > 0.99 * noise.numel()
    assert noise.mean().item() == pytest.approx(0, abs=0.05)
    assert noise.std().item() == pytest.approx(1, abs=0.05)


def test_every_sample_gets_a_noise_vector_of_its_own() -> None:
    agent, (batch, noise) = make_agent(max_action=10.0), make_batch()
    proposals, actions = next_actions(agent, batch, noise, policy_noise=0.02, noise_clip=1e9)
    torch.testing.assert_close(actions - proposals, 10 * 0.02 * noise, rtol=0, atol=1e-5)


def test_training_smooths_every_sample_differently() -> None:
    agent, buffer = make_agent(max_action=10.0), make_buffer([0])
    seen: list[Tensor] = []
    agent.critic_target.register_forward_pre_hook(lambda module, arguments: seen.extend(arguments))
    proposals = copy.deepcopy(agent.actor_target)
    agent.train(buffer, 2, batch_size=BATCH)
    shifts = []
    for next_state, action in (seen[:2], seen[2:]):
        shifts.append(action - proposals(next_state))
    first = shifts[0][0]
    assert len(first.unique(dim=0)) == BATCH
    assert not torch.allclose(first, shifts[1][0], atol=0.01)


def test_the_noise_is_clipped() -> None:
    agent, (batch, noise) = make_agent(max_action=10.0), make_batch()
    proposals, actions = next_actions(agent, batch, 9 * noise, policy_noise=0.02, noise_clip=0.05)
    expected = (9 * noise * 0.2).clamp(-0.5, 0.5)
    torch.testing.assert_close(actions - proposals, expected, rtol=0, atol=1e-5)
    assert (expected.abs() == 0.5).sum() > 10


def test_smoothing_noise_is_a_share_of_max_action_in_each_dimension() -> None:
    """As in a run's settings, where every action space has max_action 1."""
    limit = torch.tensor([0.5, 1.0, 20.0])
    agent, (batch, noise) = make_agent(max_action=limit.numpy()), make_batch()
    proposals, actions = next_actions(agent, batch, noise, policy_noise=0.01, noise_clip=0.02)
    expected = limit * (0.01 * noise).clamp(-0.02, 0.02)
    torch.testing.assert_close(actions - proposals, expected, rtol=0, atol=1e-5)
    assert ((0.01 * noise).abs() > 0.02).any()


def test_the_smoothed_action_stays_in_the_action_range() -> None:
    limit = torch.tensor([0.1, 1.0, 2.0])
    agent, (batch, noise) = make_agent(max_action=limit.numpy()), make_batch()
    _, actions = next_actions(agent, batch, noise, policy_noise=3.0, noise_clip=5.0)
    assert (actions.abs() <= limit).all()
    for dimension in range(ACTION):
        column = actions[..., dimension]
        assert (column == limit[dimension]).any()
        assert (column == -limit[dimension]).any()


def test_the_critic_step_leaves_the_actor_alone_and_the_actor_step_the_critics() -> None:
    critic_only, both = make_agent(), make_agent()
    critic_only.updates += 1  # an odd update: no actor step
    before = copied(both)
    batch, noise = make_batch()
    critic_only.update(batch, noise)
    both.update(batch, noise)
    for name, tensor in copied(critic_only).items():
        if name.startswith("actor"):
            assert torch.equal(tensor, before[name])
        elif name.startswith(("critic.", "critic_optimizer")):
            assert not torch.equal(tensor, before[name])
            assert torch.equal(tensor, both.tensors()[name])
    assert not torch.equal(both.actor.flat, critic_only.actor.flat)


def test_the_actor_step_leaves_no_gradient_on_the_critics() -> None:
    critic_only, both = make_agent(), make_agent()
    critic_only.updates += 1
    for agent in (critic_only, both):
        agent.update(*make_batch())
    for mine, theirs in zip(both.critic.parameters(), critic_only.critic.parameters(), strict=True):
        assert torch.equal(mine.grad, theirs.grad)
    targets = [*both.actor_target.parameters(), *both.critic_target.parameters()]
    assert all(parameter.grad is None for parameter in targets)


@pytest.mark.parametrize("policy_freq", [1, 2, 3])
def test_actor_and_targets_move_on_update_0_and_every_policy_freq_after(policy_freq: int) -> None:
    agent, buffer = make_agent(), make_buffer([0])
    names = ("actor", "actor_target", "critic_target", "critic")
    for update in range(7):  # in calls of one: the count is the agent's, not the call's
        before = [getattr(agent, name).flat.clone() for name in names]
        (seen,) = agent.train(buffer, 1, batch_size=BATCH, policy_freq=policy_freq)
        moved = [
            not torch.equal(getattr(agent, name).flat, then)
            for name, then in zip(names, before, strict=True)
        ]
        delayed = update % policy_freq == 0
        assert moved == [delayed, delayed, delayed, True]
        assert (seen.actor_loss is not None) == delayed


def test_targets_move_by_tau() -> None:
    agent = make_agent()
    before = copied(agent)
    agent.update(*make_batch(), UpdateSettings(tau=0.25))
    after = agent.tensors()
    for name in ("actor", "critic"):
        for key in (k for k in before if k.startswith(f"{name}.")):
            target = key.replace(name, f"{name}_target")
            expected = 0.75 * before[target] + 0.25 * after[key]
            torch.testing.assert_close(after[target], expected)


def test_the_actor_climbs_the_first_critic_only() -> None:
    batch, noise = make_batch()
    actors = []
    for changed in (None, 1, 0):
        agent = make_agent()
        if changed is not None:
            with torch.no_grad():
                for parameter in agent.critic.parameters():
                    parameter[:, changed] += 0.3
        agent.update(batch, noise)
        actors.append(agent.actor.flat)
    assert torch.equal(actors[0], actors[1])
    assert not torch.equal(actors[0], actors[2])


def test_the_actor_steps_up() -> None:
    agent, (batch, noise) = make_agent(actor_learning_rate=1e-4), make_batch()
    before = copy.deepcopy(agent.actor)
    seen = agent.update(batch, noise)

    def value(actor: Actor) -> float:
        return agent.critic.Q1(batch.state, actor(batch.state)).mean().item()

    assert value(agent.actor) > value(before)
    assert seen.actor_loss is not None
    assert seen.actor_loss.item() == pytest.approx(-value(before), rel=1e-5)


def test_done_makes_the_target_the_reward_exactly() -> None:
    agent, (batch, noise) = make_agent(), make_batch(batch_size=4)
    agent.critic.flat.data.zero_()  # all values are 0, so the loss is twice the mean of target²
    agent.critic_target.flat.fill_(3.0)
    reward = torch.tensor([1.0, -2.0, 3.0, 0.5]).view(1, 4, 1)
    batch = batch._replace(reward=reward, done=torch.ones(1, 4, 1))
    seen = agent.update(batch, noise)
    assert seen.critic_loss.item() == 2 * (1 + 4 + 9 + 0.25) / 4


def test_without_done_the_smaller_next_value_is_added_discounted() -> None:
    agent, (batch, noise) = make_agent(), make_batch(batch_size=1)
    agent.critic.flat.data.zero_()
    agent.critic_target.flat.data.zero_()
    agent.critic_target.layers()[-1][1].copy_(torch.tensor([8.0, 4.0]).view(1, 2, 1, 1))
    batch = batch._replace(reward=torch.ones(1, 1, 1), done=torch.zeros(1, 1, 1))
    seen = agent.update(batch, noise, UpdateSettings(discount=0.5))
    assert seen.critic_loss.item() == 2 * (1 + 0.5 * 4) ** 2


def test_no_gradient_flows_through_the_target() -> None:
    agent, (batch, noise) = make_agent(), make_batch()
    twin = make_agent()
    twin.critic_target.requires_grad_(True)
    twin.actor_target.requires_grad_(True)
    agent.update(batch, noise)
    twin.update(batch, noise)
    targets = [*twin.critic_target.parameters(), *twin.actor_target.parameters()]
    assert all(parameter.grad is None for parameter in targets)
    assert torch.equal(agent.critic.flat, twin.critic.flat)
