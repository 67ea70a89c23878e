"""TD3 in float64 NumPy, with gradients derived by hand.

This is an oracle: it is written from the algorithm, separately from the library and without
autograd, so that an error in the library's update cannot hide in code shared by both sides.
It favours plainness over speed and is used by the tests only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Layers = list[tuple[Array, Array]]
"""One (weight, bias) pair per layer, with shapes (in, out) and (out,)."""

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-8


@dataclass
class Moments:
    """State of Adam for one network: number of steps, running means of g and of g squared."""

    step: int
    first: Layers
    second: Layers


def copy_layers(layers: Sequence[tuple[ArrayLike, ArrayLike]]) -> Layers:
    return [(np.array(w, dtype=np.float64), np.array(b, dtype=np.float64)) for w, b in layers]


def layerwise(function: Callable[..., Array], *networks: Layers) -> Layers:
    """Apply a function of arrays to the weights, and to the biases, of corresponding layers."""
    return [
        (function(*(weight for weight, _ in layer)), function(*(bias for _, bias in layer)))
        for layer in zip(*networks, strict=True)
    ]


def zero_moments(layers: Layers) -> Moments:
    return Moments(0, layerwise(np.zeros_like, layers), layerwise(np.zeros_like, layers))


def mlp_forward(layers: Layers, x: Array) -> tuple[Array, list[Array]]:
    """Output of the last (linear) layer, and the input that each layer received."""
    inputs = []
    for index, (weight, bias) in enumerate(layers):
        inputs.append(x)
        x = x @ weight + bias
        if index < len(layers) - 1:
            x = np.maximum(x, 0.0)
    return x, inputs


def mlp_backward(layers: Layers, inputs: list[Array], grad_output: Array) -> tuple[Layers, Array]:
    """Gradients of the parameters and of the network's input, given that of its output."""
    gradients: Layers = []
    grad = grad_output
    for index in reversed(range(len(layers))):
        gradients.insert(0, (inputs[index].T @ grad, grad.sum(axis=0)))
        grad = grad @ layers[index][0].T
        if index > 0:  # the input of this layer is a ReLU's output: positive where it passed
            grad = grad * (inputs[index] > 0.0)
    return gradients, grad


def critic_forward(critic: Layers, state: Array, action: Array) -> Array:
    return mlp_forward(critic, np.concatenate([state, action], axis=1))[0]


def critic_loss_and_gradients(
    critic: Layers, state: Array, action: Array, target_q: Array
) -> tuple[float, Layers, Array]:
    """Mean squared error of one critic, its parameters' gradients, and its values."""
    q, inputs = mlp_forward(critic, np.concatenate([state, action], axis=1))
    error = q - target_q
    gradients, _ = mlp_backward(critic, inputs, 2.0 * error / error.size)
    return float(np.mean(error**2)), gradients, q


def actor_loss_and_gradients(
    actor: Layers, critic: Layers, state: Array, max_action: Array
) -> tuple[float, Layers]:
    """Loss -mean(Q(s, actor(s))) and its gradients for the actor's parameters."""
    pre_tanh, actor_inputs = mlp_forward(actor, state)
    squashed = np.tanh(pre_tanh)
    q, critic_inputs = mlp_forward(critic, np.concatenate([state, max_action * squashed], axis=1))
    _, grad_input = mlp_backward(critic, critic_inputs, np.full_like(q, -1.0 / q.size))
    grad_action = grad_input[:, state.shape[1] :]
    grad_pre_tanh = grad_action * max_action * (1.0 - squashed**2)
    gradients, _ = mlp_backward(actor, actor_inputs, grad_pre_tanh)
    return float(-np.mean(q)), gradients


def adam_step(
    layers: Layers, gradients: Layers, moments: Moments, learning_rate: float
) -> tuple[Layers, Moments]:
    """Parameters and moments after one step of Adam; the arguments are left as they were."""
    step = moments.step + 1

    def move(parameter: Array, m: Array, v: Array) -> Array:
        m_hat = m / (1.0 - BETA_1**step)
        v_hat = v / (1.0 - BETA_2**step)
        return parameter - learning_rate * m_hat / (np.sqrt(v_hat) + EPSILON)

    first = layerwise(lambda m, g: BETA_1 * m + (1.0 - BETA_1) * g, moments.first, gradients)
    second = layerwise(lambda v, g: BETA_2 * v + (1.0 - BETA_2) * g**2, moments.second, gradients)
    return layerwise(move, layers, first, second), Moments(step, first, second)


def polyak(target: Layers, online: Layers, tau: float) -> Layers:
    return layerwise(lambda old, new: tau * new + (1.0 - tau) * old, target, online)


class ReferenceTD3:
    """One TD3 agent; all of its state is in public attributes, to be compared with another's."""

    def __init__(
        self,
        actor_layers: Sequence[tuple[ArrayLike, ArrayLike]],
        critic_1_layers: Sequence[tuple[ArrayLike, ArrayLike]],
        critic_2_layers: Sequence[tuple[ArrayLike, ArrayLike]],
        max_action: ArrayLike,
        actor_lr: float,
        critic_lr: float,
        discount: float,
        tau: float,
        policy_noise: float,
        noise_clip: float,
        policy_freq: int,
    ) -> None:
        self.actor, self.actor_target = copy_layers(actor_layers), copy_layers(actor_layers)
        self.critic_1, self.critic_2 = copy_layers(critic_1_layers), copy_layers(critic_2_layers)
        self.critic_1_target = copy_layers(critic_1_layers)
        self.critic_2_target = copy_layers(critic_2_layers)
        self.actor_moments = zero_moments(self.actor)
        self.critic_1_moments = zero_moments(self.critic_1)
        self.critic_2_moments = zero_moments(self.critic_2)
        self.max_action: Array = np.array(max_action, dtype=np.float64)
        self.actor_lr, self.critic_lr = actor_lr, critic_lr
        self.discount, self.tau = discount, tau
        self.policy_noise, self.noise_clip = policy_noise, noise_clip
        self.policy_freq = policy_freq
        self.update_count = 0

    def next_action(self, next_state: Array, noise: Array) -> Array:
        """Smoothed action of the target policy."""
        perturbation = np.clip(self.policy_noise * noise, -self.noise_clip, self.noise_clip)
        action = self.max_action * np.tanh(mlp_forward(self.actor_target, next_state)[0])
        action = action + self.max_action * perturbation
        return np.clip(action, -self.max_action, self.max_action)

    def target_q(self, next_state: Array, reward: Array, done: Array, noise: Array) -> Array:
        """Clipped double-Q target; done removes the value of the next state."""
        action = self.next_action(next_state, noise)
        q1 = critic_forward(self.critic_1_target, next_state, action)
        q2 = critic_forward(self.critic_2_target, next_state, action)
        return reward + (1.0 - done) * self.discount * np.minimum(q1, q2)

    def update(self, batch: Sequence[ArrayLike], noise: ArrayLike) -> dict[str, float | None]:
        """One update; batch is (state, next_state, action, reward, done).

        The reported losses and mean q1 are those from which the gradients were taken.
        """
        state, next_state, action, reward, done = (np.asarray(x, dtype=np.float64) for x in batch)
        noise = np.asarray(noise, dtype=np.float64)
        if not (reward.shape == done.shape == (len(state), 1) and noise.shape == action.shape):
            raise ValueError("reward and done must be (batch, 1), noise (batch, action_dim)")

        target = self.target_q(next_state, reward, done, noise)
        loss_1, grads_1, q1 = critic_loss_and_gradients(self.critic_1, state, action, target)
        loss_2, grads_2, _ = critic_loss_and_gradients(self.critic_2, state, action, target)
        self.critic_1, self.critic_1_moments = adam_step(
            self.critic_1, grads_1, self.critic_1_moments, self.critic_lr
        )
        self.critic_2, self.critic_2_moments = adam_step(
            self.critic_2, grads_2, self.critic_2_moments, self.critic_lr
        )

        actor_loss = None
        if self.update_count % self.policy_freq == 0:
            actor_loss, grads = actor_loss_and_gradients(
                self.actor, self.critic_1, state, self.max_action
            )
            self.actor, self.actor_moments = adam_step(
                self.actor, grads, self.actor_moments, self.actor_lr
            )
            self.actor_target = polyak(self.actor_target, self.actor, self.tau)
            self.critic_1_target = polyak(self.critic_1_target, self.critic_1, self.tau)
            self.critic_2_target = polyak(self.critic_2_target, self.critic_2, self.tau)
        self.update_count += 1
        mean_q1 = float(np.mean(q1))
        return {"critic_loss": loss_1 + loss_2, "actor_loss": actor_loss, "mean_q1": mean_q1}
