"""Speed of training: act, simulate, store and update, without evaluation and logging."""

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from td3.bench import measure
from td3.bench.measure import Benchmark, Figure, Rounds
from td3.config import Config
from td3.config.checks import check
from td3.errors import UserError
from td3.launch.assembly import assemble
from td3.launch.setup import read_task
from td3.training.loop import Training

RANDOM_STEPS = 100  # enough for a first batch
WARM_UP_STEPS = 10_000
PARTS = ("acting", "simulator", "replay_add", "update")


def bench_throughput(config: Config, rounds: Rounds) -> Benchmark:
    """Measure training, and the share of each part of a step.

    Each round trains twice: undisturbed for the speed, then with timers for the shares. On a GPU a
    timer has to wait for the device, which slows training down.
    """
    loop = dataclasses.replace(config.loop, random_steps=min(RANDOM_STEPS, config.loop.steps - 1))
    config = check(dataclasses.replace(config, loop=loop))
    circumstances = measure.describe_circumstances()
    device = measure.prepare_device(config)
    read_task(config)
    speeds: list[float] = []
    shares: dict[str, list[float]] = {part: [] for part in (*PARTS, "other")}
    with tempfile.TemporaryDirectory(prefix="td3-bench-") as folder:
        training = assemble(dataclasses.replace(config, device=str(device)), Path(folder))
        try:
            warm_up(training)
            for _ in range(rounds.count):
                steps, seconds = train_for(training, rounds.seconds, device)
                speeds.append(steps / seconds)
                with time_parts(training, device) as parts:
                    _, seconds = train_for(training, rounds.seconds, device)
                parts["other"] = seconds - sum(parts.values())
                for part, taken in parts.items():
                    shares[part].append(100 * taken / seconds)
        finally:
            training.close()
    settings = measure.describe_settings(config, device, rounds) | {
        "environment": config.environment.id,
        "state_dim": training.agent.state_dim,
        "action_dim": training.agent.action_dim,
        "updates_per_step": config.loop.updates_per_step,
        "update": config.loop.update,
    }
    figures = {
        "steps_per_second": Figure("1/s", speeds),
        "agent_steps_per_second": Figure("1/s", [config.agents * speed for speed in speeds]),
        "milliseconds_per_step": Figure("ms", [1e3 / speed for speed in speeds]),
        **{f"{part}_share": Figure("%", taken) for part, taken in shares.items()},
    }
    return Benchmark("throughput", settings, figures, circumstances)


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


@contextmanager
def time_parts(training: Training, device: torch.device) -> Iterator[dict[str, float]]:
    """Time the parts of the loop; yield the seconds of each, which grow while training runs."""
    seconds = dict.fromkeys(PARTS, 0.0)
    learn = "learn" if training.config.loop.update == "step" else "learn_member"
    timed = [
        ("acting", training.learner, "prefetch_actions"),
        ("acting", training.learner, "act"),
        ("simulator", training.environments, "receive"),
        ("replay_add", training.learner, "store"),
        ("update", training.learner, learn),
    ]

    def add_timer(part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            measure.synchronize(device)
            start = time.perf_counter()
            result = method(*arguments)
            measure.synchronize(device)
            seconds[part] += time.perf_counter() - start
            return result

        return call

    # An attribute of the object hides the method of its class until it is deleted.
    for part, owner, name in timed:
        setattr(owner, name, add_timer(part, getattr(owner, name)))
    try:
        yield seconds
    finally:
        for _, owner, name in timed:
            delattr(owner, name)


def default_environment() -> str:
    """Return the task of the published figures if its simulator is installed."""
    return "HalfCheetah-v5" if find_spec("mujoco") else "Pendulum-v1"
