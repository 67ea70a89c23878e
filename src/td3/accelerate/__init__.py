"""How an update is executed: everything here wraps the agent's own `update`."""

import os
import shutil
from importlib.util import find_spec
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from td3.accelerate.workspace import Acting, Workspace
from td3.agent import TD3
from td3.learner import Learner
from td3.metrics import Interval
from td3.population import Population
from td3.replay import ReplayBuffer


def accelerate(agent: TD3) -> TD3:
    """Execute this agent's updates on a CPU as planned kernels; returns the agent.

    Copies and members of it are updated plainly, until they are accelerated themselves.
    """
    if agent.device.type == "cpu":
        # An attribute of the object hides the method of its class.
        agent.__dict__["update"] = Workspace(agent)
    return agent


class Planned(Learner):
    """A learner on a CPU, whose agent and members have plans of their own."""

    def __init__(
        self, agent: TD3, replay: ReplayBuffer, interval: Interval, population: Population
    ) -> None:
        super().__init__(accelerate(agent), replay, interval, population)
        self.members: dict[int, TD3] = {}
        self.acting: Acting | None = None

    def act(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        given = torch.from_numpy(states).view(self.agent.agents, -1, states.shape[1])
        if self.acting is None:
            self.acting = Acting(self.agent, given)
        return self.acting(given).flatten(0, 1).numpy()

    def member(self, agent: int) -> TD3:
        if agent not in self.members:
            self.members[agent] = accelerate(super().member(agent))
        return self.members[agent]


def make_learner(
    agent: TD3,
    replay: ReplayBuffer,
    interval: Interval,
    population: Population,
    execution: Literal["auto", "eager"] = "auto",
    precision: Literal["tf32", "float32"] = "tf32",
) -> Learner:
    """The fastest way to train on the agent's device that is certain to be right."""
    parts = (agent, replay, interval, population)
    if agent.device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    if execution == "eager":
        return Learner(*parts)
    if agent.device.type == "cpu":
        return Planned(*parts)
    from td3.accelerate.captured import Captured

    compiled = can_compile()
    return Captured(*parts, compiled=compiled, fused=compiled and precision == "tf32")


def can_compile() -> bool:
    """Whether Triton, in which Inductor writes its kernels too, is here and finds a compiler."""
    compilers = (os.environ.get("CC", "cc"), "gcc", "clang")
    return find_spec("triton") is not None and any(map(shutil.which, compilers))
