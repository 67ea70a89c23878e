"""Speed of training: act, simulate, store and update, without evaluation and logging."""

import dataclasses
import tempfile
import time
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from td3.bench import measure
from td3.bench.host import HostLearner
from td3.bench.measure import Benchmark, Figure, Rounds
from td3.bench.parts import time_parts
from td3.config import Config
from td3.config.checks import check
from td3.environments.workers.pool import WorkerPool
from td3.errors import UserError
from td3.launch.assembly import assemble
from td3.launch.setup import read_task
from td3.training.loop import Training

RANDOM_STEPS = 100  # enough for a first batch
WARM_UP_STEPS = 10_000


def bench_throughput(config: Config, rounds: Rounds, host_only: bool = False) -> Benchmark:
    """Measure training, and the time of each part of a step.

    Each round trains twice: undisturbed for the speed, then with timers for the parts. On a GPU a
    timer has to wait for the device, which slows training down.

    Args:
        config: What to train.
        rounds: How long to measure.
        host_only: Leave out the networks, so that only the host's work remains (`host.py`).
    """
    loop = dataclasses.replace(config.loop, random_steps=min(RANDOM_STEPS, config.loop.steps - 1))
    device_name = "cpu" if host_only else config.device
    config = check(dataclasses.replace(config, loop=loop, device=device_name))
    circumstances = measure.describe_circumstances()
    device = measure.prepare_device(config)
    read_task(config)
    figures: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="td3-bench-") as folder:
        training = assemble(dataclasses.replace(config, device=str(device)), Path(folder))
        try:
            if host_only:
                training.learner.close()
                training.learner = HostLearner(training)
            warm_up(training)
            for _ in range(rounds.count):
                found = measure_round(training, rounds.seconds, device, host_only)
                for name, value in found.items():
                    figures[name].append(value)
        finally:
            training.close()
    settings = describe_training(training, rounds, device)
    units = {name: unit_of(name) for name in figures}
    return Benchmark(
        "host" if host_only else "throughput",
        settings,
        {name: Figure(units[name], values) for name, values in figures.items()},
        circumstances,
    )


def measure_round(
    training: Training, seconds: float, device: torch.device, host_only: bool
) -> dict[str, float]:
    """Train for this long, then again with timers."""
    steps, taken = train_for(training, seconds, device)
    figures = {
        "steps_per_second": steps / taken,
        "agent_steps_per_second": training.agent.agents * steps / taken,
        "milliseconds_per_step": 1e3 * taken / steps,
    }
    with time_parts(training, device) as parts:
        process, thread = time.process_time(), time.thread_time()
        steps, taken = train_for(training, seconds, device)
        process, thread = time.process_time() - process, time.thread_time() - thread
    # Without networks the simulators would take nearly all the time, so processor time counts.
    own, whole = (parts.cpu, thread) if host_only else (parts.wall, taken)
    own = own | {"other": whole - sum(own.values())}
    figures |= {f"{part}_share": 100 * value / whole for part, value in own.items()}
    figures |= {f"{part}_microseconds": 1e6 * value / steps for part, value in own.items()}
    if host_only:
        cpu = {"host": thread - parts.cpu["simulator"], "drawing": process - thread}
        figures |= {f"{part}_cpu_microseconds": 1e6 * value / steps for part, value in cpu.items()}
    return figures


def unit_of(figure: str) -> str:
    ends = {"_share": "%", "_microseconds": "µs", "_per_second": "1/s", "_per_step": "ms"}
    return next(unit for end, unit in ends.items() if figure.endswith(end))


def describe_training(training: Training, rounds: Rounds, device: torch.device) -> dict[str, Any]:
    config, environments = training.config, training.environments
    workers = len(environments.links) if isinstance(environments, WorkerPool) else 0
    return measure.describe_settings(config, device, rounds) | {
        "environment": config.environment.id,
        "state_dim": training.agent.state_dim,
        "action_dim": training.agent.action_dim,
        "updates_per_step": config.loop.updates_per_step,
        "update": config.loop.update,
        "workers": workers,
    }


def warm_up(training: Training) -> None:
    """Train past the random steps and the first updates, which are slow."""
    while training.agent.updates.min() < 2 * training.config.agent.policy_freq:
        training.advance()
        if training.step > WARM_UP_STEPS:
            raise UserError(
                f"No episode of {training.config.environment.id} ended within {WARM_UP_STEPS:,} "
                f"steps, and recipe {training.config.recipe} updates only at the end of an "
                "episode. Use --recipe paper."
            )


def train_for(training: Training, seconds: float, device: torch.device) -> tuple[int, float]:
    """Train for about this long; return the steps per agent and the exact time.

    If updates happen at the end of an episode, the measurement ends there too.
    """
    wait = training.config.loop.update == "episode"
    first = training.step
    measure.synchronize(device)
    start = time.perf_counter()
    while True:
        ended = training.advance()
        taken = time.perf_counter() - start
        if taken > seconds and (ended or not wait):
            break
    measure.synchronize(device)
    return training.step - first, time.perf_counter() - start


def default_environment() -> str:
    """Return the task of the published figures if its simulator is installed."""
    return "HalfCheetah-v5" if find_spec("mujoco") else "Pendulum-v1"
