"""Step 4 with priorities: transitions are sampled in proportion to a number of their own."""

from typing import Any, Self

import torch
from torch import Tensor

from td3.algorithm.replay import ReplayBuffer

BLOCK = 1024  # transitions whose sum of priorities is kept


class PrioritizedReplay(ReplayBuffer):
    """A replay buffer that samples in proportion to priorities (Schaul et al., 2016).

    An agent sets the priorities of each batch after its update (`TD3.priorities`). New transitions
    get the highest priority so far, so that each is soon sampled once. Priorities live where the
    transitions are; choosing is two searches, in the sums of blocks and within a block.
    """

    per_agent = (*ReplayBuffer.per_agent, "values", "sums", "highest")

    def allocate(self, state_dim: int, action_dim: int) -> None:
        super().allocate(state_dim, action_dim)
        blocks = -(-self.capacity // BLOCK)
        self.values = torch.zeros(self.agents, blocks, BLOCK, device=self.device)
        """The priorities, (agents, blocks, BLOCK)."""
        self.sums = torch.zeros(self.agents, blocks, device=self.device)
        self.highest = torch.ones(self.agents, 1, device=self.device)

    @property
    def weights(self) -> Tensor:
        """The priority of each place, (agents, capacity)."""
        return self.values.flatten(1)[:, : self.capacity]

    def choose(self, uniform: Tensor, sizes: Tensor) -> Tensor:
        ends = running_sum(self.sums)
        wanted = uniform.to(ends.dtype) * ends[:, -1:]
        block = torch.searchsorted(ends, wanted, right=True).clamp(max=ends.shape[1] - 1)
        rest = wanted - (ends - self.sums).gather(1, block)
        inside = running_sum(self.block_values(block))
        place = torch.searchsorted(inside, rest.unsqueeze(-1), right=True).squeeze(-1)
        chosen = block * BLOCK + place.clamp(max=BLOCK - 1)
        return torch.minimum(chosen, sizes - 1)  # rounding may lead past the last transition

    def set_priorities(self, chosen: Any, priorities: Tensor | None) -> None:
        if priorities is None:
            raise ValueError("a prioritized replay buffer needs an agent that returns priorities")
        places = torch.as_tensor(chosen, device=self.device)
        values, priorities = self.values.flatten(1), priorities.to(self.values)
        # The maximum does not depend on the order if a transition was sampled twice.
        values.scatter_(1, places, 0.0)
        values.scatter_reduce_(1, places, priorities, "amax")
        block = places // BLOCK
        self.sums.scatter_(1, block, self.block_values(block).sum(dim=-1))
        torch.maximum(self.highest, priorities.amax(dim=1, keepdim=True), out=self.highest)

    def note_new(self, places: int | Tensor) -> None:
        flat = torch.as_tensor(places, device=self.device).view(-1)
        agent, place = flat // self.capacity, flat % self.capacity
        self.values.flatten(1)[agent, place] = self.highest[agent, 0]
        block = place // BLOCK
        self.sums[agent, block] = self.values[agent, block].sum(dim=-1)

    def block_values(self, block: Tensor) -> Tensor:
        """The priorities in these blocks, (agents, batch) → (agents, batch, BLOCK)."""
        agents = torch.arange(len(block), device=self.device)[:, None]
        return self.values[agents, block]

    def reading_copy(self) -> Self:
        other = super().reading_copy()
        for name in ("values", "sums", "highest"):
            setattr(other, name, getattr(self, name).clone())
        return other

    def clear(self) -> None:
        super().clear()
        if self.rows is not None:
            self.values.zero_()
            self.sums.zero_()
            self.highest.fill_(1)

    def compact(self, agent: int, places: Tensor) -> None:
        super().compact(agent, places)
        priorities = self.values[agent].flatten()[places]
        self.values[agent] = 0
        self.values[agent].view(-1)[: len(places)] = priorities
        self.sums[agent] = self.values[agent].sum(dim=-1)

    def erase(self, agent: int) -> None:
        super().erase(agent)
        if self.rows is not None:  # a frozen agent samples zeros, uniformly
            self.values[agent] = (self.values[agent] != 0).to(self.values)
            self.sums[agent] = self.values[agent].sum(dim=-1)
            self.highest[agent] = 1

    def restart(self, agent: int) -> None:
        super().restart(agent)
        self.reset_priorities(agent)

    def reset_priorities(self, agent: int) -> None:
        if self.rows is None:
            return
        places = torch.arange(self.values[agent].numel(), device=self.device)
        stored = (places < int(self.sizes[agent])).to(self.values)
        self.values[agent] = stored.view_as(self.values[agent])
        self.sums[agent] = self.values[agent].sum(dim=-1)
        self.highest[agent] = 1

    def tensors(self) -> dict[str, Tensor]:
        if self.rows is None:
            return {}
        return {"priorities": self.weights, "sums": self.sums, "highest": self.highest}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        if not tensors:
            return
        self.weights.copy_(tensors["priorities"])
        self.sums.copy_(tensors["sums"])
        self.highest.copy_(tensors["highest"])


def running_sum(values: Tensor) -> Tensor:
    """Sums of the first entries along the last axis.

    A second row keeps CUDA from its method for single rows, whose rounding differs each time.
    """
    rows = values.flatten(0, -2)
    return torch.cat([rows, rows[:1]]).cumsum(dim=-1)[:-1].view(values.shape)
