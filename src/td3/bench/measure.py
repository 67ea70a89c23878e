"""How fast: updates by themselves, and training end to end.

Machines are noisy, so everything is measured in rounds, what is compared is measured one after
the other in the same round, and a figure is the median over the rounds with its quartiles.
"""

import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.config import Config, EnvironmentConfig
from td3.config.checks import check
from td3.errors import UserError
from td3.execution import compute_on, make_learner
from td3.execution.products import Multiplier, update_products
from td3.launch.assembly import assemble
from td3.launch.setup import choose_device, read_task
from td3.run import versions as software
from td3.run.memory import check_memory, example_task
from td3.training.loop import Training
from td3.training.metrics import Interval
from td3.training.population import Population

RANDOM_STEPS = 100  # enough for a first batch; more would only be waited for
WARM_UP_STEPS = 10_000
PARTS = ("acting", "simulator", "replay_add", "update")

Tick = Callable[[], None]


@dataclass(frozen=True)
class Rounds:
    """How long to measure."""

    count: int = 5
    seconds: float = 1.0
    """For each thing measured in a round."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"rounds must be 1 or more, not {self.count}.")
        if not 0 < self.seconds < float("inf"):
            raise UserError(f"seconds must be greater than 0, not {self.seconds}.")


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
    """What was measured, how, and where."""

    name: str
    settings: dict[str, Any]
    figures: dict[str, Figure]
    circumstances: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        figures = {name: figure.as_dict() for name, figure in self.figures.items()}
        named = {"benchmark": self.name, "settings": self.settings, "figures": figures}
        return named | self.circumstances


def bench_update(
    config: Config, state_dim: int, action_dim: int, rounds: Rounds, tick: Tick = lambda: None
) -> Benchmark:
    """Updates alone, on a full replay ring, beside the bare matrix products of the same shapes."""
    if min(state_dim, action_dim) < 1:
        raise UserError("state-dim and action-dim must be 1 or more.")
    config = check(dataclasses.replace(config, environment=EnvironmentConfig("random numbers")))
    circumstances = take_note()
    device = prepare(config)
    config = dataclasses.replace(config, device=str(device))
    place = check_memory(config, example_task(state_dim, action_dim))
    agent, ring = filled_agent(config, state_dim, action_dim, place)
    learner = make_learner(
        agent,
        ring,
        Interval(config.agents, device),
        Population(config, device),
        config.execution,
        config.precision,
    )
    settings = config.agent
    products = update_products(
        state_dim, action_dim, settings.hidden_sizes, settings.batch_size, config.agents
    )
    multiplier = Multiplier(products, device)
    policy_freq = settings.policy_freq

    def multiply(updates: int) -> None:
        multiplier.multiply(updates, policy_freq)

    works = (multiply, learner.learn)
    repeats = [repeats_for(work, policy_freq, rounds, device) for work in works]
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds.count):
        for work, updates, taken in zip(works, repeats, seconds, strict=True):
            taken.append(time_of(work, updates, device) / updates)
        tick()
    flop = products.flop_per_update(policy_freq)
    described = describe(config, device, rounds) | {
        "state_dim": state_dim,
        "action_dim": action_dim,
        "megaflop_per_update": flop / 1e6,
    }
    figures = update_figures(*seconds, flop=flop, agents=config.agents)
    return Benchmark("update", described, figures, circumstances)


def update_figures(
    products: list[float], updates: list[float], *, flop: float, agents: int
) -> dict[str, Figure]:
    """From the seconds per update, in each round."""
    ratio = [update / bare for update, bare in zip(updates, products, strict=True)]
    return {
        "updates_per_second": Figure("1/s", [1 / s for s in updates]),
        "agent_updates_per_second": Figure("1/s", [agents / s for s in updates]),
        "milliseconds_per_update": Figure("ms", [1e3 * s for s in updates]),
        "products_milliseconds_per_update": Figure("ms", [1e3 * s for s in products]),
        "update_over_products": Figure("", ratio),
        "update_gigaflop_per_second": Figure("GFLOP/s", [flop / s / 1e9 for s in updates]),
        "products_gigaflop_per_second": Figure("GFLOP/s", [flop / s / 1e9 for s in products]),
    }


def filled_agent(
    config: Config, state_dim: int, action_dim: int, place: str
) -> tuple[TD3, ReplayBuffer]:
    """An agent, and a ring full of made-up transitions: 1 in 100 terminal, actions in range."""
    agent = TD3(
        state_dim,
        action_dim,
        hidden_sizes=config.agent.hidden_sizes,
        actor_learning_rate=config.agent.actor_learning_rate,
        critic_learning_rate=config.agent.critic_learning_rate,
        seed=config.agent_seeds,
        device=config.device,
    )
    ring = ReplayBuffer(config.loop.replay_size, seed=config.agent_seeds, device=place)
    ring.allocate(state_dim, action_dim)
    assert ring.rows is not None
    ring.rows.normal_()
    ring.rows[..., 2 * state_dim : 2 * state_dim + action_dim].clamp_(-1, 1)
    ring.rows[..., -1].bernoulli_(0.01)
    ring.added[:] = ring.capacity
    return agent, ring


def repeats_for(
    work: Callable[[int], None], policy_freq: int, rounds: Rounds, device: torch.device
) -> int:
    """How many updates fill a measurement; whole cycles of the delay. Warms up while it counts."""
    work(policy_freq)  # planned, compiled or captured only now, which may take longer than all else
    cycles = 1
    while True:
        taken = time_of(work, cycles * policy_freq, device)
        if taken > rounds.seconds / 4:
            return policy_freq * max(1, round(rounds.seconds * cycles / taken))
        cycles *= 2


def bench_throughput(config: Config, rounds: Rounds, tick: Tick = lambda: None) -> Benchmark:
    """Training end to end (act, simulate, store, update) without evaluation and logging.

    Each round has two parts: one undisturbed, for the speed, and one under stopwatches, for the
    shares. On a GPU a stopwatch has to wait for the device, which alone costs time.
    """
    loop = dataclasses.replace(config.loop, random_steps=min(RANDOM_STEPS, config.loop.steps - 1))
    config = check(dataclasses.replace(config, loop=loop))
    circumstances = take_note()
    device = prepare(config)
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
                with stopwatches(training, device) as parts:
                    _, seconds = train_for(training, rounds.seconds, device)
                parts["other"] = seconds - sum(parts.values())
                for part, taken in parts.items():
                    shares[part].append(100 * taken / seconds)
                tick()
        finally:
            training.close()
    described = describe(config, device, rounds) | {
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
    return Benchmark("throughput", described, figures, circumstances)


def warm_up(training: Training) -> None:
    """Past the random steps and the first updates, which are slower than all others."""
    while training.agent.updates.min() < 2 * training.config.agent.policy_freq:
        training.advance()
        if training.step > WARM_UP_STEPS:
            raise UserError(
                f"No episode of {training.config.environment.id} ended within {WARM_UP_STEPS:,} "
                f"steps, and recipe {training.config.recipe} updates only then; "
                "use --recipe paper."
            )


def train_for(training: Training, seconds: float, device: torch.device) -> tuple[int, float]:
    """Train for about so long; returns steps per agent and the time they took.

    Where updates wait for an episode's end, so does the end of the measurement.
    """
    wait = training.config.loop.update == "episode"
    first = training.step
    synchronize(device)
    start = time.perf_counter()
    while True:
        ended = training.advance()
        taken = time.perf_counter() - start
        if taken > seconds and (ended or not wait):
            break
    synchronize(device)
    return training.step - first, time.perf_counter() - start


@contextmanager
def stopwatches(training: Training, device: torch.device) -> Iterator[dict[str, float]]:
    """Measure the parts of the loop while it runs; gives the seconds that each has taken."""
    seconds = dict.fromkeys(PARTS, 0.0)
    learn = "learn" if training.config.loop.update == "step" else "learn_member"
    watched = [
        ("acting", training.learner, "prefetch_actions"),
        ("acting", training.learner, "act"),
        ("simulator", training.environments, "receive"),
        ("replay_add", training.learner, "store"),
        ("update", training.learner, learn),
    ]

    def watch(part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            synchronize(device)
            start = time.perf_counter()
            result = method(*arguments)
            synchronize(device)
            seconds[part] += time.perf_counter() - start
            return result

        return timed

    # An attribute of the object hides the method of its class; taking it away brings that back.
    for part, owner, name in watched:
        setattr(owner, name, watch(part, getattr(owner, name)))
    try:
        yield seconds
    finally:
        for _, owner, name in watched:
            delattr(owner, name)


def time_of(work: Callable[[int], None], updates: int, device: torch.device) -> float:
    """Seconds until the work is really done."""
    synchronize(device)
    start = time.perf_counter()
    work(updates)
    synchronize(device)
    return time.perf_counter() - start


def synchronize(device: torch.device) -> None:
    """Wait for the GPU, which works on after it has been told what to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def prepare(config: Config) -> torch.device:
    return compute_on(str(choose_device(config.device)), config.threads)


def default_environment() -> str:
    """The task of the published figures where its simulator is installed."""
    return "HalfCheetah-v5" if find_spec("mujoco") else "Pendulum-v1"


def describe(config: Config, device: torch.device, rounds: Rounds) -> dict[str, Any]:
    """What was asked for."""
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


def take_note() -> dict[str, Any]:
    """Where and when; taken before the measurement adds its own load."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "machine": software.describe_machine() | {"gpu": gpu},
        "versions": software.versions(),
        "commit": software.commit(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
