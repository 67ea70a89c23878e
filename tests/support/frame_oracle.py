"""A reference for the replay buffer of frames: it keeps every transition in full."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from td3.algorithm.transitions import Transitions

IMAGE = spaces.Box(0, 255, (12, 11), np.uint8)
SPACE = spaces.Dict(a=spaces.Box(-9, 9, (2,)), b=IMAGE, c=spaces.Box(-9, 9, (1,)))
ACTION = 1


@dataclass
class Episode:
    """The current episode of one environment: every observation as a flat vector."""

    rng: np.random.Generator
    stack: int
    observations: list[NDArray[np.float32]] = field(default_factory=list)
    number: int = 0

    def observe(self) -> None:
        pixels = int(np.prod(IMAGE.shape))
        flat = self.rng.normal(size=2 + pixels + 1).astype(np.float32)
        flat[2:-1] = self.rng.integers(0, 256, pixels)
        self.observations.append(flat)

    def state(self) -> NDArray[np.float32]:
        """The newest observations; the first one repeats, as in Gymnasium."""
        wanted = range(len(self.observations) - self.stack, len(self.observations))
        return np.concatenate([self.observations[max(0, i)] for i in wanted])


@dataclass
class Oracle:
    """Random episodes; `happened` holds all transitions of each agent, in order."""

    stack: int
    environments: int
    agents: int = 1
    ending: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.episodes = [
            Episode(self.rng, self.stack) for _ in range(self.agents * self.environments)
        ]
        self.happened: list[list[dict[str, Any]]] = [[] for _ in range(self.agents)]
        for episode in self.episodes:
            episode.observe()

    def step(self) -> Transitions:
        """One step of every environment."""
        rows, begins = [], []
        for index, episode in enumerate(self.episodes):
            begins.append(len(episode.observations) == 1)
            state = episode.state()
            episode.observe()
            action, reward = self.rng.uniform(-1, 1), self.rng.normal()
            terminated, truncated = self.rng.random(2) < self.ending / 2
            rows.append(np.concatenate([state, episode.state(), [action, reward, terminated]]))
            entry = {"row": rows[-1].astype(np.float32), "episode": (index, episode.number)}
            self.happened[index // self.environments].append(entry)
            if terminated or truncated:
                episode.observations.clear()
                episode.number += 1
                episode.observe()
        owners = np.repeat(np.arange(self.agents), self.environments)
        table = np.array(rows, dtype=np.float32)
        return Transitions(owners, np.arange(len(rows)), table, np.array(begins))
