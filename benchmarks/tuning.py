"""Trials per hour of td3 tune and of RL Zoo on Pendulum: python -m benchmarks.tuning --zoo PYTHON

`--zoo`: a Python with rl_zoo3 (`pip install rl_zoo3` in an environment of its own). Both search the
same ranges with the same budget: steps, evaluations, networks, batch, one seed, no pruning. RL Zoo
gets two processes that share a study, td3 one process with 16 rows. Times include the start.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from td3.bench.measure import describe_circumstances

SCRIPT = Path(__file__).parent / "td3_bench" / "zoo_search.py"
RANDOM, EVALUATIONS, EPISODES = 1000, 5, 5


def measure(commands: list[list[str]], folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds until all commands end."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    before, start = children_seconds(), time.perf_counter()
    running = [
        subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        for words in commands
    ]
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit(f"A search failed with {codes}: {commands[0]}")
    return time.perf_counter() - start, children_seconds() - before


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def zoo_command(python: str, trials: int, steps: int) -> list[str]:
    words = f"--algo td3 --env Pendulum-v1 -n {steps} --optimize --max-total-trials {trials}"
    words += f" --n-evaluations {EVALUATIONS} --eval-episodes {EPISODES} --sampler tpe"
    words += " --pruner none --storage study.log --study-name s --num-threads 1 --device cpu"
    words += " --no-optim-plots --verbose 0"
    settings = [f"learning_starts:{RANDOM}", "train_freq:1", "gradient_steps:1"]
    return [python, str(SCRIPT), *words.split(), "--hyperparams", *settings]


def td3_command(trials: int, steps: int) -> list[str]:
    words = f"tune Pendulum-v1 --recipe quick --trials {trials} --steps {steps} --seeds 1 --rows 16"
    words += f" --evaluations {EVALUATIONS} --episodes {EPISODES} --pruner none --confirm 0"
    words += f" --loop.random-steps {RANDOM} --device cpu --quiet --run search"
    return [sys.executable, "-m", "td3", *words.split()]


def compare(python: str, trials: int, steps: int, rounds: int) -> dict[str, Any]:
    """Both programs in turn."""
    circumstances = describe_circumstances()
    searches = {
        "rl_zoo3": [zoo_command(python, trials, steps)] * 2,
        "td3": [td3_command(trials, steps)],
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in searches}
    for _ in range(rounds):
        for name, commands in searches.items():
            with tempfile.TemporaryDirectory() as folder:
                wall, cpu = measure(commands, Path(folder))
            own = {"wall_seconds": wall, "cpu_seconds": cpu}
            own |= {"trials_per_hour": 3600 * trials / wall}
            found[name].append(own | {"trials_per_cpu_hour": 3600 * trials / cpu})
            print(name, {key: round(value, 1) for key, value in own.items()}, flush=True)
    return {
        "trials": trials,
        "steps": steps,
        "evaluations": EVALUATIONS,
        "episodes": EPISODES,
        "results": found,
        **circumstances,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zoo", required=True)
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = json.dumps(compare(given.zoo, given.trials, given.steps, given.rounds), indent=1)
    if given.out:
        given.out.write_text(result + "\n", encoding="utf-8")
