"""Choose where environments run: in this process, in workers, or in a vector environment."""

import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from td3.config import Config
from td3.config.checks import EXACT
from td3.environments.base import Environments
from td3.environments.environment import Environment
from td3.environments.factories import find_factory, is_importable
from td3.environments.gym_vector import GymVector
from td3.environments.in_process import InProcess
from td3.environments.workers.pool import WorkerPool
from td3.environments.workers.processes import portable_spec
from td3.errors import RunStopped, UserError
from td3.machine import usable_cores
from td3.seeding import Stream

WORKER_OVERHEAD_SECONDS = 30e-6  # of one step of all workers
OVERLAP_SECONDS = 80e-6  # per step that this process can use for other work while a GPU learns
WORTHWHILE_SECONDS = 10.0  # starting workers takes a second or two
TRIAL_SECONDS = 0.05


def make_environments(
    config: Config, streams: list[Stream], first: Environment | None = None
) -> Environments:
    """Make one environment per stream, in the place that `environment.vectorization` names.

    Args:
        config: `auto` uses workers if they save ten seconds over the run (see `worker_count`).
        streams: The random streams that give the environments their seeds.
        first: An environment of this configuration that was already made, e.g. to read its task.
            It is taken over: used as the first environment, or closed.
    """
    settings = config.environment
    if settings.vectorization not in EXACT:
        if first:
            first.close()
        if find_factory(settings.id):
            raise UserError(
                f"environment.vectorization {settings.vectorization} needs a registered id, but "
                f"{settings.id} is a class or function; set it to auto."
            )
        if settings.vectorization == "envpool":
            from td3.environments.envpool import EnvPool

            return EnvPool.make(settings, streams)
        return GymVector.make(settings, streams)
    first = first or Environment(settings)
    every = config.checkpoint.every
    workers = worker_count(config, len(streams), partial(step_seconds, first))
    if workers and is_importable(settings.id):
        first.close()
        return WorkerPool(settings, streams, every, workers, first.task)
    if not first.is_fresh:
        first.close()
    own = InProcess(settings, streams, every, first if first.is_fresh else None)
    if workers:
        own.warning = (
            f"{settings.id} exists only in this process, so worker processes cannot make it; its "
            "environments run in this process"
        )
    return own


def worker_count(config: Config, environments: int, time_step: Callable[[], float]) -> int:
    """Return how many workers to start; 0 means that this process steps the environments.

    `auto` estimates what workers save from the time of one step, which `time_step` measures:
    with n environments the slowest of w workers steps n / w, and communication takes 30
    microseconds. While a GPU learns, this process has other work to do, so a worker can pay off
    even for one environment. Learner and workers together never use more than all cores.
    """
    environment = config.environment
    if environment.vectorization == "own":
        return 0
    if environment.workers:
        return min(environment.workers, environments)
    # The fewest workers that are as fast: for 10 environments on 8 cores, 5 workers step 2 each.
    free = usable_cores() - max(1, config.threads)
    rounds = math.ceil(environments / max(1, free))
    workers = math.ceil(environments / rounds)
    if environment.vectorization == "workers":
        return workers
    overlap = OVERLAP_SECONDS if config.device.startswith("cuda") else 0.0
    if free < 1 or (workers == 1 and not overlap):
        return 0
    step = time_step()
    saved = (environments - rounds) * step + min(rounds * step, overlap) - WORKER_OVERHEAD_SECONDS
    steps = config.loop.steps / environment.count
    return workers if saved * steps > WORTHWHILE_SECONDS else 0


def step_seconds(environment: Environment) -> float:
    """Step for 50 ms and return the median time; 0 if workers cannot make this environment."""
    seconds: list[float] = []
    actions = np.random.default_rng(0)
    try:
        portable_spec(environment.task.id)
        environment.reset(seed=0)
        end = time.perf_counter() + TRIAL_SECONDS
        while not seconds or time.perf_counter() < end:
            action = actions.uniform(-1, 1, environment.task.action_dim).astype(np.float32)
            start = time.perf_counter()
            _, _, terminated, truncated = environment.step(action)
            seconds.append(time.perf_counter() - start)
            if terminated or truncated:
                environment.reset()
    except (UserError, RunStopped):
        return 0.0  # ignore it here; the run reports the error with its context
    return float(np.median(seconds))
