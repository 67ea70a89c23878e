"""What a variant may override around the fifteen steps."""

import copy
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from td3.algorithm.adam import Adam
from td3.algorithm.networks import Actor, Critic
from td3.algorithm.replay import Batch, ReplayBuffer
from td3.algorithm.replay_base import Replay
from td3.algorithm.returned import check_kind
from td3.algorithm.settings import Diagnostics, Noise, UpdateSettings
from td3.algorithm.stacked import StackedParameters
from td3.algorithm.state import AgentState
from td3.algorithm.trained import N, Trained, minimize
from td3.algorithm.transitions import Transitions
from td3.config import VariantSettings
from td3.seeding import Stream


class Seams(AgentState):
    """Networks, optimizers, noise, and what networks see; `TD3` adds the update."""

    critics = 2
    """Number of critics of each agent."""
    own_numbers = 0
    """How many random numbers `draw_own` writes for each agent and update."""
    Settings = VariantSettings
    """The variant's own settings, a dataclass; the values are in `variant`."""
    learned_with: tuple[str, ...] = ()
    """Own settings that the learned numbers depend on; a run starts only from one with the same."""
    replay_class: type[Replay] = ReplayBuffer
    """The replay buffer that a run makes for states without images."""

    execution: Literal["auto", "eager"] = "auto"
    """How `train` runs: fast after the first updates, or always as plain PyTorch."""

    max_action: ArrayLike
    hidden_sizes: tuple[int, ...]

    def make_actor(self, inputs: int, **shared: Any) -> Actor:
        """Step 2: the actor. `shared`: agents, streams, dtype and device."""
        return Actor(inputs, self.action_dim, self.max_action, self.hidden_sizes, **shared)

    def make_critic(self, inputs: int, **shared: Any) -> Critic:
        """Step 3: the critics, as one network."""
        return Critic(inputs, self.action_dim, self.hidden_sizes, critics=self.critics, **shared)

    def make_optimizer(self, network: StackedParameters, learning_rate: float | Tensor) -> Adam:
        """The optimizer of steps 12 and 13."""
        return Adam(network, learning_rate)

    def start(self, network: N, learning_rate: float | Tensor) -> Trained[N]:
        """Make the target, a copy, and the optimizer of a new network."""
        check_kind("make_actor or make_critic", network, StackedParameters, "a network of td3")
        target = copy.deepcopy(network).requires_grad_(False)
        optimizer = self.make_optimizer(network, learning_rate)
        check_kind("make_optimizer", optimizer, Adam, "a td3.algorithm.adam.Adam")
        return Trained(network, target, optimizer)

    def draw_own(self, stream: Stream, out: NDArray[np.float32]) -> None:
        """Write the `own_numbers` of one agent for one update, drawn from its stream.

        On a GPU, threads call it ahead of the updates, so it must not change the agent.
        """

    def draw_noise(self, batch_size: int) -> Any:
        """Draw the standard normal numbers of step 6 from each agent's own stream.

        Returns a tensor, (agents, batch, action_dim); with `own_numbers`, a `Noise`.
        """
        draws = np.empty((self.agents, batch_size, self.action_dim), dtype=np.float32)
        own = np.empty((self.agents, self.own_numbers), dtype=np.float32)
        for stream, out, numbers in zip(self.smooth, draws, own, strict=True):
            self.draw_own(stream, numbers)
            stream.standard_normal(out=out, dtype=np.float32)
        smoothing, drawn = (torch.from_numpy(x).to(self.device, self.dtype) for x in (draws, own))
        return Noise(smoothing, drawn) if self.own_numbers else smoothing

    def due(self, policy_freq: int) -> bool:
        """Whether this update moves the actor and the targets."""
        delay, *others = {count % policy_freq for count in self.updates.tolist()}
        if others:
            raise ValueError("the agents have different numbers of updates; train each member(k)")
        return bool(delay == 0)

    def minimize(self, loss: Tensor, *networks: Trained[Any]) -> None:
        """Steps 12 and 13: one optimizer step of these networks, and of no other."""
        minimize(loss, *networks)

    def move_target(self, network: Trained[Any], settings: UpdateSettings) -> None:
        """Steps 14 and 15: Polyak averaging of one target."""
        network.move_target(settings.tau)

    def watch(self, transitions: Transitions, discounts: NDArray[np.float64]) -> None:
        """Step 4: look at new transitions before they are stored; one discount per agent."""

    def prepare(self, batch: Batch) -> Batch:
        """Step 4: change a sampled batch, for example scale its rewards."""
        return batch

    def priorities(self, values: Sequence[Tensor], target_q: Tensor) -> Tensor | None:
        """Step 4: how often to sample these transitions again, (agents, batch); None: uniformly."""
        return None

    def as_value(self, output: Tensor) -> Tensor:
        """The return that an output of a critic stands for, (agents, batch, 1): the metric Q."""
        return output

    def target_value(self, target: Tensor) -> Tensor:
        """The return that a target of the critics stands for, (agents, batch, 1)."""
        return target

    @torch.no_grad()
    def diagnose(
        self,
        values: Sequence[Tensor],
        target_q: Tensor,
        critic_loss: Tensor,
        actor_loss: Tensor | None,
    ) -> Diagnostics:
        """What an update measured."""
        q = self.as_value(values[0].detach()).mean(dim=(1, 2))
        actor_loss = None if actor_loss is None else actor_loss.detach()
        priorities = self.priorities(values, target_q)
        return Diagnostics(critic_loss.detach(), q, actor_loss, priorities)

    def observe(self, state: Tensor) -> Tensor:
        """What actor and critics see of a state: normalised numbers, features of images."""
        if self.normalizer:
            state = self.normalizer(state)
        return self.encoder(state) if self.encoder else state

    def observe_target(self, next_state: Tensor) -> Tensor:
        """What the targets see of the next state."""
        if self.normalizer:
            next_state = self.normalizer(next_state)
        return self.encoder_target(next_state) if self.encoder_target else next_state
