"""The agents of a run: one for each seed and each combination of the grid's settings."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from td3.config import Config, describe_settings
from td3.training.metrics import Record


class Population:
    """The agents that train together, their settings, and which of them are frozen."""

    def __init__(self, config: Config, device: torch.device) -> None:
        self.config, self.device = config, device
        self.members = [config.member(agent) for agent in range(config.agents)]
        self.settings = [own for own in config.combinations for _ in range(config.seeds)]
        """The grid's settings for each agent."""
        self.frozen = np.zeros(len(self.members), dtype=np.bool_)
        """Agents that diverged (`divergence.py`)."""
        self.discounts = np.array(self.each("agent.discount"))
        self.tensors: dict[str, Tensor] = {}
        """The values of each setting that the grid varies; traced updates read this memory."""

    def each(self, key: str) -> list[Any]:
        """The value of a setting for each agent."""
        table, _, name = key.partition(".")
        return [getattr(getattr(member, table), name) for member in self.members]

    def number(self, key: str) -> Any:
        """A setting as the update takes it: one value, or a tensor if the grid varies it."""
        values = self.each(key)
        if key not in self.config.grid:
            return values[0]
        if key not in self.tensors:
            self.tensors[key] = torch.tensor(values, dtype=torch.float64, device=self.device)
        return self.tensors[key]

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The arguments of `TD3.train` for all agents together."""
        return {name: self.number(f"agent.{name}") for name in ARGUMENTS}

    def hyperparameters_of(self, agent: int) -> dict[str, Any]:
        """The arguments of `TD3.train` for one agent."""
        return {name: getattr(self.members[agent].agent, name) for name in ARGUMENTS}

    def name(self, agent: int) -> str:
        """An agent in words: seed 3, or seed 3 with discount 0.98."""
        own = describe_settings(self.settings[agent])
        return f"seed {self.members[agent].seed}" + (f" with {own}" if own else "")

    def facts(self, agent: int) -> Record:
        """The fields of a record that identify an agent."""
        own = {"settings": self.settings[agent]} if self.config.grid else {}
        return {"agent": agent, "seed": self.members[agent].seed, **own}

    @property
    def one_left(self) -> bool:
        """Whether only one agent still trains."""
        return int((~self.frozen).sum()) == 1


ARGUMENTS = ("batch_size", "discount", "tau", "policy_noise", "noise_clip", "policy_freq")
