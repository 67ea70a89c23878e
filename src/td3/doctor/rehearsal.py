"""Random actions in an environment, and what they bring to light."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.observations import layout_bounds
from td3.environments.simulators import make, silence_pybullet
from td3.environments.task import Task
from td3.environments.wrappers import stack_frames
from td3.layout import flatten, parts_of, unstacked

SEED = 0

Tick = Callable[[int], None]


class Trial:
    """An environment object that is watched, not trusted: only its exceptions stop it."""

    def __init__(self, config: EnvironmentConfig, task: Task) -> None:
        self.task = task
        with silence_pybullet(config.id):
            self.env = stack_frames(make(config), config)

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *problem: object) -> None:
        self.env.close()

    def reset(self, seed: int | None = None) -> NDArray[np.float32]:
        with silence_pybullet(self.task.id):
            observation, _ = self.env.reset(seed=seed)
        return flatten(self.task.layout, observation).copy()

    def step(self, action: NDArray[np.float32]) -> "Outcome":
        observation, reward, terminated, truncated, _ = self.env.step(
            self.task.bounds.scale(action)
        )
        state = flatten(self.task.layout, observation).copy()
        return Outcome(state, float(reward), bool(terminated), bool(truncated))


@dataclass(frozen=True)
class Outcome:
    """What one step gave."""

    state: NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    def difference(self, other: "Outcome") -> str:
        """Where two outcomes are not the same to the last bit, or nothing."""
        if place := different_dimension(self.state, other.state):
            return place
        if np.float64(self.reward).tobytes() != np.float64(other.reward).tobytes():
            return f"in the reward ({self.reward:.6g} and {other.reward:.6g})"
        if (self.terminated, self.truncated) != (other.terminated, other.truncated):
            return "in whether the episode is over"
        return ""


def different_dimension(one: NDArray[np.float32], other: NDArray[np.float32]) -> str:
    bits = one.view(np.uint32) != other.view(np.uint32)
    if not bits.any():
        return ""
    where = int(np.flatnonzero(bits)[0])
    return f"in observation dimension {where} ({one[where]:.6g} and {other[where]:.6g})"


@dataclass(frozen=True)
class Episode:
    episode_return: float
    length: int
    terminated: bool


@dataclass
class Seen:
    """What random actions brought to light."""

    task: Task
    declared: tuple[NDArray[np.float32], NDArray[np.float32]]
    """Bounds of the observation space, flattened."""
    steps: int = 0
    seconds: float = 0.0
    rewards: list[float] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    not_finite: str = ""
    """The first number that is not one."""
    outside: int = 0
    """Observations outside their declared space."""
    outside_dimension: int = -1
    parted: str = ""
    """Where two fresh objects with the same seed and actions first differed."""
    failure: str = ""
    """The exception that ended the trial."""

    def __post_init__(self) -> None:
        size = self.task.state_dim
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)
        self.squares, self.observations = np.zeros(size), 0
        self.running_return, self.running_length = 0.0, 0

    def take_state(self, state: NDArray[np.float32]) -> None:
        finite = np.isfinite(state)
        if not finite.all():
            where = int(np.flatnonzero(~finite)[0])
            place = f"{state[where]} in observation dimension {where} at step {self.steps}"
            self.not_finite = self.not_finite or place
            return
        low, high = self.declared
        beyond = np.flatnonzero((state < low) | (state > high))
        if beyond.size:
            self.outside += 1
            self.outside_dimension = int(beyond[0])
        self.low, self.high = np.minimum(self.low, state), np.maximum(self.high, state)
        self.squares += np.square(state, dtype=np.float64)
        self.observations += 1

    def take(self, outcome: Outcome) -> None:
        self.steps += 1
        self.take_state(outcome.state)
        if math.isfinite(outcome.reward):
            self.rewards.append(outcome.reward)
        else:
            place = f"a reward of {outcome.reward} at step {self.steps}"
            self.not_finite = self.not_finite or place
        self.running_return += outcome.reward
        self.running_length += 1
        if outcome.over:
            self.episodes.append(
                Episode(self.running_return, self.running_length, outcome.terminated)
            )
            self.running_return, self.running_length = 0.0, 0

    @property
    def scales(self) -> NDArray[np.float64]:
        """Root mean square of each observation dimension."""
        return np.sqrt(self.squares / max(self.observations, 1))

    @property
    def pixels(self) -> NDArray[np.bool_]:
        """Which dimensions belong to images."""
        stack, single = unstacked(self.task.layout)
        found = np.concatenate([np.full(p.size, p.image is not None) for p in parts_of(single)])
        return np.tile(found, stack)

    @property
    def constant(self) -> NDArray[np.bool_]:
        unmoved: NDArray[np.bool_] = self.low == self.high
        return unmoved


def rehearse(seen: Seen, pair: tuple[Trial, Trial], steps: int, tick: Tick) -> None:
    """The same random actions in two objects with the same seed, side by side.

    Side by side, not one after the other: simulators that share hidden state then show it, and a
    run has several objects alive at once, too.
    """
    first, second = pair
    stream = np.random.default_rng(SEED)
    restart(seen, first, second, SEED)
    for _ in range(steps):
        action = stream.uniform(-1, 1, seen.task.action_dim).astype(np.float32)
        start = time.perf_counter()
        outcome = first.step(action)
        seen.seconds += time.perf_counter() - start
        seen.take(outcome)
        if not seen.parted and (place := outcome.difference(second.step(action))):
            seen.parted = f"at step {seen.steps} {place}"
        if outcome.over:
            restart(seen, first, second, None)
        tick(1)


def restart(seen: Seen, first: Trial, second: Trial, seed: int | None) -> None:
    start = time.perf_counter()
    state = first.reset(seed)
    seen.seconds += time.perf_counter() - start
    seen.take_state(state)
    if not seen.parted and (place := different_dimension(state, second.reset(seed))):
        seen.parted = f"at the reset after {seen.steps} steps {place}"


def declared_bounds(
    task: Task, space: spaces.Space[Any]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Of the flat observation, with room for rounding to float32."""
    low, high = (bound.astype(np.float64) for bound in layout_bounds(task.layout, space))
    with np.errstate(over="ignore"):
        return (
            (low - 1e-6 * np.maximum(1, np.abs(low))).astype(np.float32),
            (high + 1e-6 * np.maximum(1, np.abs(high))).astype(np.float32),
        )
