"""python -m benchmarks claims"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Arguments:
    """Find out whether low returns of Walker2d and Hopper come from the settings or from the code.

    Parts: the paper's own settings (Walker2d-v5, Hopper-v5, ten seeds each), the authors' current
    code (Walker2d-v5, three seeds), and the recipe 'paper' in float32 (Walker2d-v5, ten seeds).
    The trainings continue after 'start' has returned.

    python -m benchmarks claims start

    python -m benchmarks claims collect --seconds 500 --out results
    """

    action: Annotated[
        tyro.conf.Positional[Literal["start", "collect", "stop"]], tyro.conf.arg(metavar="ACTION")
    ]
    """start: start or continue; collect: wait, then store the results; stop: save and stop."""
    parts: tuple[str, ...] = ()
    """Only parts whose names start so, e.g. original/Hopper float32; default: all."""
    processes: int = 0
    """Processes per part; 0: five, five, three and three."""
    seconds: float = 500.0
    """How long 'collect' waits."""
    steps: int = 1_000_000
    """Steps per seed."""
    evaluation_every: Annotated[int, tyro.conf.arg(name="evaluation.every")] = 20_000
    """Steps between evaluations."""
    more: str = "--environment.vectorization own"
    """More flags for 'td3 train'."""
    source: Path = Path("carry/authors")
    """Folder with TD3.py and utils.py of github.com/sfujim/TD3."""
    runs: Path = Path("runs/claims")
    """Run folders, logs and process ids."""
    out: Path = Path("runs/claims-results")
    """Folder for the joined results."""


def run(arguments: Arguments) -> int:
    from benchmarks.td3_bench import claims

    parts = claims.choose_parts(arguments.parts, arguments.processes)
    todo = list(claims.jobs(parts, arguments.runs))
    if arguments.action == "start":
        more = arguments.more.split()
        every = arguments.evaluation_every
        claims.start(todo, arguments.source, arguments.steps, every, more)
        return 0
    if arguments.action == "stop":
        claims.stop(todo)
        return 0
    return 0 if claims.collect(todo, arguments.seconds, arguments.out) else 1
