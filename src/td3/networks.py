"""Steps 2 and 3: the actor, the twin critics, and their targets."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from td3.seeding import Stream, Streams, fresh_seed

ALIGNMENT = 16  # numbers; layers start on a cache line, whatever their size


class Network(nn.Module):
    """Layers for many independent networks side by side: the agent axis.

    All parameters of one network are one row of `flat`, and a layer's weight and bias are views
    into it. Hence a Polyak step or an Adam step is a few operations on one tensor, however many
    layers and agents there are.
    """

    def __init__(
        self,
        rows: tuple[int, ...],
        widths: Sequence[int],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        super().__init__()
        self.rows = rows
        shapes = [
            shape
            for fan_in, fan_out in itertools.pairwise(widths)
            for shape in ((fan_in, fan_out), (1, fan_out))
        ]
        sizes = [math.ceil(math.prod(shape) / ALIGNMENT) * ALIGNMENT for shape in shapes]
        self.flat = torch.zeros(*rows, sum(sizes), dtype=dtype, device=device)
        parts = self.flat.split(sizes, dim=-1)
        views = [
            nn.Parameter(part[..., : math.prod(shape)].view(*rows, *shape))
            for part, shape in zip(parts, shapes, strict=True)
        ]
        self.weights = nn.ParameterList(views[0::2])
        self.biases = nn.ParameterList(views[1::2])

    def initialize(self, streams: Sequence[Stream] | None) -> None:
        """Draw agent k's weights from stream k: uniform within 1/√fan_in, as `nn.Linear` does."""
        if streams is None:
            streams = [Streams.from_seed(fresh_seed()).init for _ in range(self.rows[0])]
        with torch.no_grad():
            for agent, stream in enumerate(streams):
                for weight, bias in zip(self.weights, self.biases, strict=True):
                    bound = 1 / math.sqrt(weight.shape[-2])
                    for part in (weight[agent], bias[agent]):
                        part.copy_(torch.from_numpy(stream.uniform(-bound, bound, part.shape)))

    def layers(self, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
        """x: (networks, batch, inputs) → (networks, batch, outputs), ReLU between layers."""
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            x = F.relu(torch.baddbmm(bias, x, weight))
        return torch.baddbmm(biases[-1], x, weights[-1])

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Name → that parameter's place in `flat`, a tensor laid out as this network's own."""
        start = self.flat.storage_offset()
        return {
            name: flat.as_strided(
                parameter.shape,
                parameter.stride(),
                flat.storage_offset() + parameter.storage_offset() - start,
            )
            for name, parameter in self.named_parameters()
        }

    def share(self, agent: int) -> Self:
        """One agent's network, on the same memory: what trains there has trained here."""
        member = cast("Self", self.like(agents=1))
        member.flat = self.flat[agent : agent + 1]
        for mine, theirs in zip(member.parameters(), self.parameters(), strict=True):
            mine.data = theirs.data[agent : agent + 1]
        return member

    def clone(self) -> Self:
        """A copy with memory of its own."""
        copy = cast("Self", self.like(self.rows[0]))
        copy.flat.copy_(self.flat)
        return copy.requires_grad_(next(self.parameters()).requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()  # the default would tear the parameters off `flat`

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What `.to`, `.cuda` and `.double` call; parameters stay views of `flat`."""
        flat = fn(self.flat)
        for parameter, view in zip(self.parameters(), self.views(flat).values(), strict=True):
            parameter.data = view
        self.flat = flat
        for name, buffer in self.named_buffers():
            setattr(self, name, fn(buffer))
        return self

    def like(self, agents: int) -> "Network":
        """A new network of the same shape for `agents` agents."""
        raise NotImplementedError


class Actor(Network):
    """Step 2: from a state to the action that the agent believes best.

    Two hidden layers with ReLU; tanh keeps the action within ±max_action.
    """

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        max_action: ArrayLike = 1.0,
        hidden_sizes: Sequence[int] = (400, 300),
        *,
        agents: int = 1,
        streams: Sequence[Stream] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__((agents,), (state_dim, *hidden_sizes, action_dim), dtype, device)
        self.arguments = (state_dim, action_dim, max_action, tuple(hidden_sizes))
        self.initialize(streams)
        self.max_action: Tensor
        self.register_buffer(
            "max_action", torch.as_tensor(max_action, dtype=dtype, device=device), persistent=False
        )

    def forward(self, state: Tensor) -> Tensor:
        """(agents, batch, state_dim) → (agents, batch, action_dim); one agent: without the axis."""
        x = state if state.dim() == 3 else state.unsqueeze(0)
        action = self.max_action * torch.tanh(self.layers(x, [*self.weights], [*self.biases]))
        return action if state.dim() == 3 else action.squeeze(0)

    def like(self, agents: int) -> "Actor":
        kind = {"dtype": self.flat.dtype, "device": self.flat.device}
        return Actor(*self.arguments, agents=agents, streams=(), **kind)


class Critic(Network):
    """Step 3: twin critics, two independent estimates of the return after taking an action.

    They share nothing but their input, not even a layer: only because their errors differ does
    the smaller of the two (step 8) keep the estimate from drifting upwards.
    """

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        hidden_sizes: Sequence[int] = (400, 300),
        *,
        agents: int = 1,
        streams: Sequence[Stream] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__((agents, 2), (state_dim + action_dim, *hidden_sizes, 1), dtype, device)
        self.arguments = (state_dim, action_dim, tuple(hidden_sizes))
        self.initialize(streams)

    def forward(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Both values of each (state, action), each (agents, batch, 1); one agent: (batch, 1)."""
        x = torch.cat([state, action], dim=-1)
        x = x if x.dim() == 3 else x.unsqueeze(0)
        pairs = x.repeat_interleave(2, dim=0)
        weights = [weight.flatten(0, 1) for weight in self.weights]
        biases = [bias.flatten(0, 1) for bias in self.biases]
        q = self.layers(pairs, weights, biases).unflatten(0, (-1, 2))
        q1, q2 = q.unbind(1)
        return (q1, q2) if state.dim() == 3 else (q1.squeeze(0), q2.squeeze(0))

    def Q1(self, state: Tensor, action: Tensor) -> Tensor:
        """The first critic alone: all that the actor's step needs."""
        x = torch.cat([state, action], dim=-1)
        x = x if x.dim() == 3 else x.unsqueeze(0)
        weights = [weight[:, 0] for weight in self.weights]
        biases = [bias[:, 0] for bias in self.biases]
        q1 = self.layers(x, weights, biases)
        return q1 if state.dim() == 3 else q1.squeeze(0)

    def like(self, agents: int) -> "Critic":
        return Critic(
            *self.arguments, agents=agents, dtype=self.flat.dtype, device=self.flat.device
        )
