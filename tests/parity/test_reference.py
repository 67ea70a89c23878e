"""The NumPy oracle is itself checked here, against independent arithmetic."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from support.reference import (
    Array,
    Layers,
    ReferenceTD3,
    actor_loss_and_gradients,
    adam_step,
    copy_layers,
    critic_loss_and_gradients,
    zero_moments,
)

STATE_DIM, ACTION_DIM, BATCH = 4, 2, 6
MAX_ACTIONS = [1.5, np.array([0.5, 2.0])]
SETTINGS = {
    "actor_lr": 1e-3,
    "critic_lr": 2e-3,
    "discount": 0.9,
    "tau": 0.25,
    "policy_noise": 0.2,
    "noise_clip": 0.5,
    "policy_freq": 2,
}


def random_layers(rng: np.random.Generator, sizes: list[int]) -> Layers:
    return [
        (rng.normal(size=(m, n)) / np.sqrt(m), 0.1 * rng.normal(size=n)) for m, n in pairwise(sizes)
    ]


def random_batch(rng: np.random.Generator) -> tuple[list[Array], Array]:
    state, next_state = rng.normal(size=(2, BATCH, STATE_DIM))
    action, noise = rng.normal(size=(2, BATCH, ACTION_DIM))
    reward = rng.normal(size=(BATCH, 1))
    done = (np.arange(BATCH) % 3 == 0).astype(np.float64)[:, None]
    return [state, next_state, action, reward, done], noise


def make_agent(
    rng: np.random.Generator, max_action: float | Array = 1.0, **changes
) -> ReferenceTD3:
    actor = random_layers(rng, [STATE_DIM, 7, 5, ACTION_DIM])
    critics = [random_layers(rng, [STATE_DIM + ACTION_DIM, 8, 5, 1]) for _ in range(2)]
    return ReferenceTD3(actor, *critics, max_action, **{**SETTINGS, **changes})


def constant_network(inputs: int, outputs: int, value: float) -> Layers:
    return [(np.zeros((inputs, outputs)), np.full(outputs, value))]


def plain_mlp(layers: Layers, x: Array) -> Array:
    *hidden, (last_weight, last_bias) = layers
    for weight, bias in hidden:
        x = x @ weight + bias
        x = np.where(x > 0, x, 0)
    return x @ last_weight + last_bias


def assert_layers_close(actual: Layers, expected: Layers, rtol: float = 1e-12) -> None:
    for pair, expected_pair in zip(actual, expected, strict=True):
        for array, expected_array in zip(pair, expected_pair, strict=True):
            np.testing.assert_allclose(array, expected_array, rtol=rtol, atol=1e-15)


def largest_relative_error(
    loss: Callable[[Layers], float], layers: Layers, gradients: Layers, h: float = 1e-5
) -> float:
    """Compare every entry of the gradients with a central difference of the loss."""
    layers = copy_layers(layers)
    worst = 0.0
    for parameters, gradient_pair in zip(layers, gradients, strict=True):
        for parameter, gradient in zip(parameters, gradient_pair, strict=True):
            assert gradient.shape == parameter.shape
            numeric = np.empty_like(parameter)
            for index in np.ndindex(parameter.shape):
                kept = parameter[index]
                parameter[index] = kept + h
                above = loss(layers)
                parameter[index] = kept - h
                below = loss(layers)
                parameter[index] = kept
                numeric[index] = (above - below) / (2 * h)
            scale = np.abs(numeric).max()
            assert scale > 1e-4  # a vanishing gradient would make the comparison empty
            worst = max(worst, float(np.abs(gradient - numeric).max() / scale))
    return worst


@pytest.mark.parametrize("seed", range(3))
def test_critic_gradients_match_finite_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    critic = random_layers(rng, [STATE_DIM + ACTION_DIM, 8, 5, 1])
    (state, _, action, target, _), _ = random_batch(rng)

    def loss(layers: Layers) -> float:
        q = plain_mlp(layers, np.hstack([state, action]))
        return float(np.sum((q - target) ** 2) / BATCH)

    value, gradients, q = critic_loss_and_gradients(critic, state, action, target)
    assert value == pytest.approx(loss(critic), rel=1e-12)
    np.testing.assert_allclose(q, plain_mlp(critic, np.hstack([state, action])), rtol=1e-12)
    assert largest_relative_error(loss, critic, gradients) <= 1e-6


@pytest.mark.parametrize("max_action", MAX_ACTIONS, ids=["scalar", "per-dimension"])
@pytest.mark.parametrize("seed", range(3))
def test_actor_gradients_match_finite_differences(seed: int, max_action: float | Array) -> None:
    rng = np.random.default_rng(seed)
    agent = make_agent(rng, max_action)
    (state, *_), _ = random_batch(rng)

    def loss(layers: Layers) -> float:
        action = np.tanh(plain_mlp(layers, state)) * max_action
        return float(-np.sum(plain_mlp(agent.critic_1, np.hstack([state, action]))) / BATCH)

    value, gradients = actor_loss_and_gradients(
        agent.actor, agent.critic_1, state, agent.max_action
    )
    assert value == pytest.approx(loss(agent.actor), rel=1e-12)
    assert largest_relative_error(loss, agent.actor, gradients) <= 1e-6


def test_adam_matches_two_steps_by_hand() -> None:
    # Weight 1 with gradients 0.5 then -0.25, bias 2 with gradients 0 then 4; learning rate 0.1.
    # Weight, step 1: m = 0.05, v = 0.00025; m_hat = 0.5, v_hat = 0.25.
    # Weight, step 2: m = 0.045 - 0.025 = 0.02, v = 0.00024975 + 0.0000625 = 0.00031225;
    #                 m_hat = 0.02 / 0.19, v_hat = 0.00031225 / 0.001999.
    # Bias, step 1: all zero, so it stays. Step 2: m = 0.4, v = 0.016, divided likewise.
    layers = [(np.array([[1.0]]), np.array([2.0]))]
    start = zero_moments(layers)
    one, moments_one = adam_step(layers, [(np.array([[0.5]]), np.array([0.0]))], start, 0.1)
    weight_one = 1.0 - 0.1 * 0.5 / (0.5 + 1e-8)
    assert_layers_close(one, [(np.array([[weight_one]]), np.array([2.0]))])
    assert_layers_close(moments_one.first, [(np.array([[0.05]]), np.array([0.0]))])
    assert_layers_close(moments_one.second, [(np.array([[0.00025]]), np.array([0.0]))])

    two, moments_two = adam_step(one, [(np.array([[-0.25]]), np.array([4.0]))], moments_one, 0.1)
    weight_two = weight_one - 0.1 * (0.02 / 0.19) / (np.sqrt(0.00031225 / 0.001999) + 1e-8)
    bias_two = 2.0 - 0.1 * (0.4 / 0.19) / (np.sqrt(0.016 / 0.001999) + 1e-8)
    assert_layers_close(two, [(np.array([[weight_two]]), np.array([bias_two]))])
    assert_layers_close(moments_two.first, [(np.array([[0.02]]), np.array([0.4]))])
    assert_layers_close(moments_two.second, [(np.array([[0.00031225]]), np.array([0.016]))])
    assert (start.step, moments_one.step, moments_two.step) == (0, 1, 2)


def test_adam_epsilon_is_added_after_bias_correction() -> None:
    # With g = 1e-8 on the first step, m_hat = sqrt(v_hat) = eps: exactly half of the step remains.
    layers = [(np.zeros((1, 1)), np.zeros(1))]
    gradients = [(np.full((1, 1), 1e-8), np.full(1, -1e-8))]
    (pair,), _ = adam_step(layers, gradients, zero_moments(layers), 0.1)
    np.testing.assert_allclose([pair[0][0, 0], pair[1][0]], [-0.05, 0.05], rtol=1e-9)


def test_done_stops_bootstrapping_and_smaller_target_critic_is_used() -> None:
    actor = constant_network(STATE_DIM, ACTION_DIM, 0.0)
    critics = [constant_network(STATE_DIM + ACTION_DIM, 1, value) for value in (10.0, 4.0)]
    batch, noise = random_batch(np.random.default_rng(0))
    _, next_state, _, reward, done = batch
    assert set(done.ravel()) == {0.0, 1.0}
    expected = np.where(done == 1.0, reward, reward + 0.9 * 4.0)
    for pair in (critics, critics[::-1]):
        agent = ReferenceTD3(actor, *pair, 1.0, **SETTINGS)
        target = agent.target_q(next_state, reward, done, noise)
        np.testing.assert_allclose(target, expected, rtol=1e-14)
        result = agent.update(batch, noise)
        loss = np.mean((10.0 - expected) ** 2) + np.mean((4.0 - expected) ** 2)
        assert result["critic_loss"] == pytest.approx(loss, rel=1e-12)
        assert result["mean_q1"] == pytest.approx(pair[0][0][1][0], rel=1e-12)


def test_noise_is_scaled_and_clipped() -> None:
    agent = ReferenceTD3(
        constant_network(STATE_DIM, ACTION_DIM, 0.0),
        *[constant_network(STATE_DIM + ACTION_DIM, 1, 0.0) for _ in range(2)],
        10.0,
        **SETTINGS,
    )
    noise = np.array([[1.0, -1.0], [2.5, -2.5], [100.0, -100.0]])
    action = agent.next_action(np.ones((3, STATE_DIM)), noise)
    np.testing.assert_allclose(action, [[2, -2], [5, -5], [5, -5]], rtol=1e-14)


def test_next_action_is_clamped_per_dimension() -> None:
    agent = ReferenceTD3(
        [(np.zeros((STATE_DIM, 2)), np.array([50.0, -50.0]))],  # saturates both tanh
        *[constant_network(STATE_DIM + 2, 1, 0.0) for _ in range(2)],
        np.array([0.5, 2.0]),
        **SETTINGS,
    )
    noise = np.array([[3.0, -3.0], [0.0, 0.0], [-1.0, 1.0]])
    action = agent.next_action(np.ones((3, STATE_DIM)), noise)
    np.testing.assert_allclose(action, [[0.5, -2.0], [0.5, -2.0], [0.4, -1.6]], rtol=1e-14)


def test_actor_and_targets_wait_for_the_policy_frequency() -> None:
    rng = np.random.default_rng(1)
    agent = make_agent(rng, policy_freq=3)
    for count in range(7):
        assert agent.update_count == count
        before = {
            name: copy_layers(value)
            for name, value in vars(agent).items()
            if isinstance(value, list)
        }
        batch, noise = random_batch(rng)
        loss = agent.update(batch, noise)["actor_loss"]
        assert not np.array_equal(agent.critic_1[0][0], before["critic_1"][0][0])
        assert not np.array_equal(agent.critic_2[0][0], before["critic_2"][0][0])
        names = ("actor", "critic_1", "critic_2")
        if count % 3 == 0:
            # The loss is that of the old actor under the critic that was just updated.
            expected, _ = actor_loss_and_gradients(
                before["actor"], agent.critic_1, batch[0], agent.max_action
            )
            assert loss == expected
            for name in names:
                expected_layers = [
                    (0.25 * w + 0.75 * w_old, 0.25 * b + 0.75 * b_old)
                    for (w, b), (w_old, b_old) in zip(
                        getattr(agent, name), before[f"{name}_target"], strict=True
                    )
                ]
                assert_layers_close(getattr(agent, f"{name}_target"), expected_layers)
        else:
            assert loss is None
            for name in ("actor", *[f"{name}_target" for name in names]):
                assert_layers_close(getattr(agent, name), before[name], rtol=0.0)
    assert agent.actor_moments.step == 3
    assert agent.critic_1_moments.step == agent.critic_2_moments.step == 7


def test_update_uses_the_targets_and_steps_each_network_on_its_own_gradients() -> None:
    rng = np.random.default_rng(4)
    agent = make_agent(rng, np.array([0.5, 2.0]), policy_freq=1)
    for _ in range(3):  # the targets differ from the networks once the first update is done
        old = copy.deepcopy(agent)
        batch, noise = random_batch(rng)
        result = agent.update(batch, noise)
        state, next_state, action, reward, done = batch

        smoothing = np.minimum(np.maximum(0.2 * noise, -0.5), 0.5)
        bound = np.array([0.5, 2.0])
        next_action = (np.tanh(plain_mlp(old.actor_target, next_state)) + smoothing) * bound
        next_action = np.minimum(np.maximum(next_action, -bound), bound)
        next_input = np.hstack([next_state, next_action])
        next_q1 = plain_mlp(old.critic_1_target, next_input)
        next_q2 = plain_mlp(old.critic_2_target, next_input)
        target = reward + 0.9 * (1 - done) * np.where(next_q1 < next_q2, next_q1, next_q2)

        losses = []
        for name in ("critic_1", "critic_2"):
            critic = getattr(old, name)
            loss, gradients, _ = critic_loss_and_gradients(critic, state, action, target)
            moments = getattr(old, f"{name}_moments")
            expected, moments = adam_step(critic, gradients, moments, SETTINGS["critic_lr"])
            assert_layers_close(getattr(agent, name), expected)
            assert_layers_close(getattr(agent, f"{name}_moments").second, moments.second)
            losses.append(loss)
        _, gradients = actor_loss_and_gradients(old.actor, agent.critic_1, state, bound)
        expected, moments = adam_step(old.actor, gradients, old.actor_moments, SETTINGS["actor_lr"])
        assert_layers_close(agent.actor, expected)
        assert_layers_close(agent.actor_moments.second, moments.second)
        assert result["critic_loss"] == pytest.approx(sum(losses), rel=1e-12)


def test_constructor_copies_the_layers() -> None:
    rng = np.random.default_rng(2)
    given = [
        random_layers(rng, [STATE_DIM, 3, ACTION_DIM]),
        *[random_layers(rng, [STATE_DIM + ACTION_DIM, 3, 1]) for _ in range(2)],
    ]
    agent = ReferenceTD3(*given, 1.0, **SETTINGS)
    kept = agent.actor[0][0].copy()
    given[0][0][0][:] = 99.0
    np.testing.assert_array_equal(agent.actor[0][0], kept)
    np.testing.assert_array_equal(agent.actor_target[0][0], kept)
    assert agent.actor[0][0] is not agent.actor_target[0][0]


def test_flat_rewards_are_refused() -> None:
    rng = np.random.default_rng(3)
    agent = make_agent(rng)
    (state, next_state, action, reward, done), noise = random_batch(rng)
    with pytest.raises(ValueError, match="reward and done"):
        agent.update((state, next_state, action, reward[:, 0], done), noise)
