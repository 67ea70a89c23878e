"""Where the time of a training step goes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from td3.bench import measure
from td3.environments.workers.pool import WorkerPool
from td3.training.loop import Training

PARTS = (
    "acting",
    "exploration",
    "simulator",
    "transfer",
    "replay_add",
    "statistics",
    "update",
)
"""What is timed; the rest of a step is the loop itself, `other`."""
Timed = tuple[str, Any, str]
"""A part, an object and the name of its method."""


@dataclass
class PartTimes:
    """Seconds of each part; a part that calls another one does not count the other's time."""

    device: torch.device
    wall: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    cpu: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    """CPU time of the thread that trains."""
    inside: list[tuple[float, float]] = field(default_factory=list)
    """Wall and CPU time of the parts that each active part has called."""

    def timed(self, part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method with a timer. On a GPU a timer waits for the device."""

        def call(*arguments: Any) -> Any:
            measure.synchronize(self.device)
            self.inside.append((0.0, 0.0))
            start = time.perf_counter(), time.thread_time()
            try:
                result = method(*arguments)
                measure.synchronize(self.device)
                return result
            finally:
                wall, cpu = time.perf_counter() - start[0], time.thread_time() - start[1]
                self.add(part, wall, cpu)

        return call

    def add(self, part: str, wall: float, cpu: float) -> None:
        inner_wall, inner_cpu = self.inside.pop()
        self.wall[part] += wall - inner_wall
        self.cpu[part] += cpu - inner_cpu
        if self.inside:
            outer_wall, outer_cpu = self.inside[-1]
            self.inside[-1] = outer_wall + wall, outer_cpu + cpu


def timed_methods(training: Training) -> list[Timed]:
    """What to time in this training."""
    learn = "learn" if training.config.loop.update == "step" else "learn_member"
    environments, collector, learner = training.environments, training.collector, training.learner
    stepping: list[Timed] = [("simulator", environments, "receive")]
    if isinstance(environments, WorkerPool):
        stepping = [("transfer", environments, "receive"), ("simulator", environments, "wait")]
    return [
        ("acting", learner, "prefetch_actions"),
        ("acting", learner, "act"),
        ("exploration", collector, "add_noise"),
        ("transfer", collector, "send"),
        *stepping,
        ("replay_add", collector, "transitions"),
        ("replay_add", learner, "store"),
        ("statistics", training.interval, "add_actions"),
        ("statistics", collector, "count_step"),
        ("statistics", training.interval, "add_episode"),
        ("update", learner, learn),
    ]


@contextmanager
def time_parts(training: Training, device: torch.device) -> Iterator[PartTimes]:
    """Time the parts of the loop; the times grow while training runs."""
    times, timed = PartTimes(device), timed_methods(training)
    # An attribute of the object hides the method of its class until it is deleted.
    for part, owner, name in timed:
        setattr(owner, name, times.timed(part, getattr(owner, name)))
    try:
        yield times
    finally:
        for _, owner, name in timed:
            delattr(owner, name)
