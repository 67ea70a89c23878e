"""Adam along the agent axis."""

from typing import Any

import torch
from torch import Tensor

from td3.algorithm.stacked import StackedParameters, per_agent

# The moments of a unit that stopped learning decay to denormal numbers, which are slow on CPUs.
# Moments below these limits move no parameter, and none becomes denormal within 256 updates.
FADED_MEAN, FADED_SQUARE = 1e-20, 1e-30


class Adam(torch.optim.Optimizer):
    """Adam (Kingma & Ba, 2015) on a network's one flat parameter.

    All operations are element-wise, so agents never mix. Each agent counts its own steps, because
    the members of a population may differ in their number of updates. `lr` is one number, or a
    tensor with one for each agent.
    """

    def __init__(
        self,
        network: StackedParameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__([network.flat], {"lr": lr, "betas": betas, "eps": eps})
        # float64, because 1 - 0.999**count loses four digits in float32 when count is small.
        count = torch.zeros(network.agents, dtype=torch.float64, device=network.flat.device)
        flat = network.flat.detach()
        self.bind_state(count, torch.zeros_like(flat), torch.zeros_like(flat))

    def bind_state(self, count: Tensor, mean: Tensor, square: Tensor) -> None:
        """Use this count and these moments, under PyTorch's names, so that state_dict() works."""
        self.count, self.mean, self.square = count, mean, square
        state = {"step": count, "exp_avg": mean, "exp_avg_sq": square}
        self.state[self.param_groups[0]["params"][0]] = state

    def __getstate__(self) -> dict[str, Any]:
        own = {"count": self.count, "mean": self.mean, "square": self.square}
        return super().__getstate__() | own

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copy the state of another optimizer's `state_dict`."""
        count, mean, square = self.count, self.mean, self.square
        super().load_state_dict(state_dict)
        loaded = dict(self.state[self.param_groups[0]["params"][0]])
        self.bind_state(count, mean, square)
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

    def flush_denormals(self) -> None:
        """Set moments that are too small to move a parameter to zero."""
        self.mean *= self.mean.abs() > FADED_MEAN
        self.square *= self.square > FADED_SQUARE
