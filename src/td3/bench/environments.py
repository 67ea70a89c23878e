"""How fast environments step: in this process and in workers, one after the other."""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np

from td3.bench.measure import Benchmark, Figure, Rounds, Tick, take_note
from td3.config import Config
from td3.environments.backend import worker_count
from td3.environments.base import Environments
from td3.environments.in_process import InProcess
from td3.environments.workers.pool import WorkerPool
from td3.errors import UserError
from td3.machine import usable_cores
from td3.seeding import Streams

NEVER = 1 << 62


def bench_environments(
    config: Config, rounds: Rounds, tick: Tick, counts: Sequence[int]
) -> Benchmark:
    """Steps with random actions, nothing else; for so many environments at once."""
    if config.environment.workers < 0:
        raise UserError(f"workers must be 0 or more, not {config.environment.workers}.")
    environment = dataclasses.replace(config.environment, vectorization="workers")
    config = dataclasses.replace(config, environment=environment)
    circumstances = take_note()
    figures: dict[str, Figure] = {}
    workers = {count: worker_count(config, count, lambda: 0.0) for count in counts}
    for count in counts:
        streams = [Streams.from_seed(seed).env for seed in range(count)]
        both: list[Environments] = [InProcess(environment, streams, NEVER)]
        try:
            both.append(WorkerPool(environment, streams, NEVER, workers[count]))
            seconds: list[list[float]] = [[], []]
            for _ in range(rounds.count):
                for environments, taken in zip(both, seconds, strict=True):
                    taken.append(seconds_per_step(environments, rounds.seconds))
                tick()
        finally:
            for environments in both:
                environments.close()
        own, others = (np.array(taken) for taken in seconds)
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


def seconds_per_step(environments: Environments, seconds: float) -> float:
    """Time for one step of them all, over about so many seconds."""
    shape = (16, len(environments.states), environments.task.action_dim)
    actions = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    environments.step(actions[0], 0)  # wakes those that sleep
    steps = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        for action in actions:
            environments.step(action, 0)
        steps += len(actions)
    return (time.perf_counter() - start) / steps
