"""Other libraries' TD3, trained by their own documented way, to be measured beside ours.

Every adapter is a module with `start(config)`: it makes the library's agent and environment and
returns something that can train for a while. A library is imported by its adapter only.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym

from td3.config import Config
from td3.environments.simulators import make


class Contestant(Protocol):
    """Something that trains TD3, with one update for each step of one environment."""

    def train(self, seconds: float) -> tuple[int, float]:
        """Go on training for about so long; returns the steps taken and the time they took."""
        ...


@dataclass(frozen=True)
class Entry:
    """A contestant that can be asked to take part."""

    adapter: str
    """The module that starts it."""
    module: str
    """What has to be importable for it."""
    distribution: str
    """What pip calls it."""
    uses: str
    """The interface of the library that the adapter goes through."""


OURS = "td3"
ENTRIES = {
    OURS: Entry("td3.bench.peers.ours", "td3", "td3", "Training, the loop of 'td3 train'"),
    "stable-baselines3": Entry(
        "td3.bench.peers.stable_baselines",
        "stable_baselines3",
        "stable-baselines3",
        "TD3(…).learn, stopped by a callback",
    ),
    "sbx": Entry(
        "td3.bench.peers.sbx",
        "sbx",
        "sbx-rl",
        "TD3(…).learn (JAX), stopped by a callback",
    ),
    "tianshou": Entry(
        "td3.bench.peers.tianshou",
        "tianshou",
        "tianshou",
        "OffPolicyTrainer.execute_epoch, epochs of 50 steps, one step per collection",
    ),
    "torchrl": Entry(
        "td3.bench.peers.torchrl",
        "torchrl",
        "torchrl",
        "Collector, TD3Loss, SoftUpdate as in its TD3 example, 50 steps then 50 updates",
    ),
    "skrl": Entry("td3.bench.peers.skrl", "skrl", "skrl", "StepTrainer.train, one step per call"),
}


def one_environment(config: Config) -> gym.Env[Any, Any]:
    """The same environment for everyone: without Gymnasium's checker, which repeats in Python
    what ours checks once."""
    return make(config.environment)


def train_in_pieces(piece: Callable[[], int], seconds: float) -> tuple[int, float]:
    """Repeat a piece of training, which returns its steps, until the time is over."""
    steps, start = 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < seconds:
        steps += piece()
    return steps, taken
