"""The members of a run: an agent for each seed and each combination of the grid's settings.

A member that diverges is frozen: its networks, moments and transitions become zeros, and zeros
they stay, for a network of zeros on transitions of zeros has no error and no gradient. So the
update stays the same for everyone, and nobody has to ask at each step who is frozen.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.config import Config, describe_settings
from td3.training.metrics import Interval, Record


class Population:
    """Who trains side by side, with which numbers, and who no longer does."""

    def __init__(self, config: Config, device: torch.device) -> None:
        self.config, self.device = config, device
        self.members = [config.member(agent) for agent in range(config.agents)]
        self.settings = [own for own in config.combinations for _ in range(config.seeds)]
        """What the grid sets for each member."""
        self.frozen = np.zeros(len(self.members), dtype=np.bool_)

    def each(self, key: str) -> list[Any]:
        """A setting's value for each member."""
        table, _, name = key.partition(".")
        return [getattr(getattr(member, table), name) for member in self.members]

    def number(self, key: str) -> Any:
        """A setting as the update takes it: one value, or a tensor where the grid varies it."""
        values = self.each(key)
        if key in self.config.grid:
            return torch.tensor(values, dtype=torch.float64, device=self.device)
        return values[0]

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The arguments of `TD3.train`, for all members at once."""
        return {name: self.number(f"agent.{name}") for name in ARGUMENTS}

    def hyperparameters_of(self, agent: int) -> dict[str, Any]:
        """The same for one member that is trained by itself."""
        return {name: getattr(self.members[agent].agent, name) for name in ARGUMENTS}

    def name(self, agent: int) -> str:
        """A member as a sentence names it: seed 3, or seed 3 with discount 0.98."""
        own = describe_settings(self.settings[agent])
        return f"seed {self.members[agent].seed}" + (f" with {own}" if own else "")

    def facts(self, agent: int) -> Record:
        """A member as a record names it."""
        own = {"settings": self.settings[agent]} if self.config.grid else {}
        return {"agent": agent, "seed": self.members[agent].seed, **own}

    @property
    def last(self) -> bool:
        """Whether only one member still trains."""
        return int((~self.frozen).sum()) == 1


ARGUMENTS = ("batch_size", "discount", "tau", "policy_noise", "noise_clip", "policy_freq")


def not_finite(tensors: Mapping[str, Tensor]) -> dict[int, str]:
    """Agent → the first of these tensors, (agents, …), in which it has a number not finite."""
    found: dict[int, str] = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            finite = torch.isfinite(tensor).reshape(len(tensor), -1).all(dim=1)
            for agent in torch.nonzero(~finite).flatten().tolist():
                found.setdefault(agent, name)
    return found


@torch.no_grad()
def erase(agents: TD3, interval: Interval, agent: int) -> None:
    """Set everything that a member has learnt to zero."""
    member = agents.member(agent)
    for name, tensor in member.tensors().items():
        if name not in ("max_action", "updates"):
            tensor.zero_()
    if member.normalizer:
        member.normalizer.refresh()
    for tensor in interval.tensors().values():
        tensor[agent] = 0
