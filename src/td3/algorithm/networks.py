"""Steps 2 and 3: the actor, the twin critics, and their targets."""

from collections.abc import Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from td3.algorithm.stacked import StackedMLP, check_width
from td3.seeding import Stream


class Actor(StackedMLP):
    """Step 2: the actor maps a state to the action that it considers best.

    Two hidden layers with ReLU; tanh keeps the action within ±max_action. Its target is a copy that
    follows slowly (step 14).
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
        self.initialize(streams)
        limit = torch.as_tensor(max_action, dtype=dtype, device=device)
        self.max_action: Tensor
        self.register_buffer(
            "max_action", limit.expand(agents, 1, action_dim).clone(), persistent=False
        )

    def forward(self, state: Tensor) -> Tensor:
        """(agents, batch, state_dim) → (agents, batch, action_dim); one agent: without the axis."""
        if state.dim() == 2:
            return self(state.unsqueeze(0)).squeeze(0)  # type: ignore[no-any-return]
        check_width("state", state, self.widths[0])
        return self.max_action * torch.tanh(self.compute(state, self.flat))


class Critic(StackedMLP):
    """Step 3: twin critics, two (or more) independent estimates of the return after an action.

    They share no layer. Their errors must differ, so that the smaller of the two values (step 8)
    counteracts overestimation. Their targets are copies that follow slowly (step 15).
    """

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        hidden_sizes: Sequence[int] = (400, 300),
        *,
        critics: int = 2,
        outputs: int = 1,
        agents: int = 1,
        streams: Sequence[Stream] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        widths = (state_dim + action_dim, *hidden_sizes, outputs)
        super().__init__((agents, critics), widths, dtype, device)
        self.state_dim, self.action_dim = state_dim, action_dim
        self.initialize(streams)

    def forward(self, state: Tensor, action: Tensor) -> tuple[Tensor, ...]:
        """Every critic's values, (agents, batch, outputs) each; one agent: without the axis."""
        if state.dim() == 2:
            values = self(state.unsqueeze(0), action.unsqueeze(0))
            return tuple([value.squeeze(0) for value in values])
        # Each critic gets the same input, (agents · critics, batch, width).
        critics = self.leading[1]
        pairs = self.join(state, action).unsqueeze(1).expand(-1, critics, -1, -1).flatten(0, 1)
        values = self.compute(pairs, self.flat.flatten(0, 1))
        return tuple(values.unflatten(0, (-1, critics)).unbind(1))

    def Q1(self, state: Tensor, action: Tensor) -> Tensor:
        """The first critic alone: all that the actor needs (step 13)."""
        if state.dim() == 2:
            return self.Q1(state.unsqueeze(0), action.unsqueeze(0)).squeeze(0)
        return self.compute(self.join(state, action), self.flat[:, 0])

    def join(self, state: Tensor, action: Tensor) -> Tensor:
        """State and action as one input."""
        check_width("state", state, self.state_dim)
        check_width("action", action, self.action_dim)
        return torch.cat([state, action], dim=-1)
