"""python -m benchmarks paper"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from benchmarks.td3_bench.paper import Progress
    from benchmarks.td3_bench.plan import Plan

SECONDS_BETWEEN_LINES = 60


@dataclass(frozen=True)
class Arguments:
    """Train the tasks of the TD3 paper with ten seeds each, and keep the results.

    The tasks are the seven of Table 1 in their newest version, and Humanoid and Swimmer. Stopped or
    killed, the same command continues. Kept are the settings, the curves of all seeds, and the best
    policy of each task with its return over 100 test episodes. 'python -m benchmarks report' makes
    docs/results.md from them.

    python -m benchmarks paper

    python -m benchmarks paper HalfCheetah-v5 Hopper-v5 --at-once 2

    python -m benchmarks paper --cluster auto

    python -m benchmarks paper Reacher-v5 --steps 1e5 --runs runs/try --results runs/try-results
    """

    tasks: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="TASK")] = ()
    """Tasks; default: all nine."""
    recipe: str = "paper"
    """Recipe, or a TOML file."""
    seeds: int = 10
    """Seeds per task."""
    steps: int = 1_000_000
    """Steps per seed."""
    evaluation_every: Annotated[int | None, tyro.conf.arg(name="evaluation.every")] = None
    """Steps between evaluations; default: 20,000, or a tenth of all steps if that is less. The
    paper uses 5,000. Training waits if an evaluation takes longer than the steps in between."""
    checkpoint_every: Annotated[int, tyro.conf.arg(name="checkpoint.every")] = 100_000
    """Steps between checkpoints."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda if there is a GPU."""
    at_once: int = 1
    """Tasks trained at the same time, each on its share of the cores."""
    cluster: str = ""
    """Train on a Ray cluster: auto, local, or its address. Each task gets a GPU, or a core."""
    runs: Path = Path("runs/paper")
    """Run folders, with checkpoints and replay buffers, and a log TASK.log per task."""
    results: Path = Path("benchmarks/results/paper")
    """Folder for the results."""
    json: bool = False
    """Print the results as JSON."""


def run(arguments: Arguments) -> int:
    from benchmarks.td3_bench.plan import make_plan

    own = {key: value for key, value in vars(arguments).items() if key not in ("json", "cluster")}
    plan = make_plan(**own)
    with progress_display(plan) as show:
        progress = train(plan, arguments.cluster, show)
    rows = {task: row(plan, task, progress) for task in plan.tasks if task in progress.returns}
    if arguments.json:
        print(json.dumps({"tasks": rows, "failed": progress.failed}))
    else:
        print_table(rows)
    for task, message in progress.failed.items():
        print(f"{task} failed: {message}", file=sys.stderr)
    if progress.exit_code:
        print("Stopped. The same command continues.", file=sys.stderr)
    return progress.exit_code or int(bool(progress.failed))


def train(plan: "Plan", cluster: str, show: Callable[["Progress"], None]) -> "Progress":
    """Train on this machine, or on a cluster."""
    if cluster:
        from benchmarks.td3_bench.paper_cluster import train_tasks_on

        return train_tasks_on(cluster, plan, show)
    from benchmarks.td3_bench.paper import train_tasks

    return train_tasks(plan, show)


@contextmanager
def progress_display(plan: "Plan") -> Iterator[Callable[["Progress"], None]]:
    """Show one bar per task, or one line a minute if stderr is not a terminal."""
    from rich import progress as bars
    from rich.console import Console

    console, steps = Console(stderr=True, highlight=False), plan.config.loop.steps
    columns = (
        bars.TextColumn("{task.description:<40}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
    )
    last_line = time.monotonic()
    with bars.Progress(*columns, console=console, disable=not console.is_terminal) as display:
        known = {task: display.add_task(task, total=steps, start=False) for task in plan.tasks}

        def show(progress: "Progress") -> None:
            nonlocal last_line
            reached = progress.steps | dict.fromkeys(progress.finished, steps)
            for task, step in reached.items():
                testing = task in progress.finished and task not in progress.returns
                label = f"{task}{', testing' * testing}"
                display.start_task(known[task])
                display.update(known[task], completed=step, description=label)
            if not console.is_terminal and time.monotonic() - last_line > SECONDS_BETWEEN_LINES:
                last_line = time.monotonic()
                console.print(", ".join(f"{task} {step:,}" for task, step in reached.items()))

        yield show


def row(plan: "Plan", task: str, progress: "Progress") -> dict[str, Any]:
    """Return the statistics of a task, its time, and the return of its best policy."""
    from td3.report.page import table
    from td3.report.summary import read_run

    stored = read_run(plan.result_folder(task))
    found = {key: value for key, value in table([stored])[0].items() if value is not None}
    return found | {"wall_seconds": stored.wall_seconds, "best_policy": progress.returns[task]}


def print_table(rows: dict[str, dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from td3.report.page import interval_text
    from td3.text import duration

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "last ten evaluations", "best mean", "best policy, test episodes", "time"):
        table.add_column(name, justify="right" if name else "left", no_wrap=not name)
    for task, found in rows.items():
        means = [interval_text(found, key) for key in ("last_ten", "best")]
        policy = interval_text(found["best_policy"], "mean_return")
        table.add_row(task, *means, policy, duration(found["wall_seconds"] or 0))
    Console(highlight=False).print(table if rows else "No task is finished yet.")
