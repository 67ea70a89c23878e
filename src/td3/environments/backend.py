"""Who steps the environments: this process, workers, or somebody's vector."""

import math
import time

import numpy as np

from td3.config import Config
from td3.environments.base import Environments
from td3.environments.environment import Environment
from td3.environments.gym_vector import Vectorized
from td3.environments.in_process import InProcess
from td3.environments.workers.pool import Workers
from td3.environments.workers.processes import portable_spec
from td3.errors import RunStopped, UserError
from td3.machine import usable_cores
from td3.seeding import Stream

EXACT = ("auto", "own", "workers")
"""These give the same numbers and the same checkpoints; a run may change between them."""
HANDOVER_SECONDS = 30e-6  # what a step costs in workers besides stepping
BESIDE_SECONDS = 80e-6  # what a step leaves for this process to do meanwhile, if a GPU learns
WORTHWHILE_SECONDS = 10.0  # starting workers takes a second or two
TRIAL_SECONDS = 0.05


def arranged(config: Config, streams: list[Stream]) -> Environments:
    """One environment per stream, arranged as the configuration says.

    `auto` keeps them in this process unless workers would save ten seconds over the run. What
    workers save is reckoned from the time of one step, tried for 50 ms: of n environments the
    slowest of w workers steps n / w, and handing over takes 30 microseconds. Where a GPU learns,
    this process has work of its own meanwhile, so that even one environment may have a worker.
    There are never more workers than cores that the learner leaves free.
    """
    environment = config.environment
    if environment.vectorization == "envpool":
        from td3.environments.envpool import EnvPool

        return EnvPool.make(environment, streams)
    if environment.vectorization not in EXACT:
        return Vectorized.make(environment, streams)
    every = config.checkpoint.every
    if workers := worker_count(config, len(streams)):
        return Workers(environment, streams, every, workers)
    return InProcess(environment, streams, every)


def worker_count(config: Config, environments: int) -> int:
    """How many workers to start; 0: step in this process."""
    environment = config.environment
    if environment.vectorization == "own":
        return 0
    if environment.workers:
        return min(environment.workers, environments)
    # The fewest that are as fast: of 10 environments on 8 cores, 5 workers step 2 each.
    free = usable_cores() - max(1, config.threads)
    rounds = math.ceil(environments / max(1, free))
    workers = math.ceil(environments / rounds)
    if environment.vectorization == "workers":
        return workers
    beside = BESIDE_SECONDS if config.device.startswith("cuda") else 0.0
    if free < 1 or (workers == 1 and not beside):
        return 0
    step = step_seconds(config)
    saved = (environments - rounds) * step + min(rounds * step, beside) - HANDOVER_SECONDS
    steps = config.loop.steps / environment.count
    return workers if saved * steps > WORTHWHILE_SECONDS else 0


def step_seconds(config: Config) -> float:
    """How long one environment takes for a step; 0 where workers could not make it."""
    environment = Environment(config.environment)
    taken: list[float] = []
    actions = np.random.default_rng(0)
    try:
        portable_spec(environment)
        environment.reset(seed=0)
        end = time.perf_counter() + TRIAL_SECONDS
        while not taken or time.perf_counter() < end:
            action = actions.uniform(-1, 1, environment.task.action_dim).astype(np.float32)
            start = time.perf_counter()
            _, _, terminated, truncated = environment.step(action)
            taken.append(time.perf_counter() - start)
            if terminated or truncated:
                environment.reset()
    except (UserError, RunStopped):
        return 0.0  # whatever it is, the run itself will say it better
    finally:
        environment.close()
    return float(np.median(taken))
