"""td3 bench"""

import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from td3.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from td3.bench import Benchmark, Tick
    from td3.config import Config

LABELS = {
    "updates_per_second": "updates per second",
    "agent_updates_per_second": "… times agents",
    "milliseconds_per_update": "one update",
    "products_milliseconds_per_update": "its matrix products alone",
    "update_over_products": "update ÷ products",
    "update_gigaflop_per_second": "arithmetic, update",
    "products_gigaflop_per_second": "arithmetic, products alone",
    "steps_per_second": "steps per second",
    "agent_steps_per_second": "… times agents",
    "milliseconds_per_step": "one step",
    "acting_share": "  acting",
    "simulator_share": "  simulator",
    "replay_add_share": "  replay: add",
    "update_share": "  update",
    "other_share": "  the rest",
}


@dataclass(frozen=True)
class Arguments:
    """Measure speed: of the update alone, or of training end to end.

    update: steps 4 to 15 on a full replay ring, beside the bare matrix products of the same
    shapes. throughput: act, simulate, store and update in a real environment, and where the time
    goes. Medians over rounds, with quartiles. Examples:

    td3 bench update --agents 10

    td3 bench throughput HalfCheetah-v5 --json
    """

    kind: tyro.conf.Positional[Literal["update", "throughput"]]
    """What to measure."""
    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = ""
    """Task for throughput; default: HalfCheetah-v5, or Pendulum-v1 without MuJoCo."""
    recipe: str = "paper"
    """Networks, batch and ring: paper, course, quick, or a TOML file."""
    agents: int = 1
    """Agents (seeds) trained side by side."""
    threads: int = 1
    """CPU threads for the arithmetic."""
    execution: Literal["auto", "eager"] = "auto"
    """How updates are executed: auto, as training does, or eager, PyTorch as written."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""
    state_dim: int = 17
    """Numbers in a state, for update; HalfCheetah: 17."""
    action_dim: int = 6
    """Numbers in an action, for update; HalfCheetah: 6."""
    rounds: int = 5
    """Measurements of each thing; their median is reported."""
    seconds: float = 1.0
    """Length of each measurement."""
    out: Path | None = None
    """Write the JSON to this file too."""
    json: bool = False
    """Print JSON: every figure of every round, settings, machine, versions, commit."""


def run(arguments: Arguments) -> int:
    """Measure, and say what came out."""
    if arguments.kind == "update" and arguments.environment:
        raise UserError(
            f"The update is measured without an environment: leave {arguments.environment!r} out, "
            f"or use 'td3 bench throughput {arguments.environment}'."
        )
    if arguments.out and not arguments.out.parent.is_dir():
        raise UserError(f"There is no folder {arguments.out.parent} to write to.")
    from rich.console import Console
    from rich.progress import Progress

    # Drawn between rounds only: a thread that redraws would disturb what is measured.
    with Progress(
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
        disable=not sys.stderr.isatty(),
    ) as progress:
        task = progress.add_task(f"measuring {arguments.kind}", total=arguments.rounds)

        def tick() -> None:
            progress.advance(task)
            progress.refresh()

        progress.refresh()
        benchmark = measure(arguments, tick)
    text = json.dumps(benchmark.as_dict(), indent=2)
    if arguments.out:
        try:
            arguments.out.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"Cannot write {arguments.out}: {error.strerror}.") from error
    if arguments.json:
        print(text)
    else:
        show(benchmark)
        if arguments.out:
            print(f"wrote {arguments.out}")
    return 0


def measure(arguments: Arguments, tick: "Tick") -> "Benchmark":
    from td3 import bench

    rounds = bench.Rounds(arguments.rounds, arguments.seconds)
    config = resolve(arguments)
    if arguments.kind == "update":
        return bench.bench_update(config, arguments.state_dim, arguments.action_dim, rounds, tick)
    env_id = arguments.environment or bench.default_environment()
    environment = dataclasses.replace(config.environment, id=env_id)
    return bench.bench_throughput(
        dataclasses.replace(config, environment=environment), rounds, tick
    )


def resolve(arguments: Arguments) -> "Config":
    """The recipe with what the flags change."""
    from td3.config import load_recipe

    if arguments.agents < 1:
        raise UserError(f"agents must be 1 or more, not {arguments.agents}.")
    if arguments.threads < 1:
        raise UserError(f"threads must be 1 or more, not {arguments.threads}.")
    return dataclasses.replace(
        load_recipe(arguments.recipe),
        seeds=arguments.agents,
        threads=arguments.threads,
        execution=arguments.execution,
        device=arguments.device,
    )


def show(benchmark: "Benchmark") -> None:
    """The figures as a table, with what they hold for."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    settings, noted = benchmark.settings, benchmark.circumstances
    hidden = "-".join(map(str, settings["hidden_sizes"]))
    console.print(f"[bold]{benchmark.name}[/bold]: {subject(settings)}")
    console.print(
        f"recipe {settings['recipe']} ({hidden}, batch {settings['batch_size']}), "
        f"{count(settings['agents'], 'agent')}, {count(settings['state_dim'], 'observation')}, "
        f"{count(settings['action_dim'], 'action')}"
    )
    console.print(table(benchmark))
    machine, load = noted["machine"], noted["load_average"][0]
    place = machine["gpu"] if settings["device"].startswith("cuda") else machine["processor"]
    console.print(
        f"[dim]{settings['device']}: {place}, {count(settings['threads'], 'thread')} on "
        f"{count(int(machine['cores']), 'core')}; torch {noted['versions']['torch']}, "
        f"{version(noted['commit'])}[/dim]"
    )
    if load > 0.5:
        console.print(
            f"[yellow]![/yellow] load {load:.1f} before the start: other work may disturb this"
        )


def subject(settings: dict[str, Any]) -> str:
    if "environment" in settings:
        return f"{settings['environment']}, updates per {settings['update']}"
    return f"{settings['megaflop_per_update']:.0f} MFLOP of matrix products each"


def version(commit: str | None) -> str:
    if commit is None:
        return "installed, not a checkout"
    return f"commit {commit[:10]}{' with changes' if commit.endswith('+') else ''}"


def table(benchmark: "Benchmark") -> "Table":
    from rich import box
    from rich.table import Table

    rounds, seconds = benchmark.settings["rounds"], benchmark.settings["seconds"]
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    result.add_column(f"{count(rounds, 'round')} of {seconds:g} s")
    result.add_column("median", justify="right")
    result.add_column("quartiles", justify="right")
    for name, figure in benchmark.figures.items():
        if name.startswith("agent_") and benchmark.settings["agents"] == 1:
            continue
        lower, median, upper = figure.quartiles
        unit = "" if figure.unit == "1/s" else f" {figure.unit}"
        result.add_row(
            LABELS[name],
            f"[bold]{number(median)}[/bold]{unit}",
            f"{number(lower)} – {number(upper)}",
        )
    return result


def number(value: float) -> str:
    """Three or four digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def count(amount: int, what: str) -> str:
    return f"{amount} {what}{'s' if amount != 1 else ''}"
