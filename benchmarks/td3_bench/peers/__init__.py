"""TD3 of other libraries, each used as its documentation recommends.

Each adapter is a module with `start(config)`, which makes the library's agent and environment and
returns an object that can train. Only the adapter imports the library.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym

from td3.config import Config
from td3.environments.simulators import make


class Trainer(Protocol):
    """Trains TD3 with one update per step of one environment."""

    def train(self, seconds: float) -> tuple[int, float]:
        """Continue for about this long; return the steps and the exact time."""
        ...


@dataclass(frozen=True)
class Library:
    """A library that can be measured."""

    adapter: str
    """Module of its adapter."""
    module: str
    """Module that must be importable."""
    distribution: str
    """Name of its distribution; empty if it has no version."""
    uses: str
    """Interface that the adapter uses."""


OURS = "td3"
LIBRARIES = {
    OURS: Library(
        "benchmarks.td3_bench.peers.ours", "td3", "td3", "Training, the loop of 'td3 train'"
    ),
    "authors": Library(
        "benchmarks.td3_bench.peers.authors", "torch", "", "TD3.train and the loop of main.py"
    ),
    "authors-graphs": Library(
        "benchmarks.td3_bench.peers.authors_graphs",
        "torch",
        "",
        "the same as CUDA graphs, replay buffer on the GPU (the method of LeanRL)",
    ),
    "stable-baselines3": Library(
        "benchmarks.td3_bench.peers.stable_baselines",
        "stable_baselines3",
        "stable-baselines3",
        "TD3(…).learn, stopped by a callback",
    ),
    "sbx": Library(
        "benchmarks.td3_bench.peers.sbx",
        "sbx",
        "sbx-rl",
        "TD3(…).learn (JAX), stopped by a callback",
    ),
    "tianshou": Library(
        "benchmarks.td3_bench.peers.tianshou",
        "tianshou",
        "tianshou",
        "OffPolicyTrainer.execute_epoch, epochs of 50 steps, one step per collection",
    ),
    "torchrl": Library(
        "benchmarks.td3_bench.peers.torchrl",
        "torchrl",
        "torchrl",
        "Collector, TD3Loss, SoftUpdate as in its TD3 example, 50 steps then 50 updates",
    ),
    "skrl": Library(
        "benchmarks.td3_bench.peers.skrl", "skrl", "skrl", "StepTrainer.train, one step per call"
    ),
}


def make_environment(config: Config) -> gym.Env[Any, Any]:
    """Make the environment, for all libraries without Gymnasium's environment checker."""
    return make(config.environment)


def train_in_pieces(piece: Callable[[], int], seconds: float) -> tuple[int, float]:
    """Repeat a piece of training until the time is over; the piece returns its steps."""
    steps, start = 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < seconds:
        steps += piece()
    return steps, taken
