"""td3 bench paper"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from td3.paper import Plan, Progress


@dataclass(frozen=True)
class Arguments:
    """Train the tasks of the TD3 paper, ten seeds of each at once, and keep what came out.

    The seven tasks of its Table 1 in their newest version, and Humanoid and Swimmer. Stopped or
    killed, the same command goes on; what is finished is not trained again. Kept are, for each
    task, the settings and the curves of all seeds (CSV), and the best policy with what it earns
    over 100 other episodes. 'td3 bench report' makes docs/results.md of them. Examples:

    td3 bench paper

    td3 bench paper HalfCheetah-v5 Hopper-v5 --at-once 2

    td3 bench paper Reacher-v5 --seeds 3 --steps 100000 --runs runs/try --results try --policies try
    """

    tasks: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="TASK")] = ()
    """Tasks; default: all nine."""
    recipe: str = "paper"
    """Recipe, or a TOML file."""
    seeds: int = 10
    """Seeds of each task."""
    steps: int = 1_000_000
    """Steps of each seed; the paper's: 1,000,000."""
    evaluation_every: Annotated[int, tyro.conf.arg(name="evaluation.every")] = 5_000
    """Steps between evaluations of ten episodes; the paper's: 5,000. Where these take longer than
    the training between them, it waits for them."""
    checkpoint_every: Annotated[int, tyro.conf.arg(name="checkpoint.every")] = 100_000
    """Steps between checkpoints."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""
    at_once: int = 1
    """Tasks that are trained at the same time, each on its share of the cores."""
    runs: Path = Path("runs/paper")
    """Run folders, with checkpoints and replay."""
    results: Path = Path("benchmarks/results/paper")
    """What is kept of them."""
    policies: Path | None = None
    """Where the best policies go; default: those that come with td3."""
    json: bool = False
    """Print the outcome as JSON."""


def run(arguments: Arguments) -> int:
    """Train what is missing, test what came out, say how it went."""
    from td3.paper import Plan, keep_policy, train_tasks

    chosen: dict[str, Any] = {key: value for key, value in vars(arguments).items() if value}
    chosen.pop("json", None)
    plan = Plan(**chosen)
    with bars(plan) as tell:
        progress = train_tasks(plan, tell)
    tests = {}
    if not progress.stopped:
        for task in (task for task in plan.tasks if task in progress.finished):
            print(f"testing the best policy of {task}", file=sys.stderr)
            tests[task] = keep_policy(plan, task)
    outcome = summary(plan, tests)
    if arguments.json:
        print(json.dumps(outcome | {"failed": progress.failed}))
    else:
        show(outcome)
    for task, said in progress.failed.items():
        print(f"td3: {task} failed: {said.removeprefix('td3: ')}", file=sys.stderr)
    if progress.stopped:
        print("Stopped; the same command goes on.", file=sys.stderr)
    return progress.stopped or int(bool(progress.failed))


@contextmanager
def bars(plan: "Plan") -> Iterator[Callable[["Progress"], None]]:
    """A bar for each task; where there is no terminal, a line for each that is finished."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn())
    said: set[str] = set()
    with Bars(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as shown:
        known = {task: shown.add_task(task, total=plan.steps, start=False) for task in plan.tasks}

        def tell(progress: "Progress") -> None:
            for task, step in progress.steps.items():
                shown.start_task(known[task])
                shown.update(known[task], completed=step)
            for task in progress.finished:
                shown.update(known[task], completed=plan.steps)
                if task not in said and not console.is_terminal:
                    console.print(f"{task} is trained", highlight=False)
                said.add(task)

        yield tell


def summary(plan: "Plan", tests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    from td3.report import read_run
    from td3.report import table as rows_of

    tasks = {}
    for task, test in tests.items():
        stored = read_run(plan.results / task)
        group = rows_of([stored])[0]
        facts = {key: value for key, value in group.items() if value is not None}
        tasks[task] = facts | {"wall_seconds": stored.wall_seconds, "best_policy": test}
    return {"tasks": tasks}


def show(outcome: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from td3.report import duration, interval_text

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "last ten evaluations", "best mean", "best policy, 100 episodes", "took"):
        result.add_column(name, justify="right" if name else "left", no_wrap=not name)
    for task, row in outcome["tasks"].items():
        ends = [interval_text(row, key) for key in ("last_ten", "best")]
        policy = interval_text(row["best_policy"], "mean_return")
        result.add_row(task, *ends, policy, duration(row["wall_seconds"] or 0))
    console = Console(highlight=False)
    console.print(result if outcome["tasks"] else "Nothing is finished yet.")
