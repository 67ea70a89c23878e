"""What the lessons say about mistakes in listings is true."""

import numpy as np
import pytest
import torch

from td3.lessons.checks.lesson05 import random_agent, random_batch


@pytest.mark.parametrize(("kind", "shared"), [(np.float32, True), (np.float64, False)])
def test_noise_of_the_listings_overwrites_float32_actions(kind: type, shared: bool) -> None:
    """Lesson 6: step 4 makes `action`, step 6 draws noise, step 10 uses `action`."""
    batch_actions = np.full((4, 1), 7, kind)
    action = torch.Tensor(batch_actions)
    torch.Tensor(batch_actions).data.normal_(0, 0.2)
    assert bool((action != 7).all()) is shared


def test_array_without_copy_of_a_reward_is_an_error() -> None:
    """Lesson 1."""
    with pytest.raises(ValueError, match="copy"):
        np.array(0.5, copy=False)


def test_state_dict_without_brackets_is_an_error() -> None:
    """Lesson 2."""
    network = torch.nn.Linear(1, 1)
    with pytest.raises(TypeError):
        network.load_state_dict(network.state_dict)  # type: ignore[arg-type]


def test_reward_without_a_column_broadcasts_to_a_square() -> None:
    """Lesson 4."""
    assert (torch.zeros(8) + torch.zeros(8, 1)).shape == (8, 8)


def test_loss_of_a_column_and_a_row_compares_all_pairs_with_a_warning_only() -> None:
    """Lesson 11."""
    values, target = torch.zeros(4, 1), torch.arange(4.0)
    with pytest.warns(UserWarning, match="different to the input size"):
        loss = torch.nn.functional.mse_loss(values, target)
    assert loss == target.square().mean()


def test_sum_of_both_losses_gives_each_critic_its_own_gradient() -> None:
    """Lesson 11."""
    agent, batch = random_agent(), random_batch()
    values = agent.critic(batch.state, batch.action)
    first, second = ((value - batch.reward).square().mean() for value in values)
    weights = agent.critic.flat
    (alone,) = torch.autograd.grad(first, weights, retain_graph=True)
    (both,) = torch.autograd.grad(first + second, weights)
    assert torch.equal(alone[:, 0], both[:, 0])
    assert not alone[:, 1].any()
    assert both[:, 1].any()


def test_backward_of_the_actor_loss_leaves_gradients_in_the_critics() -> None:
    """Lessons 12 and 13."""
    agent, batch = random_agent(), random_batch()
    (-agent.critic.Q1(batch.state, agent.actor(batch.state)).mean()).backward()
    assert agent.critic.flat.grad is not None
    assert agent.critic.flat.grad.any()


def test_optimizers_have_no_method_grad_zero() -> None:
    """Lesson 13."""
    with pytest.raises(AttributeError):
        torch.optim.Adam([torch.zeros(1)]).grad_zero()  # type: ignore[attr-defined]


def test_target_makes_half_of_a_jump_in_139_moves() -> None:
    """Lesson 14."""
    assert (1 - 0.005) ** 139 < 0.5 < (1 - 0.005) ** 138
