"""td3 bench"""

import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from td3.errors import UserError
from td3.files import CURVES

if TYPE_CHECKING:
    from rich.table import Table

    from td3.bench.measure import Benchmark, Tick
    from td3.config import Config

COUNTS = (1, 2, 4, 8, 10, 16, 32)  # environments stepped together
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
    "frames_per_second_at_most": "frames per second, at most",
    "milliseconds_per_sample": "sampling alone",
    "sample_over_update": "sampling ÷ update",
    "ring_gigabytes": "the ring",
}
RESULTS = Path("benchmarks/results")


@dataclass(frozen=True)
class Arguments:
    """Measure speed: of the update alone, of training, beside other libraries, as work grows.

    update: steps 4 to 15 on a full replay ring, beside the bare matrix products of the same
    shapes. images: the same on a ring of images, beside sampling alone. throughput: act, simulate,
    store and update in a real environment, and where the time goes. environments: a step of 1 to
    32 environments in this process and in workers. peers: the same training with every other
    library that is installed (pip install 'td3[peers]'), in turn, one update per step. scaling:
    more agents, larger batches, wider layers, more environments. report: the stored results as
    pages, docs/performance.md, docs/results.md and what README.md shows of them. Medians over
    rounds, with quartiles. Besides, 'td3 bench paper' trains the tasks of the TD3 paper. Examples:

    td3 bench update --agents 10

    td3 bench images --recipe pixels

    td3 bench throughput HalfCheetah-v5 --json

    td3 bench environments HalfCheetah-v5 --seconds 0.2

    td3 bench peers --threads 1 2 --seconds 5

    td3 bench scaling --axes agents batch --plot scaling.png
    """

    kind: tyro.conf.Positional[
        Literal["update", "images", "throughput", "environments", "peers", "scaling", "report"]
    ]
    """What to measure."""
    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = ""
    """Task; default: HalfCheetah-v5, or Pendulum-v1 without MuJoCo. The update needs none."""
    recipe: str = "paper"
    """Networks, batch and ring: paper, course, quick, pixels, or a TOML file."""
    agents: int = 1
    """Agents (seeds) trained side by side."""
    threads: tuple[int, ...] = (1,)
    """CPU threads for the arithmetic; several counts for peers only."""
    execution: Literal["auto", "eager"] = "auto"
    """How updates are executed: auto, as training does, or eager, PyTorch as written."""
    precision: Literal["tf32", "float32", "bf16"] = "tf32"
    """How a GPU multiplies matrices."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""
    state_dim: int = 17
    """Numbers in a state, for update; HalfCheetah: 17."""
    action_dim: int = 6
    """Numbers in an action, for update; HalfCheetah: 6."""
    workers: int = 0
    """Worker processes, for environments; 0: as many as there are free cores."""
    rounds: int = 5
    """Measurements of each thing; their median is reported."""
    seconds: float = 1.0
    """Length of each measurement."""
    axes: tuple[Literal["agents", "batch", "width", "environments"], ...] = (
        "agents",
        "batch",
        "width",
        "environments",
    )
    """What grows, for scaling."""
    coarse: bool = False
    """Only every second size, for scaling: on a GPU each is compiled first."""
    plot: Path | None = None
    """Draw the figure of scaling to this file, as PNG and as SVG."""
    results: Path = RESULTS
    """Folder of stored results, for report. The pages go to docs/, those of another folder into
    it."""
    out: Path | None = None
    """Write the JSON to this file too; for report: the page."""
    json: bool = False
    """Print JSON: every figure of every round, settings, machine, versions, commit."""


def run(arguments: Arguments) -> int:
    """Measure, and say what came out."""
    if arguments.kind in ("update", "images") and arguments.environment:
        raise UserError(
            f"The update is measured without an environment: leave {arguments.environment!r} out, "
            f"or use 'td3 bench throughput {arguments.environment}'."
        )
    for path in (arguments.out, arguments.plot):
        if path and not path.parent.is_dir():
            raise UserError(f"There is no folder {path.parent} to write to.")
    if len(arguments.threads) != 1 and arguments.kind != "peers":
        raise UserError(f"{arguments.kind} is measured at one thread count at a time.")
    if not arguments.axes:
        raise UserError("Name at least one of the axes: agents, batch, width, environments.")
    if arguments.plot and arguments.kind != "scaling":
        raise UserError("--plot draws the figure of 'td3 bench scaling' only.")
    if arguments.kind == "report":
        return report(arguments)
    from rich.console import Console
    from rich.progress import Progress

    # Drawn between rounds only: a thread that redraws would disturb what is measured.
    with Progress(
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
        disable=not sys.stderr.isatty(),
    ) as progress:
        task = progress.add_task(f"measuring {arguments.kind}", total=ticks(arguments))

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
            print(f"Wrote {arguments.out}")
    if arguments.plot:
        from td3.bench.scaling_plot import plot_scaling

        try:
            written = plot_scaling([benchmark.as_dict()], arguments.plot.with_suffix(""))
        except OSError as error:
            raise UserError(f"Cannot write {arguments.plot}: {error.strerror}.") from error
        print("\n".join(f"Wrote {path}" for path in written), file=sys.stderr)
    return 0


def report(arguments: Arguments) -> int:
    """Write the pages of the stored results; those of this project into its docs, others beside."""
    from td3.bench.performance import write_page
    from td3.bench.results import write_results

    results = arguments.results
    measured, trained = any(results.glob("*.json")), any(results.glob("paper/*/config.toml"))
    if not (measured or trained):
        if any(results.glob(f"*/{CURVES}")):
            raise UserError(
                f"{results} holds the tasks themselves; they are to be in a folder called paper, "
                "and --results is to name the one above it."
            )
        raise UserError(
            f"{results} holds neither *.json nor paper/; 'td3 bench update --out {results}/"
            f"update.json' and its like, or 'td3 bench paper --results {results}/paper', make them."
        )
    references = results.parent / "reference"
    references = references if references.is_dir() else RESULTS.parent / "reference"
    if not references.is_dir():
        raise UserError(
            f"There is no {references}, which holds what others published; run this in a checkout."
        )
    own = results.resolve() == RESULTS.resolve()
    page = arguments.out or (Path("docs") if own else results) / "performance.md"
    front = Path("README.md") if own and not arguments.out else None
    written = write_page(results, references, page) if measured else []
    if trained:
        written += write_results(results, references, page.with_name("results.md"), front)
    for path in written:
        print(f"Wrote {path}")
    return 0


def ticks(arguments: Arguments) -> int:
    """How often a measurement says that it has come further."""
    if arguments.kind == "scaling":
        from td3.bench.scaling import count_points

        return count_points(arguments.axes, arguments.coarse)
    if arguments.kind == "peers":
        from td3.bench.peers import ENTRIES

        return len(ENTRIES) * len(arguments.threads) + arguments.rounds
    return arguments.rounds * (len(COUNTS) if arguments.kind == "environments" else 1)


def measure(arguments: Arguments, tick: "Tick") -> "Benchmark":
    from td3.bench import measure

    rounds = measure.Rounds(arguments.rounds, arguments.seconds)
    config = resolve(arguments)
    if arguments.kind == "images":
        from td3.bench.images import bench_images

        return bench_images(config, arguments.action_dim, rounds, tick)
    if arguments.kind == "update":
        return measure.bench_update(config, arguments.state_dim, arguments.action_dim, rounds, tick)
    env_id = arguments.environment or measure.default_environment()
    environment = dataclasses.replace(config.environment, id=env_id, workers=arguments.workers)
    config = dataclasses.replace(config, environment=environment)
    if arguments.kind == "environments":
        from td3.bench.environments import bench_environments

        return bench_environments(config, rounds, tick, COUNTS)
    if arguments.kind == "peers":
        from td3.bench.peers.contest import bench_peers

        return bench_peers(config, arguments.threads, rounds, tick)
    if arguments.kind == "scaling":
        from td3.bench.scaling import bench_scaling

        return bench_scaling(config, arguments.axes, rounds, tick, coarse=arguments.coarse)
    return measure.bench_throughput(config, rounds, tick)


def resolve(arguments: Arguments) -> "Config":
    """The recipe with what the flags change."""
    from td3.config import load_recipe

    if arguments.agents < 1:
        raise UserError(f"agents must be 1 or more, not {arguments.agents}.")
    if min(arguments.threads, default=0) < 1:
        raise UserError("threads must be 1 or more.")
    return dataclasses.replace(
        load_recipe(arguments.recipe),
        seeds=arguments.agents,
        threads=arguments.threads[0],
        execution=arguments.execution,
        precision=arguments.precision,
        device=arguments.device,
    )


def show(benchmark: "Benchmark") -> None:
    """The figures as a table, with what they hold for."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    settings, noted = benchmark.settings, benchmark.circumstances
    console.print(f"[bold]{benchmark.name}[/bold]: {subject(settings)}")
    if "recipe" in settings:
        hidden = "-".join(map(str, settings["hidden_sizes"]))
        console.print(
            f"recipe {settings['recipe']} ({hidden}, batch {settings['batch_size']}), "
            f"{count(settings['agents'], 'agent')}, {count(settings['state_dim'], 'observation')}, "
            f"{count(settings['action_dim'], 'action')}"
        )
    for shown in tables(benchmark):
        console.print(shown)
    machine, load = noted["machine"], noted["load_average"][0]
    device = settings.get("device", "cpu")
    place = machine["gpu"] if device.startswith("cuda") else machine["processor"]
    console.print(
        f"[dim]{device}: {place}, {threads_of(settings)} on "
        f"{count(int(machine['cores']), 'core')}; torch {noted['versions']['torch']}, "
        f"{version(noted['commit'])}[/dim]"
    )
    if load > 0.5:
        console.print(
            f"[yellow]![/yellow] load {load:.1f} before the start: other work may disturb this"
        )


def subject(settings: dict[str, Any]) -> str:
    if "workers" in settings:
        return f"one step of so many {settings['environment']}"
    if "update" in settings:
        return f"{settings['environment']}, updates per {settings['update']}"
    if "image" in settings:
        return "sampling and updates on made-up images"
    if "megaflop_per_update" in settings:
        return f"{settings['megaflop_per_update']:.0f} MFLOP of matrix products each"
    return f"one size at a time; environments of {settings['environment']}"


def threads_of(settings: dict[str, Any]) -> str:
    threads = settings.get("threads", 1)
    if isinstance(threads, list) and len(threads) > 1:
        return f"{' and '.join(map(str, threads))} threads"
    return count(threads[0] if isinstance(threads, list) else threads, "thread")


def tables(benchmark: "Benchmark") -> "list[Table | str]":
    from td3.bench.peers.contest import Contest
    from td3.bench.scaling import Scaling
    from td3.cli import bench_tables

    if isinstance(benchmark, Contest):
        return bench_tables.contest(benchmark)
    if isinstance(benchmark, Scaling):
        return [bench_tables.axis(name, points) for name, points in benchmark.axes.items()]
    return [table(benchmark)]


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
        if name.startswith("agent_") and benchmark.settings.get("agents") == 1:
            continue
        lower, median, upper = figure.quartiles
        unit = "" if figure.unit == "1/s" else f" {figure.unit}"
        result.add_row(
            label(name, benchmark.settings),
            f"[bold]{number(median)}[/bold]{unit}",
            f"{number(lower)} – {number(upper)}",
        )
    return result


def label(name: str, settings: dict[str, Any]) -> str:
    if name in LABELS:
        return LABELS[name]
    kind, _, environments = name.rpartition("_")
    if kind == "own_over_workers":
        return "  … in this process ÷ in workers"
    if kind == "own":
        return f"{environments} in this process"
    return f"{environments} in {count(settings['workers'][environments], 'worker')}"


def number(value: float) -> str:
    """Three or four digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def count(amount: int, what: str) -> str:
    return f"{amount} {what}{'s' if amount != 1 else ''}"
