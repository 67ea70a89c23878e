"""Adam along the agent axis."""

import torch
from torch import Tensor

from td3.networks import Network


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
        self.places = list(network.views(self.gradient).values())
        self.mean = torch.zeros_like(network.flat)
        self.square = torch.zeros_like(network.flat)
        # float64: 1 - 0.999**count loses four digits in float32 when count is small.
        self.count = torch.zeros(network.rows[0], dtype=torch.float64, device=network.flat.device)

    def share(self, agent: int, network: Network) -> "Adam":
        """The optimizer of one agent, on the same memory."""
        group = self.param_groups[0]
        member = Adam(network, group["lr"], group["betas"], group["eps"])
        rows = slice(agent, agent + 1)
        member.mean, member.square = self.mean[rows], self.square[rows]
        member.count = self.count[rows]
        return member

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        group = self.param_groups[0]
        beta1, beta2 = group["betas"]
        for place, parameter in zip(self.places, group["params"], strict=True):
            place.copy_(parameter.grad)
        self.count += 1
        per_agent = (-1, *[1] * (self.gradient.dim() - 1))
        correction = ((1 - beta2**self.count).sqrt() / (1 - beta1**self.count)).view(per_agent)
        eps = (group["eps"] * (1 - beta2**self.count).sqrt()).view(per_agent)
        self.mean.lerp_(self.gradient, 1 - beta1)
        self.square.mul_(beta2).addcmul_(self.gradient, self.gradient, value=1 - beta2)
        change = self.mean / (self.square.sqrt() + eps.to(self.mean.dtype))
        self.network.flat -= change.mul_((group["lr"] * correction).to(self.mean.dtype))
