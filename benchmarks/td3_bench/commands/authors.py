"""python -m benchmarks authors"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Arguments:
    """Train one seed with the code of the TD3 authors, on a current version of a task.

    On a GPU, their update and their actor are captured in CUDA graphs. '--check' compares these
    with the plain code. The folder can be read by 'td3 plot' and 'td3 report'.

    python -m benchmarks authors Walker2d-v5 --source ~/TD3 --run runs/authors-0
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")] = "Walker2d-v5"
    """Gymnasium id."""
    source: Path = Path("carry/authors")
    """Folder with TD3.py and utils.py of github.com/sfujim/TD3."""
    run: Path = Path("runs/authors")
    """Folder for the records."""
    seed: int = 0
    """Seed of Python's, NumPy's and PyTorch's generators and of the task."""
    steps: int = 1_000_000
    """Environment steps."""
    evaluation_every: Annotated[int, tyro.conf.arg(name="evaluation.every")] = 20_000
    """Steps between evaluations; their script uses 5,000."""
    evaluation_episodes: Annotated[int, tyro.conf.arg(name="evaluation.episodes")] = 10
    """Episodes per evaluation."""
    plain: bool = False
    """Run their code as it is. This is always so without a GPU."""
    check: bool = False
    """Compare the captured update with the plain one, print the result, and train nothing."""


def run(arguments: Arguments) -> int:
    import torch

    from benchmarks.td3_bench.authors.check import check
    from benchmarks.td3_bench.authors.training import AuthorsRun, authors_config

    torch.set_num_threads(1)
    if arguments.check:
        found = check(arguments.source)
        print(json.dumps(found))
        return 0 if found["passed"] else 1
    config = authors_config(
        arguments.task,
        arguments.seed,
        arguments.steps,
        arguments.evaluation_every,
        arguments.evaluation_episodes,
    )
    plain = arguments.plain or not torch.cuda.is_available()
    AuthorsRun(arguments.source, config, arguments.run, plain).train()
    print(arguments.run)
    return 0
