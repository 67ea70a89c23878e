"""Adam along the agent axis."""

from typing import Any

import torch
from torch import Tensor

from td3.agent_axis import Network


class Adam(torch.optim.Optimizer):
    """Adam (Kingma & Ba, 2015) on a network's one flat parameter.

    Element-wise, so agents never mix. Each agent counts its own steps, because the members of a
    population need not have trained equally often.
    """

    def __init__(
        self,
        network: Network,
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

    def share(self, agent: int, network: Network) -> "Adam":
        """The optimizer of one agent, on the same memory."""
        rows = slice(agent, agent + 1)
        return self.over(network, self.count[rows], self.mean[rows], self.square[rows])

    def clone(self, network: Network) -> "Adam":
        """A copy for a copy of the network."""
        return self.over(network, self.count.clone(), self.mean.clone(), self.square.clone())

    def over(self, network: Network, count: Tensor, mean: Tensor, square: Tensor) -> "Adam":
        group = self.param_groups[0]
        other = Adam(network, group["lr"], group["betas"], group["eps"])
        other.keep(count, mean, square)
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
        mean_hat = self.mean / self.per_agent(1 - beta1**self.count)
        square_hat = self.square / self.per_agent(1 - beta2**self.count)
        rate = self.per_agent(group["lr"] * torch.ones_like(self.count))
        parameter -= rate * mean_hat / (square_hat.sqrt_() + group["eps"])

    def per_agent(self, numbers: Tensor) -> Tensor:
        """One number per agent, shaped to meet that agent's parameters."""
        return numbers.to(self.mean.dtype).view(-1, *[1] * (self.mean.dim() - 1))
