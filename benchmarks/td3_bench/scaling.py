"""Scaling: the cost of more agents, larger batches, wider layers, more environments.

Each axis is varied alone, starting from the sizes of a recipe. A point that would take too long or
too much memory is left out with a reason.
"""

import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.td3_bench.matrix_products import bench_update_and_products
from td3.bench import measure
from td3.bench.measure import Benchmark, Figure, Rounds
from td3.config import Config
from td3.config.checks import check
from td3.errors import UserError, first_line
from td3.launch.assembly import assemble
from td3.launch.setup import read_task
from td3.training.loop import Training

REPLAY_SIZE = 20_000  # the replay buffers of all agents have to fit into memory
LONGEST = 120.0  # seconds per point
STATE_DIM, ACTION_DIM = 17, 6  # HalfCheetah's


@dataclass(frozen=True)
class Axis:
    """A quantity that is varied."""

    label: str
    sizes: tuple[int, ...]
    growth: int
    """Upper bound of the cost ratio when the size doubles."""
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
    """One size: its figures, or the reason why there are none."""

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
    """Return all sizes, or every second one and the last."""
    sizes = AXES[axis].sizes
    return tuple(dict.fromkeys((*sizes[::2], sizes[-1]))) if coarse else sizes


def bench_scaling(
    config: Config,
    axes: Sequence[str],
    rounds: Rounds,
    longest: float = LONGEST,
    coarse: bool = False,
) -> Scaling:
    """Measure the points of these axes, with `coarse` only every second one."""
    loop = dataclasses.replace(config.loop, replay_size=min(REPLAY_SIZE, config.loop.replay_size))
    config = check(dataclasses.replace(config, loop=loop))
    circumstances = measure.describe_circumstances()
    device = measure.prepare_device(config)
    config = dataclasses.replace(config, device=str(device))
    if "environments" in axes:
        read_task(config)
    found = {name: measure_axis(config, name, rounds, longest, coarse) for name in axes}
    settings = measure.describe_settings(config, device, rounds) | {
        "environment": config.environment.id,
        "state_dim": STATE_DIM,
        "action_dim": ACTION_DIM,
    }
    return Scaling("scaling", settings, {}, circumstances, found)


def measure_axis(
    config: Config, name: str, rounds: Rounds, longest: float, coarse: bool
) -> list[Point]:
    """Measure from the smallest size to the largest, until a point would take too long."""
    axis, expected, points = AXES[name], 0.0, list[Point]()
    growth = axis.growth**2 if coarse else axis.growth
    measure_point = measure_collecting if name == "environments" else measure_update
    for size in sizes_of(name, coarse):
        if expected > longest:
            points.append(Point(size, {}, f"would take about {expected:.0f} s"))
            expected *= growth
            continue
        start = time.perf_counter()
        try:
            points.append(Point(size, measure_point(axis.apply(config, size), rounds)))
        except (UserError, torch.OutOfMemoryError) as error:
            points.append(Point(size, {}, first_line(error)))
        # Rounds have a fixed length, so only the time beyond them grows with the size.
        planned = 2 * rounds.count * rounds.seconds
        expected = growth * max(0.0, time.perf_counter() - start - planned)
        print(f"{name} {size}: {points[-1].left_out or 'measured'}", file=sys.stderr)
    return points


def measure_update(config: Config, rounds: Rounds) -> dict[str, Figure]:
    """Measure updates on random transitions, and their matrix products."""
    figures = bench_update_and_products(config, STATE_DIM, ACTION_DIM, rounds).figures
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
    """Measure acting, simulating and storing, without updates."""
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
    """Return the steps per second."""
    first, start = training.step, time.perf_counter()
    while time.perf_counter() - start < seconds:
        training.advance()
    measure.synchronize(device)
    return (training.step - first) / (time.perf_counter() - start)
