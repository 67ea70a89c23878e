"""Steps 4 to 15: how TD3 learns.

Twin Delayed DDPG (Fujimoto, van Hoof & Meger, 2018): an actor proposes actions, twin critics
value them, and three tricks keep the critics from believing their own errors: the smaller of two
targets (step 8), smoothed target actions (step 6), and delayed actor and targets (steps 13-15).
"""

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from td3.algorithm.adam import Adam
from td3.algorithm.images.encoder import Encoder
from td3.algorithm.networks import Actor, Critic
from td3.algorithm.normalizer import Normalizer
from td3.algorithm.replay import Batch
from td3.algorithm.replay_base import Replay
from td3.algorithm.stacked import Layers, per_agent
from td3.layout import Layout, has_images
from td3.seeding import Streams, as_seeds

TIDY_EVERY = 256  # updates


class Diagnostics(NamedTuple):
    """What an update saw, one number per agent, still on the device."""

    critic_loss: Tensor
    q: Tensor
    actor_loss: Tensor | None


class TD3:
    """One TD3 agent, or as many side by side as there are seeds.

    Where the `layout` of a state has images, an encoder makes `features` of each.

    `update` draws nothing: batch and noise are its arguments. `train` draws them from the agent's
    own streams and calls `update`.
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
    ) -> None:
        streams = [Streams.from_seed(s) for s in as_seeds(seed)]
        self.agents = len(streams)
        self.state_dim, self.action_dim = state_dim, action_dim
        self.device, self.dtype = torch.device(device), dtype
        self.smooth = [stream.smooth for stream in streams]

        many: dict[str, Any] = {
            "agents": self.agents,
            "streams": [stream.init for stream in streams],
            "dtype": dtype,
            "device": device,
        }
        seen = state_dim
        self.encoder: Encoder | None = None
        if layout and has_images(layout):
            self.encoder = Encoder(layout, channels, features, **many)
            self.encoder_target = copy.deepcopy(self.encoder).requires_grad_(False)
            self.encoder_optimizer = Adam(self.encoder, critic_learning_rate)
            seen = self.encoder.outputs
        self.actor = Actor(seen, action_dim, max_action, hidden_sizes, **many)
        self.critic = Critic(seen, action_dim, hidden_sizes, **many)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_optimizer = Adam(self.actor, actor_learning_rate)
        self.critic_optimizer = Adam(self.critic, critic_learning_rate)

        self.normalizer = (
            Normalizer(self.agents, state_dim, dtype, self.device)
            if normalize_observations
            else None
        )
        self.updates = np.zeros(self.agents, dtype=np.int64)
        """How many updates each agent has had."""

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
        """Update `iterations` times on batches drawn from `replay_buffer`."""
        diagnostics = []
        for _ in range(iterations):
            # Step 4: sample a batch of transitions, uniformly, so that it mixes many episodes.
            batch = replay_buffer.gather(replay_buffer.draw(batch_size), self.device)

            noise = self.draw_noise(batch_size)
            diagnostics.append(
                self.update(batch, noise, discount, tau, policy_noise, noise_clip, policy_freq)
            )
            self.tidy()
        return diagnostics

    def update(
        self,
        batch: Batch,
        noise: Tensor,
        discount: float | Tensor = 0.99,
        tau: float | Tensor = 0.005,
        policy_noise: float | Tensor = 0.2,
        noise_clip: float | Tensor = 0.5,
        policy_freq: int = 2,
    ) -> Diagnostics:
        """One update. `noise`: standard normal, (agents, batch, action_dim).

        Other numbers are the same for all agents, or a tensor (agents,) with one for each.
        """
        state, next_state, action, reward, done = batch
        if self.normalizer:
            state, next_state = self.normalizer(state), self.normalizer(next_state)
        if self.encoder:  # what follows sees features instead of pixels
            state = self.encoder(state)

        with torch.no_grad():
            if self.encoder:
                next_state = self.encoder_target(next_state)

            # Step 5: the target actor proposes the next action. Targets move slowly, so the
            # critics chase something that holds still.
            next_action = self.actor_target(next_state)

            # Step 6: clipped Gaussian noise on it, so that the critics cannot put their trust in
            # a narrow peak; then back into the action range.
            clip = per_agent(noise_clip, noise)
            smoothing = (noise * per_agent(policy_noise, noise)).clamp(-clip, clip)
            limit = self.actor.max_action
            next_action = (next_action + smoothing).clamp(-limit, limit)

            # Step 7: both target critics value it: the targets, because the online critics would
            # move with every step they take towards their own opinion.
            next_q1, next_q2 = self.critic_target(next_state, next_action)

            # Step 8: keep the smaller. Maximising over noisy values picks the overestimated ones;
            # the minimum of two errs on the safe side.
            next_q = torch.minimum(next_q1, next_q2)

            # Step 9: the Bellman target. Nothing follows a terminal state. Under no_grad, it is a
            # constant for the critics: detached.
            target_q = reward + (1 - done) * per_agent(discount, done) * next_q

        # Step 10: both critics value the stored action, not the actor's: only what came of that
        # one was seen.
        current_q1, current_q2 = self.critic(state, action)

        # Step 11: the two mean squared errors, added: each critic gets its own gradient from one
        # loss. One loss per agent, so that no agent's gradient depends on another.
        critic_loss = mean_squared_error(current_q1, target_q)
        critic_loss = critic_loss + mean_squared_error(current_q2, target_q)

        # Step 12: the critics step towards the target, on every update: the actor can only climb
        # what they have learnt.
        self.critic_optimizer.zero_grad()
        critic_loss.sum().backward()
        self.critic_optimizer.step()
        if self.encoder:  # which learns from this loss too, and from no other
            self.encoder_optimizer.step()
            self.encoder_optimizer.zero_grad()
            state = state.detach()

        # Steps 13 to 15 are delayed: on updates 0, policy_freq, 2 * policy_freq, … of an agent's
        # life, because an actor is only as good as the critics it climbs.
        actor_loss = None
        if self.due(policy_freq):
            # Step 13: the actor steps up the first critic's value of its own actions. Only the
            # actor's gradient is computed; the critics stay as they are.
            actor_loss = -self.critic.Q1(state, self.actor(state)).mean(dim=(1, 2))
            self.actor_optimizer.zero_grad()
            actor_loss.sum().backward(inputs=[self.actor.flat])
            self.actor_optimizer.step()
            actor_loss = actor_loss.detach()

            # Step 14: the actor target follows slowly, for the Bellman target is built on it
            # (step 5) and the critics need it to hold still.
            polyak(self.actor_target, self.actor, tau)

            # Step 15: the critic targets follow slowly, for the same reason (step 7).
            polyak(self.critic_target, self.critic, tau)
            if self.encoder:
                polyak(self.encoder_target, self.encoder, tau)

        self.updates += 1
        return Diagnostics(critic_loss.detach(), current_q1.detach().mean(dim=(1, 2)), actor_loss)

    def due(self, policy_freq: int) -> bool:
        """Whether this update moves the actor and the targets."""
        delay, *others = {count % policy_freq for count in self.updates.tolist()}
        if others:
            raise ValueError("these agents have trained unequally often; train each by member(k)")
        return delay == 0

    def tidy(self) -> None:
        """Now and then, let Adam forget what has faded. To be called after each update."""
        if self.updates[0] % TIDY_EVERY == 0:
            for name in self.networks:
                getattr(self, f"{name}_optimizer").drop_faded()

    @property
    def networks(self) -> tuple[str, ...]:
        """The names of those that learn; each has a target and an optimizer of its name."""
        return ("encoder", "actor", "critic") if self.encoder else ("actor", "critic")

    def draw_noise(self, batch_size: int) -> Tensor:
        """Standard normal numbers for step 6, from each agent's own stream."""
        draws = np.empty((self.agents, batch_size, self.action_dim), dtype=np.float32)
        for stream, out in zip(self.smooth, draws, strict=True):
            stream.standard_normal(out=out, dtype=np.float32)
        return torch.from_numpy(draws).to(self.device, self.dtype)

    @torch.no_grad()
    def act(self, states: Tensor) -> Tensor:
        """The actors' actions, without exploration noise: (agents, n, …) → (agents, n, …)."""
        if self.normalizer:
            states = self.normalizer(states)
        if self.encoder:
            states = self.encoder(states)
        return self.actor(states)  # type: ignore[no-any-return]

    def select_action(self, state: ArrayLike) -> NDArray[np.floating]:
        """The action for one state, flat; for several agents one row each."""
        array = np.asarray(state, dtype=np.float64).reshape(self.agents, 1, self.state_dim)
        action = self.act(torch.as_tensor(array, dtype=self.dtype, device=self.device))
        flat: NDArray[np.floating] = action.squeeze(1).cpu().numpy()
        return flat[0] if self.agents == 1 else flat

    def member(self, agent: int) -> "TD3":
        """One agent of several as an agent of its own, on the same memory and streams."""
        if self.agents == 1:
            return self
        one = copy.copy(self)
        one.agents, one.smooth = 1, self.smooth[agent : agent + 1]
        for name in self.networks:
            network, optimizer = getattr(self, name), getattr(self, f"{name}_optimizer")
            setattr(one, name, network.share(agent))
            setattr(one, f"{name}_target", getattr(self, f"{name}_target").share(agent))
            setattr(one, f"{name}_optimizer", optimizer.share(agent, getattr(one, name)))
        one.normalizer = self.normalizer.share(agent) if self.normalizer else None
        one.updates = self.updates[agent : agent + 1]
        return one

    def __deepcopy__(self, memo: dict[int, Any]) -> "TD3":
        other = copy.copy(self)
        for name in self.networks:
            setattr(other, name, copy.deepcopy(getattr(self, name), memo))
            target = f"{name}_target"
            setattr(other, target, copy.deepcopy(getattr(self, target), memo))
            optimizer = getattr(self, f"{name}_optimizer")
            setattr(other, f"{name}_optimizer", optimizer.clone(getattr(other, name)))
        other.normalizer = copy.deepcopy(self.normalizer, memo)
        other.smooth = copy.deepcopy(self.smooth, memo)
        other.updates = self.updates.copy()
        return other

    def tensors(self) -> dict[str, Tensor]:
        """Everything learnt, by name: networks, targets, Adam moments and counts."""
        found = {"max_action": self.actor.max_action, "updates": torch.from_numpy(self.updates)}
        for name in self.networks:
            network, target = getattr(self, name), getattr(self, f"{name}_target")
            optimizer = getattr(self, f"{name}_optimizer")
            for part, flat in (
                (name, network.flat.detach()),
                (f"{name}_target", target.flat),
                (f"{name}_optimizer.mean", optimizer.mean),
                (f"{name}_optimizer.square", optimizer.square),
            ):
                found |= {f"{part}.{key}": view for key, view in network.named_layers(flat).items()}
            found[f"{name}_optimizer.count"] = optimizer.count
        if self.normalizer:
            found |= {f"normalizer.{k}": v for k, v in self.normalizer.state_dict().items()}
        return found

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `tensors` gave, every number of it."""
        mine = self.tensors()
        if mine.keys() != tensors.keys() or any(
            mine[key].shape != tensors[key].shape for key in mine
        ):
            raise ValueError("these tensors are of an agent of another shape")
        for name, tensor in mine.items():
            tensor.copy_(tensors[name])
        self.actor_target.max_action.copy_(self.actor.max_action)
        if self.normalizer:
            self.normalizer.refresh()

    def save(self, filename: str, directory: str | Path = ".") -> Path:
        """Write the whole agent to `directory/filename.safetensors`."""
        path = Path(directory) / f"{filename}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({k: v.contiguous() for k, v in self.tensors().items()}, path)
        return path

    def load(self, filename: str, directory: str | Path = ".") -> None:
        """Read an agent that `save` wrote; this one must have the same shape."""
        self.restore(load_file(Path(directory) / f"{filename}.safetensors"))


def mean_squared_error(value: Tensor, target: Tensor) -> Tensor:
    """One mean per agent: (agents, batch, 1) → (agents,)."""
    return F.mse_loss(value, target, reduction="none").mean(dim=(1, 2))


@torch.no_grad()
def polyak(target: Layers, online: Layers, tau: float | Tensor) -> None:
    """target ← (1 - tau) · target + tau · online, for every parameter at once."""
    target.flat.lerp_(online.flat, per_agent(tau, online.flat))
