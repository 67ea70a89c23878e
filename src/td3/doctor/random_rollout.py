"""Random actions in two copies of an environment, and what they show."""

import time
import warnings
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.errors import RunStopped
from td3.layout import Layout, describe_dimension, parts_of, unstack_layout

SEED = 0
AT_BOUNDS = 10  # first actions, at the bounds, where trained policies often act


class Episode(NamedTuple):
    episode_return: float
    length: int
    terminated: bool


@dataclass
class Rollout:
    """What random actions showed."""

    seconds: float = 0.0
    rewards: list[float] = field(default_factory=list)
    numbers: list[NDArray[np.float32]] = field(default_factory=list)
    """Observations without their images."""
    dimensions: list[str] = field(default_factory=list)
    """What the numbers are: their dimension, and the part of the observation."""
    has_image: bool = False
    image_changed: bool = False
    episodes: list[Episode] = field(default_factory=list)
    difference: str = ""
    """Where two copies with equal seed and actions first differ."""
    error: str = ""
    """The error that ended the rollout."""
    warnings: list[str] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return len(self.rewards)


def random_rollout(config: EnvironmentConfig, steps: int) -> Rollout:
    """Step two copies in turn with equal seed and actions; errors are recorded.

    In turn, because simulators that share hidden state then differ, and a run also has several
    environments at once.
    """
    rollout = Rollout()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        first, second = Environment(config), Environment(config)
        try:
            compare_copies(rollout, first, second, steps)
        except RunStopped as error:
            rollout.error = f"{error} after {rollout.steps:,} steps"
        first.close()
        second.close()
    rollout.warnings = [str(warning.message) for warning in caught]
    return rollout


def compare_copies(rollout: Rollout, first: Environment, second: Environment, steps: int) -> None:
    stack, single = unstack_layout(first.task.layout)
    parts = [np.full(part.size, part.image is not None) for part in parts_of(single)]
    pixels = np.tile(np.concatenate(parts), stack)
    layout, rollout.has_image = first.task.layout, bool(pixels.any())
    rollout.dimensions = [describe_dimension(layout, i) for i in np.flatnonzero(~pixels).tolist()]
    stream, clock = np.random.default_rng(SEED), time.perf_counter
    initial = first.reset(SEED)
    compare(rollout, layout, initial, second.reset(SEED))
    episode_return, length = 0.0, 0
    for number in range(steps):
        action = stream.uniform(-1, 1, first.task.action_dim).astype(np.float32)
        if number < AT_BOUNDS:
            action = np.sign(action)
        start = clock()
        state, reward, terminated, truncated = first.step(action)
        rollout.seconds += clock() - start
        rollout.rewards.append(reward)
        rollout.numbers.append(state[~pixels])
        rollout.image_changed |= bool((state[pixels] != initial[pixels]).any())
        other, *rest = second.step(action)
        compare(rollout, layout, state, other, (reward, terminated, truncated) == tuple(rest))
        episode_return, length = episode_return + reward, length + 1
        if terminated or truncated:
            rollout.episodes.append(Episode(episode_return, length, terminated))
            episode_return, length = 0.0, 0
            compare(rollout, layout, first.reset(), second.reset())


def compare(
    rollout: Rollout,
    layout: Layout,
    one: NDArray[np.float32],
    other: NDArray[np.float32],
    rest: bool = True,
) -> None:
    """Record the first difference between two copies."""
    if rollout.difference or (rest and np.array_equal(one, other)):
        return
    places = np.flatnonzero(one != other)
    where = "the reward or episode end"
    if places.size:
        where = f"the observation, {describe_dimension(layout, int(places[0]))}"
    rollout.difference = f"after {rollout.steps} steps in {where}"
