"""Exploration: the random actions at the start, and the noise on the actors' actions."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from td3.environments.base import Arrays
from td3.seeding import Stream

NOISE_AHEAD = 64  # steps


class Exploration(Protocol):
    """A source of random actions and noise for all environments of all agents."""

    def random_actions(self) -> NDArray[np.float32]:
        """Actions for the random steps, (environments, action_dim), within [-1, 1]."""

    def draw(self) -> NDArray[np.float64]:
        """Noise for the next step, (environments, action_dim)."""

    def prepare(self) -> None:
        """Do work ahead; the collector calls this while the environments step."""

    def state(self) -> Arrays:
        """Arrays for a checkpoint; the random streams are saved elsewhere."""

    def restore(self, arrays: Arrays) -> None:
        """Continue from `state`; arrays of other names are ignored."""


class GaussianExploration:
    """Independent Gaussian noise in every step and every action component, as in the paper.

    Each agent draws from its own stream, so it explores the same way alone and in a population.
    `standard_deviation` is one number, or one number for each agent.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        environments_per_agent: int,
        action_dim: int,
        standard_deviation: ArrayLike,
    ) -> None:
        self.streams, self.shape = streams, (environments_per_agent, action_dim)
        each = np.broadcast_to(np.asarray(standard_deviation, dtype=np.float64), len(streams))
        self.standard_deviation = np.repeat(each, environments_per_agent)[:, None]
        self.use(np.empty((0, len(self.standard_deviation), action_dim)))

    def random_actions(self) -> NDArray[np.float32]:
        """Uniform over the action range."""
        draws = [stream.uniform(-1, 1, self.shape) for stream in self.streams]
        return np.concatenate(draws).astype(np.float32)

    def draw(self) -> NDArray[np.float64]:
        if self.used == len(self.normal):
            self.draw_block()
        noise: NDArray[np.float64] = self.noise[self.used]
        self.used += 1
        return noise

    def prepare(self) -> None:
        """Draw the next block early, unless no noise was needed so far."""
        if 0 < len(self.normal) == self.used:
            self.draw_block()

    def draw_block(self) -> None:
        """Draw noise for many steps: one call takes about as long for many numbers as for few."""
        shape = (NOISE_AHEAD, *self.shape)
        self.use(np.concatenate([stream.standard_normal(shape) for stream in self.streams], axis=1))

    def use(self, normal: NDArray[np.float64]) -> None:
        """Take these standard normal numbers, (steps, environments, action_dim), from now on."""
        self.normal, self.used = normal, 0
        self.noise = normal * self.standard_deviation

    def state(self) -> Arrays:
        return {"noise": self.normal[self.used :]} if self.used < len(self.normal) else {}

    def restore(self, arrays: Arrays) -> None:
        if "noise" in arrays:
            self.use(arrays["noise"].reshape(-1, *self.normal.shape[1:]))
