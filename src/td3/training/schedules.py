"""Schedules: learning rates and action noise that change over the run.

A factor depends on nothing but the step and the settings, so a resumed run has the same one.
"""

import math
from typing import Any, Literal

from td3.algorithm.agent import TD3
from td3.config import Config
from td3.training.collector import Collector

Shape = Literal["constant", "linear", "cosine"]
CHANGES = 1000  # per run; a GPU need not receive a new number in every step


def schedule_factor(shape: Shape, final: float, progress: float) -> float:
    """The factor on the initial value.

    Args:
        shape: The curve from 1 to `final`; a constant stays 1.
        final: The factor at the end.
        progress: step / loop.steps, from 0 to 1.

    Returns:
        The factor, between 1 and `final`.
    """
    if shape == "constant":
        return 1.0
    gone = progress if shape == "linear" else (1 - math.cos(math.pi * progress)) / 2
    return (1 - gone) + final * gone  # exact at both ends


class Schedules:
    """Sets the learning rates and the action noise of a run."""

    def __init__(self, config: Config, agent: TD3, collector: Collector) -> None:
        self.config, self.agent, self.collector = config, agent, collector
        optimizers = [network.optimizer for network in agent.trained.values()]
        self.groups: list[dict[str, Any]] = [own.param_groups[0] for own in optimizers]
        self.initial_rates = [group["lr"] for group in self.groups]
        """Numbers, or tensors with one number for each agent."""
        self.every = math.ceil(config.loop.steps / CHANGES)
        self.learning_rate = config.agent.learning_rate_schedule != "constant"
        self.noise = config.loop.exploration_schedule != "constant"
        self.applied = -1
        """Step for which the values were set."""

    def apply(self, step: int) -> None:
        """Set the values of this step; call it before acting and learning."""
        if not (self.learning_rate or self.noise):
            return
        step -= step % self.every
        if step == self.applied:
            return
        self.applied, progress = step, min(1.0, step / self.config.loop.steps)
        if self.noise:
            loop = self.config.loop
            self.collector.noise_factor = schedule_factor(
                loop.exploration_schedule, loop.final_exploration_noise, progress
            )
        if self.learning_rate:
            agent = self.config.agent
            factor = schedule_factor(
                agent.learning_rate_schedule, agent.final_learning_rate, progress
            )
            for group, rate in zip(self.groups, self.initial_rates, strict=True):
                group["lr"] = rate * factor
