"""`python -m benchmarks.fidelity`: is the page's physics that of `td3 evaluate`?

For each task that the playground simulates:

- the number of steps that equal `td3 evaluate` to 1e-6, with the same seed and the same actions;
- the same, if both have the same sine and cosine (needs gcc);
- returns of 20 whole episodes in which the page chooses its own actions, and those of
  `td3 evaluate` on the same seeds.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import td3
from benchmarks.fidelity.record import SEED, has_compiler, record, record_with_page_sine
from benchmarks.fidelity.replay import differences, replay
from td3.bench.measure import describe_circumstances
from td3.intervals import mean_interval
from td3.play.entries import tasks

LARGEST = 1e-6


def equal_steps(found: dict[str, Any], expected: dict[str, Any]) -> int:
    """How many steps from the start have equal observations and rewards."""
    seen = differences(found["observations"][1:], expected["observations"][1:])
    rewards = differences(found["rewards"], expected["rewards"])
    differs = np.flatnonzero(np.maximum(seen, rewards) > LARGEST)
    return int(differs[0]) if len(differs) else len(rewards)


def measure_steps(recorded: dict[str, Any]) -> dict[str, dict[str, float]]:
    table = {}
    for (task, own), found in zip(recorded.items(), replay([*recorded.values()]), strict=True):
        seen = differences(found["observations"], own["observations"])
        steps = len(own["rewards"])
        equal = equal_steps(found, own)
        table[task] = {"steps": steps, "equal": equal, "largest": float(seen.max())}
    return table


def measure_returns(task: str, episodes: int) -> dict[str, Any]:
    """Mean, its 95 % interval and standard deviation, on the page and in `td3 evaluate`."""
    asked = {"task": task, "seed": SEED, "episodes": episodes}
    page = np.array(replay([asked], timeout=600)[0]["returns"])
    policy = td3.load_policy(pretrained=task)
    own = td3.evaluate(policy, episodes=episodes, seed=SEED).returns
    return {"page": summary(page), "td3": summary(own), "difference": summary(page - own)}


def summary(values: np.ndarray) -> dict[str, float]:
    low, high = mean_interval(values)
    return {
        "mean": float(values.mean()),
        "low": float(low),
        "high": float(high),
        "std": float(values.std()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    table: dict[str, Any] = {"equal": measure_steps({task: record(task) for task in tasks()})}
    equal = {task: own["equal"] for task, own in table["equal"].items()}
    print("steps equal to 1e-6:", equal, flush=True)
    if has_compiler():
        with tempfile.TemporaryDirectory() as name:
            table["same_sine"] = measure_steps(record_with_page_sine(Path(name)))
        largest = {task: own["largest"] for task, own in table["same_sine"].items()}
        print("largest difference with the same sine:", largest, flush=True)
    table["returns"] = {}
    for task in tasks():
        table["returns"][task] = own = measure_returns(task, given.episodes)
        texts = [
            f"{key} {part['mean']:,.2f} ({part['low']:,.2f} to {part['high']:,.2f})"
            for key, part in own.items()
        ]
        print(f"{task}: {', '.join(texts)}", flush=True)
    if given.out:
        table |= {"episodes": given.episodes, **describe_circumstances()}
        given.out.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
