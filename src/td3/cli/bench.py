"""td3 bench"""

import dataclasses
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from td3.errors import UserError
from td3.text import number

if TYPE_CHECKING:
    from td3.bench.measure import Benchmark, Rounds
    from td3.config import Config

MOVED = ("images", "environments", "peers", "scaling", "paper", "report")


@dataclass(frozen=True)
class Measurement:
    """Options of every measurement."""

    recipe: str = "paper"
    """Sizes of networks, batch and replay buffer: a recipe or a TOML file."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda if there is a GPU."""
    rounds: int = 5
    """Number of measurements; the median is reported."""
    seconds: float = 1.0
    """Length of each measurement."""
    out: Path | None = None
    """Write the JSON to this file too."""
    json: bool = False
    """Print JSON: every figure of every round, settings, machine, versions, commit."""


@dataclass(frozen=True)
class Learning(Measurement):
    """Options of measurements that learn."""

    agents: int = 1
    """Agents (seeds) trained side by side."""
    threads: int = 1
    """CPU threads."""
    variant: str = ""
    """Variant of TD3: a built-in name, or module:Class."""
    execution: Literal["auto", "eager"] = "auto"
    """auto: as fast as training; eager: plain PyTorch."""
    precision: Literal["tf32", "float32", "bf16"] = "tf32"
    """Arithmetic of matrix products on a GPU."""


@dataclass(frozen=True)
class Update(Learning):
    """Measure updates alone: steps 4 to 15 on a full replay buffer of random transitions.

    td3 bench update --agents 10
    """

    state_dim: int = 17
    """Numbers in a state; HalfCheetah has 17."""
    action_dim: int = 6
    """Numbers in an action; HalfCheetah has 6."""


@dataclass(frozen=True)
class Throughput(Learning):
    """Measure training, and the time of each part of a step.

    td3 bench throughput HalfCheetah-v5 --agents 64
    """

    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = ""
    """Task; default: HalfCheetah-v5, or Pendulum-v1 without MuJoCo."""
    workers: int = -1
    """Worker processes for the environments; 0: none; -1: as training would choose."""
    host_only: bool = False
    """Constant actions and no updates: measures what the host does around them, without a GPU."""


@dataclass(frozen=True)
class Arguments:
    """Measure the speed of td3 on this machine: medians over rounds, with quartiles."""

    measurement: Annotated[
        Annotated[Update, tyro.conf.subcommand("update")]
        | Annotated[Throughput, tyro.conf.subcommand("throughput")],
        tyro.conf.arg(name=""),
    ]


def default(words: list[str]) -> None:
    """Point to the new place of commands that moved."""
    if words and words[0] in MOVED:
        raise UserError(
            f"td3 bench {words[0]} moved: run `python -m benchmarks {words[0]} …` from a checkout "
            "of the repository."
        )


def run(arguments: Arguments) -> int:
    measurement = arguments.measurement

    def measure(config: "Config", rounds: "Rounds") -> "Benchmark":
        if isinstance(measurement, Update):
            from td3.bench.update import bench_update

            return bench_update(config, measurement.state_dim, measurement.action_dim, rounds)
        from td3.bench.throughput import bench_throughput

        config = in_environment(config, measurement.environment, measurement.workers)
        return bench_throughput(config, rounds, measurement.host_only)

    show = print_breakdown if isinstance(measurement, Throughput) else None
    return run_measurement(measurement, measure, show)


def in_environment(config: "Config", task: str, workers: int = -1) -> "Config":
    """Return the configuration with this task, or with the default one, and these workers."""
    from td3.bench.throughput import default_environment

    environment = dataclasses.replace(config.environment, id=task or default_environment())
    if workers < -1:
        raise UserError(f"workers must be -1 or more, got {workers}.")
    if workers >= 0:
        kind: Literal["own", "workers"] = "workers" if workers else "own"
        environment = dataclasses.replace(environment, vectorization=kind, workers=workers)
    return dataclasses.replace(config, environment=environment)


def run_measurement(
    arguments: Measurement,
    measure: "Callable[[Config, Rounds], Benchmark]",
    show: "Callable[[Any], None] | None" = None,
) -> int:
    """Measure, write the JSON, and print the figures or the JSON."""
    if arguments.out and not arguments.out.parent.is_dir():
        raise UserError(f"The folder {arguments.out.parent} does not exist.")
    from td3.bench.measure import Rounds
    from td3.environments.output import output_to_stderr
    from td3.environments.watch import watch_command

    with output_to_stderr(), watch_command():
        benchmark = measure(resolve_config(arguments), Rounds(arguments.rounds, arguments.seconds))
    text = json.dumps(benchmark.as_dict(), indent=2)
    if arguments.out:
        try:
            arguments.out.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"Cannot write {arguments.out}: {error.strerror}.") from error
    if arguments.json:
        print(text)
    else:
        (show or print_benchmark)(benchmark)
        if arguments.out:
            print(f"Wrote {arguments.out}")
    return 0


def resolve_config(arguments: Measurement) -> "Config":
    """Return the recipe with the changes of the flags."""
    from td3.config import from_dict, load_recipe

    config = dataclasses.replace(load_recipe(arguments.recipe), device=arguments.device)
    if not isinstance(arguments, Learning):
        return config
    for name in ("agents", "threads"):
        if (value := getattr(arguments, name)) < 1:
            raise UserError(f"{name} must be 1 or more, got {value}.")
    if arguments.variant:
        config = from_dict({"variant": arguments.variant}, config)
    return dataclasses.replace(
        config,
        seeds=arguments.agents,
        threads=arguments.threads,
        execution=arguments.execution,
        precision=arguments.precision,
    )


def print_breakdown(benchmark: "Benchmark") -> None:
    """Print the figures, and one line for each part of a step."""
    shares = [name for name in benchmark.figures if name.endswith("_share")]
    parts = [name.removesuffix("_share") for name in shares]
    hidden = {f"{part}_{unit}" for part in parts for unit in ("share", "microseconds")}
    print_benchmark(benchmark, hidden)
    clock = "Processor time" if benchmark.name == "host" else "Time"
    print(f"{clock} of one step of all environments, with timers:")
    for part in parts:
        share = benchmark.figures[f"{part}_share"]
        microseconds = benchmark.figures[f"{part}_microseconds"].quartiles[1]
        label = part.replace("_", " ")
        print(f"  {label:<36}{number(microseconds):>9} µs {number(share.quartiles[1]):>9} %")


def print_benchmark(benchmark: "Benchmark", hidden: Collection[str] = ()) -> None:
    """Print the settings, the figures and the machine."""
    print(", ".join(f"{name} {value}" for name, value in benchmark.settings.items()))
    for name, figure in benchmark.figures.items():
        if name in hidden:
            continue
        if not (name.startswith("agent_") and benchmark.settings.get("agents") == 1):
            lower, median, upper = map(number, figure.quartiles)
            label = name.replace("_", " ")
            print(f"  {label:<36}{median:>9} {figure.unit:<8} ({lower} – {upper})")
    where = benchmark.circumstances
    machine, load = ", ".join(map(str, where["machine"].values())), where["load_average"][0]
    print(f"{machine}; torch {where['versions']['torch']}, commit {where['commit']}, load {load}")
