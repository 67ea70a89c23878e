"""What all speed measurements share: rounds, figures, and the description of the machine.

Machines are noisy. Everything is measured in rounds, and things that are compared are measured in
turn within each round. A figure is the median over the rounds, with its quartiles.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from td3.config import Config
from td3.errors import UserError
from td3.execution import compute_on
from td3.launch.setup import choose_device
from td3.run import versions as software

Work = Callable[[int], None]
"""Does something the given number of times."""


@dataclass(frozen=True)
class Rounds:
    """How long to measure."""

    count: int = 5
    seconds: float = 1.0
    """Length of each measurement in a round."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"rounds must be 1 or more, got {self.count}.")
        if not 0 < self.seconds < float("inf"):
            raise UserError(f"seconds must be greater than 0, got {self.seconds}.")


@dataclass(frozen=True)
class Figure:
    """A measured quantity: one value per round."""

    unit: str
    values: list[float]

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Lower quartile, median, upper quartile."""
        lower, median, upper = np.percentile(self.values, [25, 50, 75])
        return float(lower), float(median), float(upper)

    def as_dict(self) -> dict[str, Any]:
        lower, median, upper = self.quartiles
        return {
            "median": median,
            "lower_quartile": lower,
            "upper_quartile": upper,
            "unit": self.unit,
            "values": self.values,
        }


@dataclass(frozen=True)
class Benchmark:
    """The figures of one measurement, its settings, and the machine."""

    name: str
    settings: dict[str, Any]
    figures: dict[str, Figure]
    circumstances: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        figures = {name: figure.as_dict() for name, figure in self.figures.items()}
        facts = {"benchmark": self.name, "settings": self.settings, "figures": figures}
        return facts | self.circumstances


def measure_in_turn(
    works: Mapping[str, Work], cycle: int, rounds: Rounds, device: torch.device
) -> dict[str, list[float]]:
    """Return the seconds per repetition of each work, one value per round.

    Repetitions come in multiples of `cycle`, so that delayed updates have their right share.
    """
    repeats = {name: count_repeats(work, cycle, rounds, device) for name, work in works.items()}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds.count):
        for name, work in works.items():
            seconds[name].append(time_work(work, repeats[name], device) / repeats[name])
    return seconds


def count_repeats(work: Work, cycle: int, rounds: Rounds, device: torch.device) -> int:
    """Return how many repetitions fill one measurement; warm up on the way."""
    work(cycle)  # the first call traces, compiles or captures, which can take longer than the rest
    cycles = 1
    while True:
        taken = time_work(work, cycles * cycle, device)
        if taken > rounds.seconds / 4:
            return cycle * max(1, round(rounds.seconds * cycles / taken))
        cycles *= 2


def time_work(work: Work, repeats: int, device: torch.device) -> float:
    """Return the seconds until the device has finished."""
    synchronize(device)
    start = time.perf_counter()
    work(repeats)
    synchronize(device)
    return time.perf_counter() - start


def synchronize(device: torch.device) -> None:
    """Wait for the GPU, which runs asynchronously."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def prepare_device(config: Config) -> torch.device:
    """Resolve `auto` and set the number of threads."""
    return compute_on(str(choose_device(config.device)), config.threads)


def describe_settings(config: Config, device: torch.device, rounds: Rounds) -> dict[str, Any]:
    return {
        "recipe": config.recipe,
        "agents": config.agents,
        "hidden_sizes": list(config.agent.hidden_sizes),
        "batch_size": config.agent.batch_size,
        "policy_freq": config.agent.policy_freq,
        "replay_size": config.loop.replay_size,
        "device": str(device),
        "threads": config.threads,
        "execution": config.execution,
        "precision": config.precision if device.type == "cuda" else "float32",
        "rounds": rounds.count,
        "seconds": rounds.seconds,
    }


def describe_circumstances() -> dict[str, Any]:
    """Return machine, versions, commit, load and time. Call it before the measurement adds load."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "machine": software.describe_machine() | {"gpu": gpu},
        "versions": software.versions(),
        "commit": software.commit(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
