"""python -m benchmarks campaign"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Arguments:
    """Train the parts of a plan in many processes, which continue after 'start' has returned.

    Plans are TOML files in benchmarks/plans.

    python -m benchmarks campaign claims start

    python -m benchmarks campaign claims collect --seconds 500 --out results
    """

    plan: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PLAN")]
    """Name of a plan, or the path of a TOML file."""
    action: Annotated[
        tyro.conf.Positional[Literal["start", "collect", "stop"]], tyro.conf.arg(metavar="ACTION")
    ]
    """start: start or continue; collect: wait, then store the results; stop: save and stop."""
    parts: tuple[str, ...] = ()
    """Only parts whose names start so, e.g. original/Hopper float32; default: all."""
    processes: int = 0
    """Processes per part; 0: those of the plan."""
    seconds: float = 500.0
    """How long 'collect' waits."""
    steps: int = 0
    """Steps per seed; 0: those of the plan."""
    more: str = ""
    """More flags for 'td3 train'."""
    source: Path = Path("carry/authors")
    """Folder with TD3.py and utils.py of github.com/sfujim/TD3."""
    runs: Path | None = None
    """Run folders, logs and process ids; default: runs/PLAN."""
    out: Path | None = None
    """Folder for the joined results; default: runs/PLAN-results."""


def run(arguments: Arguments) -> int:
    from benchmarks.td3_bench import campaign

    plan = campaign.read_plan(arguments.plan)
    name = Path(arguments.plan).stem
    parts = campaign.choose_parts(plan, arguments.parts, arguments.processes)
    todo = list(campaign.jobs(parts, arguments.runs or Path("runs") / name))
    if arguments.action == "start":
        steps = arguments.steps or plan.steps
        more = arguments.more.split()
        campaign.start(todo, arguments.source, steps, plan.evaluation_every, more)
        return 0
    if arguments.action == "stop":
        campaign.stop(todo)
        return 0
    out = arguments.out or Path("runs") / f"{name}-results"
    return 0 if campaign.collect(todo, arguments.seconds, out) else 1
