"""Steps 4 to 15: how TD3 learns.

Twin Delayed DDPG (Fujimoto, van Hoof & Meger, 2018): an actor proposes actions, twin critics
estimate their value, and three tricks counter overestimation: smoothed target actions (step 6), the
smaller of two target values (step 8), and a delayed actor and targets (steps 13 to 15).
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor

from td3.algorithm.images.encoder import Encoder
from td3.algorithm.normalizer import Normalizer
from td3.algorithm.replay import Batch
from td3.algorithm.replay_base import Replay
from td3.algorithm.returned import check_kind, check_values
from td3.algorithm.seams import Seams
from td3.algorithm.settings import Diagnostics, UpdateSettings, train_fast
from td3.algorithm.stacked import per_agent
from td3.config import VariantSettings
from td3.layout import Layout, has_images
from td3.seeding import Streams, as_seeds


class TD3(Seams):
    """One TD3 agent, or several trained side by side: one per seed.

    `update` draws no random numbers: batch and noise are its arguments. `train` draws them from
    each agent's own streams and calls `update`. If the `layout` of a state has images, a
    convolutional encoder turns each into `features` numbers.

    A variant is a subclass that overrides some of these methods or of those in `Seams`. It may keep
    tensors as attributes; their first axis is the agent. Everything else must stay the same during
    training.
    """

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        max_action: ArrayLike = 1.0,
        *,
        hidden_sizes: Sequence[int] = (400, 300),
        actor_learning_rate: float | Tensor = 1e-3,
        critic_learning_rate: float | Tensor = 1e-3,
        seed: int | Iterable[int] | None = None,
        normalize_observations: bool = False,
        layout: Layout | None = None,
        channels: Sequence[int] = (32, 32, 32, 32),
        features: int = 50,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        variant: VariantSettings | None = None,
    ) -> None:
        self.variant = variant or self.Settings()
        streams = [Streams.from_seed(s) for s in as_seeds(seed)]
        self.agents = len(streams)
        self.state_dim, self.action_dim, self.max_action = state_dim, action_dim, max_action
        self.hidden_sizes = tuple(hidden_sizes)
        self.device, self.dtype = torch.device(device), dtype
        self.smooth = [stream.smooth for stream in streams]
        self.trained, self.normalizer = {}, None
        self.updates = np.zeros(self.agents, dtype=np.int64)

        shared: dict[str, Any] = {"agents": self.agents, "dtype": dtype, "device": device}
        shared["streams"] = [stream.init for stream in streams]
        inputs = state_dim
        if layout and has_images(layout):
            encoder = Encoder(layout, channels, features, **shared)
            self.trained["encoder"] = self.start(encoder, critic_learning_rate)
            inputs = encoder.outputs
        actor, critic = self.make_actor(inputs, **shared), self.make_critic(inputs, **shared)
        self.trained["actor"] = self.start(actor, actor_learning_rate)
        self.trained["critic"] = self.start(critic, critic_learning_rate)
        if normalize_observations:
            self.normalizer = Normalizer(self.agents, state_dim, dtype, self.device)

    def train(
        self,
        replay_buffer: Replay,
        iterations: int,
        batch_size: int = 100,
        discount: float | Tensor = 0.99,
        tau: float | Tensor = 0.005,
        policy_noise: float | Tensor = 0.2,
        noise_clip: float | Tensor = 0.5,
        policy_freq: int = 2,
    ) -> list[Diagnostics]:
        """Update `iterations` times on batches sampled from `replay_buffer`.

        `policy_noise` and `noise_clip` are shares of `max_action`, as in a run's settings.
        """
        settings = UpdateSettings(discount, tau, policy_noise, noise_clip, policy_freq)
        if fast := train_fast(self, replay_buffer, iterations, batch_size, settings):
            return fast
        diagnostics = []
        for _ in range(iterations):
            # Step 4: sample a batch uniformly, so that it mixes transitions of many episodes.
            chosen = replay_buffer.draw(batch_size)
            batch, noise = replay_buffer.gather(chosen, self.device), self.draw_noise(batch_size)
            found = self.update(batch, noise, settings)
            check_kind("update", found, Diagnostics, "a Diagnostics")
            replay_buffer.set_priorities(chosen, found.priorities)
            self.flush_denormals()
            diagnostics.append(found)
        return diagnostics

    def target_action(self, next_state: Tensor, noise: Any, settings: UpdateSettings) -> Tensor:
        """Steps 5 and 6: the next action, (agents, batch, action_dim)."""
        # Step 5: the target actor proposes the next action.
        next_action = self.actor_target(next_state)
        return self.smooth_action(next_action, noise, settings)

    def smooth_action(self, next_action: Tensor, noise: Any, settings: UpdateSettings) -> Tensor:
        """Step 6: the next action with noise, within ±max_action."""
        # Step 6: add clipped Gaussian noise, so that the target is smoothed over similar actions
        # and a narrow, erroneous peak of Q cannot be exploited; clamp to the action range.
        clip, limit = per_agent(settings.noise_clip, noise), self.actor.max_action
        smoothing = (noise * per_agent(settings.policy_noise, noise)).clamp(-clip, clip)
        return torch.clamp(next_action + limit * smoothing, -limit, limit)

    def target_q(self, batch: Batch, noise: Any, settings: UpdateSettings) -> Tensor:
        """Steps 5 to 9: the value that the critics should learn, (agents, batch, 1)."""
        next_state = self.observe_target(batch.next_state)
        next_action = self.target_action(next_state, noise, settings)

        # Step 7: all target critics value it. The online critics would chase a target that moves
        # with every update.
        next_values = self.critic_target(next_state, next_action)

        # Step 8: keep the smaller value. The actor seeks out actions that are overestimated; the
        # minimum of two independent estimates counteracts that.
        next_q = self.combine(next_values, noise)
        check_values("combine", next_q, batch.reward)

        # Step 9: the Bellman target. After a terminal state there is no further reward. The
        # target is a constant for the critics: no gradient flows through it.
        discount = per_agent(settings.discount, batch.done)
        target_q: Tensor = batch.reward + (1 - batch.done) * discount * next_q
        return target_q

    def combine(self, next_values: Sequence[Tensor], noise: Any) -> Tensor:
        """Step 8: one value from those of all target critics, (agents, batch, 1)."""
        return functools.reduce(torch.minimum, next_values)

    def update(
        self, batch: Batch, noise: Any, settings: UpdateSettings | None = None
    ) -> Diagnostics:
        """Steps 5 to 15. `noise`: what `draw_noise` returns, (agents, batch, action_dim)."""
        settings = settings or UpdateSettings()
        batch = self.prepare(batch)
        state = self.observe(batch.state)
        with torch.no_grad():  # steps 5 to 9
            target_q = self.target_q(batch, noise, settings)
        check_values("target_q", target_q, batch.reward)

        # Step 10: all critics value the action in the buffer, because that is the action whose
        # reward was observed.
        values = self.critic(state, batch.action)

        # Step 11: the critic loss.
        critic_loss = self.critic_loss(values, target_q)

        # Step 12: one optimizer step of the critics towards the target. The encoder of images
        # learns from this loss too, and from no other.
        self.minimize(critic_loss, *self.critic_networks)

        # Steps 13 to 15 are delayed: they happen on updates 0, policy_freq, 2 · policy_freq, …
        # The actor follows the critics, so the critics get time to become accurate first.
        actor_loss = None
        if self.due(settings.policy_freq):
            # Step 13: the actor takes a step up the first critic's value.
            actor_loss = self.actor_loss(state.detach() if self.encoder else state)
            self.minimize(actor_loss, self.trained["actor"])

            # Step 14: the actor target follows slowly. It is part of the Bellman target (step 5),
            # which must not move fast while the critics learn it.
            self.move_target(self.trained["actor"], settings)

            # Step 15: the critic targets follow slowly, for the same reason (step 7).
            for network in self.critic_networks:
                self.move_target(network, settings)

        self.updates += 1
        return self.diagnose(values, target_q, critic_loss, actor_loss)

    def critic_loss(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor:
        """Step 11: the sum of the critics' mean squared errors, one loss per agent, (agents,)."""
        errors = [F.mse_loss(value, target_q, reduction="none") for value in values]
        return functools.reduce(torch.add, [error.mean(dim=(1, 2)) for error in errors])

    def actor_loss(self, state: Tensor) -> Tensor:
        """Step 13: minus the first critic's value of the actor's actions, (agents,)."""
        return -self.critic.Q1(state, self.actor(state)).mean(dim=(1, 2))
