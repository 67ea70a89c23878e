"""Adam along the agent axis."""

from typing import Any

import torch
from torch import Tensor

from td3.agent_axis import Network


class Adam(torch.optim.Optimizer):
    """Adam (Kingma & Ba, 2015) on a network's flat parameters.

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
        super().__init__(network.parameters(), {"lr": lr, "betas": betas, "eps": eps})
        self.network = network
        self.gradient = torch.zeros_like(network.flat)
        self.mean = torch.zeros_like(network.flat)
        self.square = torch.zeros_like(network.flat)
        # float64: 1 - 0.999**count loses four digits in float32 when count is small.
        self.count = torch.zeros(network.agents, dtype=torch.float64, device=network.flat.device)
        self.publish()

    def publish(self) -> None:
        """Show gradients and moments per parameter, under the names of PyTorch's own Adam."""
        self.places = list(self.network.views(self.gradient).values())
        means, squares = self.network.views(self.mean), self.network.views(self.square)
        for name, parameter in self.network.named_parameters():
            self.state[parameter] = {
                "step": self.count,
                "exp_avg": means[name],
                "exp_avg_sq": squares[name],
            }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what another optimizer's `state_dict` gave."""
        super().load_state_dict(state_dict)
        loaded = [dict(self.state[parameter]) for parameter in self.network.parameters()]
        self.publish()
        for parameter, theirs in zip(self.network.parameters(), loaded, strict=True):
            for name, tensor in self.state[parameter].items():
                tensor.copy_(theirs[name])

    def share(self, agent: int, network: Network) -> "Adam":
        """The optimizer of one agent, on the same memory."""
        rows = slice(agent, agent + 1)
        return self.over(network, self.mean[rows], self.square[rows], self.count[rows])

    def clone(self, network: Network) -> "Adam":
        """A copy for a copy of the network."""
        return self.over(network, self.mean.clone(), self.square.clone(), self.count.clone())

    def over(self, network: Network, mean: Tensor, square: Tensor, count: Tensor) -> "Adam":
        group = self.param_groups[0]
        other = Adam(network, group["lr"], group["betas"], group["eps"])
        other.mean, other.square, other.count = mean, square, count
        other.publish()
        return other

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        group = self.param_groups[0]
        beta1, beta2 = group["betas"]
        for place, parameter in zip(self.places, group["params"], strict=True):
            place.copy_(parameter.grad)
        self.count += 1
        self.mean.lerp_(self.gradient, 1 - beta1)
        self.square.mul_(beta2).addcmul_(self.gradient, self.gradient, value=1 - beta2)
        mean_hat = self.mean / self.per_agent(1 - beta1**self.count)
        square_hat = self.square / self.per_agent(1 - beta2**self.count)
        rate = group["lr"] * torch.ones_like(self.count)
        self.network.flat -= self.per_agent(rate) * mean_hat / (square_hat.sqrt_() + group["eps"])

    def per_agent(self, numbers: Tensor) -> Tensor:
        """One number per agent, shaped to meet that agent's parameters."""
        return numbers.to(self.mean.dtype).view(-1, *[1] * (self.mean.dim() - 1))
