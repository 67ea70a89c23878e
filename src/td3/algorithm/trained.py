"""A network that learns: the online network, its target and its optimizer."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from td3.algorithm.adam import Adam
from td3.algorithm.returned import check_loss
from td3.algorithm.stacked import StackedParameters, per_agent

N = TypeVar("N", bound=StackedParameters)


@dataclass
class Trained(Generic[N]):
    """One kind of network of every agent, with its target and its optimizer."""

    online: N
    target: N
    optimizer: Adam

    @torch.no_grad()
    def move_target(self, tau: float | Tensor) -> None:
        """Polyak averaging: target ← (1 - tau) · target + tau · online."""
        self.target.flat.lerp_(self.online.flat, per_agent(tau, self.online.flat))

    def tensors(self, name: str) -> dict[str, Tensor]:
        """All numbers by the names they have in files, e.g. `actor_target.layer_1.weight`."""
        optimizer = self.optimizer
        found = {
            f"{part}.{key}": view
            for part, flat in (
                (name, self.online.flat.detach()),
                (f"{name}_target", self.target.flat),
                (f"{name}_optimizer.mean", optimizer.mean),
                (f"{name}_optimizer.square", optimizer.square),
            )
            for key, view in self.online.named_layers(flat).items()
        }
        return found | {f"{name}_optimizer.count": optimizer.count}


def minimize(loss: Tensor, *networks: Trained[Any]) -> None:
    """One gradient step of these networks, and of no other, on a loss per agent, (agents,)."""
    check_loss(loss, networks[0].online.agents)
    for network in networks:
        network.optimizer.zero_grad()
    loss.sum().backward(inputs=[network.online.flat for network in networks])
    for network in networks:
        network.optimizer.step()
