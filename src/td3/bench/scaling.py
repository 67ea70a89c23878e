"""How the cost grows with the work: more agents, larger batches, wider layers, more environments.

Each axis is varied alone, from the sizes of a recipe. A point that would take too long or too much
memory is left out, and says so.
"""

import dataclasses
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from td3.bench.measure import (
    Benchmark,
    Figure,
    Rounds,
    Tick,
    bench_update,
    describe,
    prepare,
    synchronize,
    take_note,
)
from td3.config import Config
from td3.config.checks import check
from td3.errors import UserError, first_line
from td3.launch.assembly import assemble
from td3.launch.setup import read_task
from td3.training.loop import Training

RING = 20_000  # transitions; the agents' rings together have to fit
LONGEST = 120.0  # seconds that a point may take
STATE_DIM, ACTION_DIM = 17, 6  # HalfCheetah's


@dataclass(frozen=True)
class Axis:
    """One quantity that grows."""

    label: str
    sizes: tuple[int, ...]
    growth: int
    """How many times longer twice the size takes at most."""
    apply: Callable[[Config, int], Config]


def with_agents(config: Config, size: int) -> Config:
    return dataclasses.replace(config, seeds=size)


def with_batch(config: Config, size: int) -> Config:
    return dataclasses.replace(config, agent=dataclasses.replace(config.agent, batch_size=size))


def with_width(config: Config, size: int) -> Config:
    hidden = (size,) * len(config.agent.hidden_sizes)
    return dataclasses.replace(config, agent=dataclasses.replace(config.agent, hidden_sizes=hidden))


def with_environments(config: Config, size: int) -> Config:
    environment = dataclasses.replace(config.environment, count=size)
    return dataclasses.replace(config, environment=environment)


AXES = {
    "agents": Axis("agents", tuple(2**k for k in range(9)), 2, with_agents),
    "batch": Axis("batch size", tuple(2**k for k in range(6, 13)), 2, with_batch),
    "width": Axis("width of both hidden layers", tuple(2**k for k in range(6, 11)), 4, with_width),
    "environments": Axis(
        "environments of one agent", tuple(2**k for k in range(6)), 2, with_environments
    ),
}


@dataclass(frozen=True)
class Point:
    """One size: its figures, or why it has none."""

    size: int
    figures: dict[str, Figure]
    left_out: str = ""

    def as_dict(self) -> dict[str, Any]:
        if self.left_out:
            return {"size": self.size, "left_out": self.left_out}
        figures = {name: figure.as_dict() for name, figure in self.figures.items()}
        return {"size": self.size, "figures": figures}


@dataclass(frozen=True)
class Scaling(Benchmark):
    axes: dict[str, list[Point]]

    def as_dict(self) -> dict[str, Any]:
        axes = {name: [point.as_dict() for point in points] for name, points in self.axes.items()}
        return super().as_dict() | {"axes": axes}


def sizes_of(axis: str, coarse: bool) -> tuple[int, ...]:
    """All sizes, or every second and the last."""
    sizes = AXES[axis].sizes
    return tuple(dict.fromkeys((*sizes[::2], sizes[-1]))) if coarse else sizes


def count_points(axes: Sequence[str], coarse: bool = False) -> int:
    return sum(len(sizes_of(name, coarse)) for name in axes)


def bench_scaling(
    config: Config,
    axes: Sequence[str],
    rounds: Rounds,
    tick: Tick = lambda: None,
    longest: float = LONGEST,
    coarse: bool = False,
) -> Scaling:
    """Every point of the axes asked for, or only every second."""
    loop = dataclasses.replace(config.loop, replay_size=min(RING, config.loop.replay_size))
    config = check(dataclasses.replace(config, loop=loop))
    circumstances = take_note()
    device = prepare(config)
    config = dataclasses.replace(config, device=str(device))
    if "environments" in axes:
        read_task(config)
    found = {name: measure_axis(config, name, rounds, tick, longest, coarse) for name in axes}
    described = describe(config, device, rounds) | {
        "environment": config.environment.id,
        "state_dim": STATE_DIM,
        "action_dim": ACTION_DIM,
    }
    return Scaling("scaling", described, {}, circumstances, found)


def measure_axis(
    config: Config, name: str, rounds: Rounds, tick: Tick, longest: float, coarse: bool
) -> list[Point]:
    """From the smallest size to the largest, while a point stays affordable."""
    axis, expected, points = AXES[name], 0.0, list[Point]()
    growth = axis.growth**2 if coarse else axis.growth
    measure = measure_collecting if name == "environments" else measure_update
    for size in sizes_of(name, coarse):
        if expected > longest:
            points.append(Point(size, {}, f"would take about {expected:.0f} s"))
            expected *= growth
            tick()
            continue
        start = time.perf_counter()
        try:
            points.append(Point(size, measure(axis.apply(config, size), rounds)))
        except (UserError, torch.OutOfMemoryError) as error:
            points.append(Point(size, {}, first_line(error)))
        # What a round takes beyond its seconds is what grows: a single update may be longer.
        planned = 2 * rounds.count * rounds.seconds
        expected = growth * max(0.0, time.perf_counter() - start - planned)
        tick()
    return points


def measure_update(config: Config, rounds: Rounds) -> dict[str, Figure]:
    """Updates alone, on random numbers, and the matrix products in them."""
    figures = bench_update(config, STATE_DIM, ACTION_DIM, rounds).figures
    milliseconds = figures["milliseconds_per_update"].values
    products = figures["products_milliseconds_per_update"].values
    agents = config.agents
    return {
        "updates_per_second": figures["updates_per_second"],
        "agent_updates_per_second": figures["agent_updates_per_second"],
        "microseconds_per_agent_update": Figure("µs", [1e3 * ms / agents for ms in milliseconds]),
        "products_microseconds_per_agent_update": Figure(
            "µs", [1e3 * ms / agents for ms in products]
        ),
    }


def measure_collecting(config: Config, rounds: Rounds) -> dict[str, Figure]:
    """Acting, simulating and storing, without updates, which would hide them."""
    device = torch.device(config.device)
    loop = dataclasses.replace(config.loop, random_steps=0, update="step")
    config = dataclasses.replace(config, loop=loop)
    speeds = []
    with tempfile.TemporaryDirectory(prefix="td3-bench-") as folder:
        training = assemble(config, Path(folder))
        training.learner.__dict__["learn"] = lambda updates: None  # hides the method
        try:
            collect_for(training, min(0.2, rounds.seconds), device)
            speeds = [collect_for(training, rounds.seconds, device) for _ in range(rounds.count)]
        finally:
            training.close()
    return {
        "steps_per_second": Figure("1/s", speeds),
        "microseconds_per_step": Figure("µs", [1e6 / speed for speed in speeds]),
    }


def collect_for(training: Training, seconds: float, device: torch.device) -> float:
    """Steps per second."""
    first, start = training.step, time.perf_counter()
    while time.perf_counter() - start < seconds:
        training.advance()
    synchronize(device)
    return (training.step - first) / (time.perf_counter() - start)
