"""Deterministic episodes on seeds of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.config import EnvironmentConfig, EvaluationConfig
from td3.environments import Environment
from td3.errors import UserError
from td3.seeding import Streams

Act = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths, (agents, episodes)."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]

    def of(self, agent: int) -> "Evaluation":
        """One agent's, (1, episodes)."""
        return Evaluation(self.returns[agent : agent + 1], self.lengths[agent : agent + 1])


def episode_seeds(seed: int, episodes: int) -> list[int]:
    """The seeds of an agent's evaluation episodes: fixed, and apart from those it trains on."""
    if seed < 0:
        raise UserError(f"A seed must be 0 or more, not {seed}.")
    return [int(s) for s in Streams.from_seed(seed).eval.integers(2**31, size=episodes)]


def evaluate(
    act: Act,
    config: EnvironmentConfig,
    seeds: Sequence[Sequence[int]],
    device: torch.device | str = "cpu",
    max_steps: int = EvaluationConfig.max_steps,
) -> Evaluation:
    """Play one noise-free episode per seed; `seeds[k]` are those of agent k, or none.

    Each agent plays its episodes one after the other in a simulator made for this evaluation, so
    that the result depends on nothing that happened before. All agents act in one forward pass.
    """
    environments = [Environment(config) for _ in seeds]
    shape = (len(seeds), max(len(s) for s in seeds))
    returns, lengths = np.zeros(shape), np.zeros(shape, dtype=np.int64)
    episode = [0] * len(seeds)
    states = np.stack(
        [env.reset(seed=[*s, 0][0]) for env, s in zip(environments, seeds, strict=True)]
    )
    playing = [agent for agent, own in enumerate(seeds) if own]
    while playing:
        batch = torch.from_numpy(states).unsqueeze(1).to(device)
        actions = act(batch).squeeze(1).cpu().numpy()
        for agent in list(playing):
            state, reward, terminated, truncated = environments[agent].step(actions[agent])
            returns[agent, episode[agent]] += reward
            lengths[agent, episode[agent]] += 1
            if terminated or truncated or lengths[agent, episode[agent]] == max_steps:
                episode[agent] += 1
                if episode[agent] == len(seeds[agent]):
                    playing.remove(agent)
                    continue
                state = environments[agent].reset(seed=seeds[agent][episode[agent]])
            states[agent] = state
    for environment in environments:
        environment.close()
    return Evaluation(returns, lengths)
