"""Evaluation: noise-free episodes with fixed seeds."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig, EvaluationConfig
from td3.environments.environment import Environment
from td3.environments.episode_info import success_of
from td3.errors import UserError
from td3.intervals import mean_interval
from td3.layout import Observation
from td3.seeding import Streams
from td3.text import count, number

Act = Callable[[Observation], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Return and length of each episode; the return is NaN if an action was not finite."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    successes: NDArray[np.float64] | None = None
    """1 or 0 for each episode whose last `info` has `is_success` or `success`; None: no episode."""

    def __repr__(self) -> str:
        text = f"mean return {number(self.mean, 4)} ± {number(self.std)}"
        if len(self.returns) > 1:
            low, high = (number(end, 4) for end in self.interval)
            text += f", 95 % interval {low} to {high}"
        episodes = count(len(self.returns), "episode")
        return f"Evaluation({text}, {episodes} of {self.lengths.mean():.0f} steps)"

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """The population standard deviation of the returns (ddof = 0)."""
        return float(self.returns.std())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean return over episodes; NaN for one episode."""
        if len(self.returns) < 2:
            return np.nan, np.nan
        low, high = mean_interval(self.returns)
        return float(low), float(high)


def episode_seeds(seed: int, episodes: int) -> list[int]:
    """The seeds of an agent's evaluation episodes; independent of the seeds for training."""
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
    """Play one noise-free episode per seed, one after the other.

    A new simulator is made, so that the result does not depend on earlier episodes.

    Args:
        act: Maps a flat state to an action within [-1, 1].
        config: The task.
        seeds: One seed for each episode.
        max_steps: Longest episode.
        tick: Called after each episode.

    Returns:
        Returns and lengths of the episodes, and successes if the task reports them.
    """
    successes: list[float] = []
    returns, lengths = np.zeros(len(seeds)), np.zeros(len(seeds), dtype=np.int64)
    with closing(Environment(config)) as environment:
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
            if (success := success_of(environment.info)) is not None:
                successes.append(success)
            tick()
    return Evaluation(returns, lengths, np.array(successes) if successes else None)
