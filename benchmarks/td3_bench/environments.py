"""Speed of environments: steps in this process and in worker processes, in turn."""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from td3.bench.measure import Benchmark, Figure, Rounds, describe_circumstances
from td3.config import Config
from td3.environments.backend import worker_count
from td3.environments.base import Environments
from td3.environments.in_process import InProcess
from td3.environments.workers.pool import WorkerPool
from td3.errors import UserError
from td3.machine import usable_cores
from td3.seeding import Streams

NEVER = 1 << 62


def bench_environments(config: Config, rounds: Rounds, counts: Sequence[int]) -> Benchmark:
    """Measure steps with random actions, for each number of environments."""
    if config.environment.workers < 0:
        raise UserError(f"workers must be 0 or more, got {config.environment.workers}.")
    environment = dataclasses.replace(config.environment, vectorization="workers")
    config = dataclasses.replace(config, environment=environment)
    circumstances = describe_circumstances()
    figures: dict[str, Figure] = {}
    workers = {count: worker_count(config, count, lambda: 0.0) for count in counts}
    for count in counts:
        own, others = measure_both(config, count, workers[count], rounds)
        figures |= {
            f"own_{count}": Figure("µs", (1e6 * own).tolist()),
            f"workers_{count}": Figure("µs", (1e6 * others).tolist()),
            f"own_over_workers_{count}": Figure("", (own / others).tolist()),
        }
    settings = {
        "environment": environment.id,
        "workers": {str(count): number for count, number in workers.items()},
        "cores": usable_cores(),
        "rounds": rounds.count,
        "seconds": rounds.seconds,
    }
    return Benchmark("environments", settings, figures, circumstances)


def measure_both(
    config: Config, count: int, workers: int, rounds: Rounds
) -> list[NDArray[np.float64]]:
    """Return the seconds per step in this process and in workers, one value per round each."""
    streams = [Streams.from_seed(seed).env for seed in range(count)]
    both: list[Environments] = [InProcess(config.environment, streams, NEVER)]
    seconds: list[list[float]] = [[], []]
    try:
        both.append(WorkerPool(config.environment, streams, NEVER, workers))
        for _ in range(rounds.count):
            for environments, taken in zip(both, seconds, strict=True):
                taken.append(seconds_per_step(environments, rounds.seconds))
    finally:
        for environments in both:
            environments.close()
    return [np.array(taken) for taken in seconds]


def seconds_per_step(environments: Environments, seconds: float) -> float:
    """Return the time of one step of all environments, measured for about this long."""
    shape = (16, len(environments.states), environments.task.action_dim)
    actions = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    environments.step(actions[0], 0)  # wakes workers that block
    steps = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        for action in actions:
            environments.step(action, 0)
        steps += len(actions)
    return (time.perf_counter() - start) / steps
