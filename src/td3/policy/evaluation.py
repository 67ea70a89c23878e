"""Deterministic episodes on seeds of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig, EvaluationConfig
from td3.environments.environment import Environment
from td3.errors import UserError
from td3.layout import Observation
from td3.seeding import Streams

Act = Callable[[Observation], NDArray[np.float32]]


@dataclass(frozen=True)
class Evaluation:
    """Of each episode; a return is NaN where the policy gave no finite action."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]


def episode_seeds(seed: int, episodes: int) -> list[int]:
    """The seeds of an agent's evaluation episodes: fixed, and apart from those it trains on."""
    if seed < 0:
        raise UserError(f"A seed must be 0 or more, not {seed}.")
    if episodes < 1:
        raise UserError(f"Episodes must be 1 or more, not {episodes}.")
    return [int(s) for s in Streams.from_seed(seed).eval.integers(2**31, size=episodes)]


def evaluate(
    act: Act,
    config: EnvironmentConfig,
    seeds: Sequence[int],
    max_steps: int = EvaluationConfig.max_steps,
    tick: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Play one noise-free episode per seed, one after the other; `tick` is called after each.

    The simulator is made for this evaluation, so that the result depends on nothing that happened
    before.
    """
    environment = Environment(config)
    returns, lengths = np.zeros(len(seeds)), np.zeros(len(seeds), dtype=np.int64)
    for episode, seed in enumerate(seeds):
        state, over = environment.reset(seed=seed), False
        while not over:
            action = act(state)
            if np.count_nonzero(np.isfinite(action)) < action.size:
                returns[episode] = np.nan
                break
            state, reward, terminated, truncated = environment.step(action)
            returns[episode] += reward
            lengths[episode] += 1
            over = terminated or truncated or bool(lengths[episode] == max_steps)
        tick()
    environment.close()
    return Evaluation(returns, lengths)
