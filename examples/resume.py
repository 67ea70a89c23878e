"""Stop a run half-way, resume it, and compare it with one that was never stopped.

python examples/resume.py                        # about half a minute
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import td3


def main(arguments: Sequence[str] | None = None) -> bool:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--folder", type=Path, default=Path("runs/resume-example"))
    given = parser.parse_args(arguments)
    half = given.steps // 2
    settings = {"recipe": "quick", "threads": 1, "evaluation": {"every": half}, "quiet": True}

    whole = td3.train("Pendulum-v1", run=given.folder / "whole", steps=given.steps, **settings)
    pieces = td3.train("Pendulum-v1", run=given.folder / "pieces", steps=half, **settings)
    pieces = td3.resume(pieces, steps=given.steps, quiet=True)

    one, other = ((run / "metrics.jsonl").read_bytes() for run in (whole, pieces))
    print("The same bytes." if one == other else "The runs differ.")
    return one == other


if __name__ == "__main__":
    main()
