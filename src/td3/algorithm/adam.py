"""Adam along the agent axis."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from td3.algorithm.stacked import Layers, per_agent

# The moments of a unit that no longer learns fade. At these sizes they move no parameter any more,
# and in 256 updates none gets from here to denormal numbers, with which processors are slow.
FADED_MEAN, FADED_SQUARE = 1e-20, 1e-30


class Adam(torch.optim.Optimizer):
    """Adam (Kingma & Ba, 2015) on a network's one flat parameter.

    Element-wise, so agents never mix. Each agent counts its own steps, because the members of a
    population need not have trained equally often. `lr` is one number, or one for each agent.
    """

    def __init__(
        self,
        network: Layers,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__([network.flat], {"lr": lr, "betas": betas, "eps": eps})
        # float64: 1 - 0.999**count loses four digits in float32 when count is small.
        count = torch.zeros(network.agents, dtype=torch.float64, device=network.flat.device)
        flat = network.flat.detach()
        self.keep(count, torch.zeros_like(flat), torch.zeros_like(flat))

    def keep(self, count: Tensor, mean: Tensor, square: Tensor) -> None:
        """Use these moments; PyTorch's names for them, so that state_dict() has them."""
        self.count, self.mean, self.square = count, mean, square
        state = {"step": count, "exp_avg": mean, "exp_avg_sq": square}
        self.state[self.param_groups[0]["params"][0]] = state

    def share(self, agent: int, network: Layers) -> "Adam":
        """The optimizer of one agent, on the same memory."""
        return self.over(network, lambda tensor: tensor[agent : agent + 1])

    def clone(self, network: Layers) -> "Adam":
        """A copy for a copy of the network."""
        return self.over(network, torch.clone)

    def over(self, network: Layers, taken: Callable[[Tensor], Tensor]) -> "Adam":
        """The same optimizer for another network, with what is taken of each of its tensors."""
        group = self.param_groups[0]
        rate = taken(group["lr"]) if isinstance(group["lr"], Tensor) else group["lr"]
        other = Adam(network, rate, group["betas"], group["eps"])
        other.keep(taken(self.count), taken(self.mean), taken(self.square))
        return other

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what another optimizer's `state_dict` gave."""
        count, mean, square = self.count, self.mean, self.square
        super().load_state_dict(state_dict)
        loaded = dict(self.state[self.param_groups[0]["params"][0]])
        self.keep(count, mean, square)
        for mine, name in ((count, "step"), (mean, "exp_avg"), (square, "exp_avg_sq")):
            mine.copy_(loaded[name])

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        group = self.param_groups[0]
        (parameter,) = group["params"]
        beta1, beta2 = group["betas"]
        self.count += 1
        self.mean.lerp_(parameter.grad, 1 - beta1)
        self.square.mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
        mean_hat = self.mean / per_agent(1 - beta1**self.count, self.mean)
        square_hat = self.square / per_agent(1 - beta2**self.count, self.mean)
        rate = per_agent(group["lr"] * torch.ones_like(self.count), self.mean)
        parameter -= rate * mean_hat / (square_hat.sqrt_() + group["eps"])

    def drop_faded(self) -> None:
        """Set moments to zero that are too small to move anything."""
        self.mean *= self.mean.abs() > FADED_MEAN
        self.square *= self.square > FADED_SQUARE
