"""Measurements and trainings behind the published figures, and the pages that show them.

Each command is a module in `commands` with `Arguments` and `run`, as in `td3.cli`.
"""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from td3.cli import exit_code_of
from td3.errors import UserError, nearest

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "update": "the update, compared with its matrix products alone",
    "images": "the update on images, compared with sampling alone",
    "environments": "steps of 1 to 32 environments, in one process and in workers",
    "peers": "training, compared with other libraries",
    "scaling": "more agents, larger batches, wider layers, more environments",
    "paper": "train the tasks of the TD3 paper",
    "authors": "train with the code of the TD3 authors",
    "campaign": "train the parts of a plan in many processes: controls, experiments, ablations",
    "scores": "returns of a campaign on the scale of published methods",
    "reference": "write the TD3 authors' learning curves, all seeds, to one file",
    "report": "write docs/performance.md, docs/results.md and the results in README.md",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print("usage: python -m benchmarks COMMAND [OPTIONS]\n")
        print("\n".join(f"  {name:<14}{text}" for name, text in COMMANDS.items()))
        print("\nSpeed without comparison: td3 bench update, td3 bench throughput")
        return 0
    return exit_code_of(lambda: run_command(words[0], words[1:]))


def run_command(command: str, words: list[str]) -> int:
    if command not in COMMANDS:
        raise UserError(f"No benchmark {command!r}.{nearest(command, COMMANDS)}")
    import tyro

    from td3.cli.values import registry

    module = importlib.import_module(f"benchmarks.td3_bench.commands.{command}")
    prog = f"python -m benchmarks {command}"
    return int(module.run(tyro.cli(module.Arguments, prog=prog, args=words, registry=registry())))
