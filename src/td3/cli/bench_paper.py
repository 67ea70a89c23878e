"""td3 bench paper"""

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
    from td3.bench.paper import Plan, Progress

SECONDS_BETWEEN_LINES = 60


@dataclass(frozen=True)
class Arguments:
    """Train the tasks of the TD3 paper, ten seeds of each at once, and keep what came out.

    The seven tasks of its Table 1 in their newest version, and Humanoid and Swimmer. Stopped or
    killed, the same command goes on; what is finished is not trained again. Kept are, for each
    task, the settings and the curves of all seeds (CSV), and the best policy with what it earns
    over 100 other episodes. In a checkout, 'td3 bench report' makes docs/results.md of them.
    Examples:

    td3 bench paper

    td3 bench paper HalfCheetah-v5 Hopper-v5 --at-once 2

    td3 bench paper Reacher-v5 --seeds 3 --steps 100000 --runs runs/try --results runs/try-results
    """

    tasks: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="TASK")] = ()
    """Tasks; default: all nine."""
    recipe: str = "paper"
    """Recipe, or a TOML file."""
    seeds: int = 10
    """Seeds of each task."""
    steps: int = 1_000_000
    """Steps of each seed; the paper's: 1,000,000."""
    evaluation_every: Annotated[int | None, tyro.conf.arg(name="evaluation.every")] = None
    """Steps between evaluations, otherwise 20,000, or a tenth of all where that is less; the
    paper's: 5,000, for which few machines have cores enough. Where an evaluation takes longer than
    the training up to the next one, training waits for it."""
    checkpoint_every: Annotated[int, tyro.conf.arg(name="checkpoint.every")] = 100_000
    """Steps between checkpoints."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""
    at_once: int = 1
    """Tasks that are trained at the same time, each on its share of the cores."""
    runs: Path = Path("runs/paper")
    """Run folders, with checkpoints and replay, and what each task said, in TASK.log."""
    results: Path = Path("benchmarks/results/paper")
    """What is kept of them."""
    json: bool = False
    """Print the outcome as JSON."""


def run(arguments: Arguments) -> int:
    """Train what is missing, test what came out, say how it went."""
    from td3.bench.paper import planned, train_tasks

    plan = planned(**{key: value for key, value in vars(arguments).items() if key != "json"})
    with shown(plan) as tell:
        progress = train_tasks(plan, tell)
    rows = {task: row(plan, task, progress) for task in plan.tasks if task in progress.earned}
    if arguments.json:
        print(json.dumps({"tasks": rows, "failed": progress.failed}))
    else:
        show(rows)
    for task, said in progress.failed.items():
        print(f"td3: {task} failed: {said}", file=sys.stderr)
    if progress.stopped:
        print("Stopped; the same command goes on.", file=sys.stderr)
    return progress.stopped or int(bool(progress.failed))


@contextmanager
def shown(plan: "Plan") -> Iterator[Callable[["Progress"], None]]:
    """A bar for each task; where there is no terminal, now and then a line."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    console, steps = Console(stderr=True, highlight=False), plan.config.loop.steps
    columns = (
        TextColumn("{task.description:<40}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    said = time.monotonic()
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        known = {task: bars.add_task(task, total=steps, start=False) for task in plan.tasks}

        def tell(progress: "Progress") -> None:
            nonlocal said
            reached = progress.steps | dict.fromkeys(progress.finished, steps)
            for task, step in reached.items():
                testing = task in progress.finished and task not in progress.earned
                bars.start_task(known[task])
                bars.update(
                    known[task], completed=step, description=f"{task}{', trying it out' * testing}"
                )
            if not console.is_terminal and time.monotonic() - said > SECONDS_BETWEEN_LINES:
                said = time.monotonic()
                console.print(", ".join(f"{task} {step:,}" for task, step in reached.items()))

        yield tell


def row(plan: "Plan", task: str, progress: "Progress") -> dict[str, Any]:
    """What came of a task: its group's line in a report, its time, its best policy."""
    from td3.report.page import table
    from td3.report.summary import read_run

    stored = read_run(plan.result_of(task))
    found = {key: value for key, value in table([stored])[0].items() if value is not None}
    return found | {"wall_seconds": stored.wall_seconds, "best_policy": progress.earned[task]}


def show(rows: dict[str, dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from td3.report.page import interval_text
    from td3.text import duration

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "last ten evaluations", "best mean", "best policy, 100 episodes", "took"):
        result.add_column(name, justify="right" if name else "left", no_wrap=not name)
    for task, found in rows.items():
        means = [interval_text(found, key) for key in ("last_ten", "best")]
        policy = interval_text(found["best_policy"], "mean_return")
        result.add_row(task, *means, policy, duration(found["wall_seconds"] or 0))
    Console(highlight=False).print(result if rows else "Nothing is finished yet.")
