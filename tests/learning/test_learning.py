"""Agents learn what they should, from several seeds."""

import json
from pathlib import Path

import pytest

import td3


def best_evaluations(folder: Path) -> dict[int, float]:
    best: dict[int, float] = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "evaluation":
            seed = record["seed"]
            best[seed] = max(best.get(seed, -1e9), record["mean_return"])
    return best


def test_pendulum_is_learnt_from_three_seeds(tmp_path: Path) -> None:
    """The quick recipe, shortened to what it needs: −200 or better from every seed."""
    folder = td3.train(recipe="quick", seeds=3, run=tmp_path / "run", steps=12_000)
    best = best_evaluations(folder)
    assert len(best) == 3
    assert min(best.values()) >= -200, best


@pytest.mark.learning
def test_inverted_double_pendulum_is_learnt(tmp_path: Path) -> None:
    folder = td3.train(
        "InvertedDoublePendulum-v5",
        "paper",
        seeds=2,
        run=tmp_path / "run",
        steps=40_000,
        loop={"random_steps": 1_000},
        evaluation={"every": 2_000},
    )
    best = best_evaluations(folder)
    assert min(best.values()) >= 9_000, best


@pytest.mark.learning
def test_the_course_recipe_learns_pendulum(tmp_path: Path) -> None:
    """Training after each episode, 400-300 networks, batches of 100, as in the walk-throughs."""
    folder = td3.train(
        "Pendulum-v1",
        "course",
        seeds=2,
        run=tmp_path / "run",
        steps=12_000,
        loop={"random_steps": 1_000},
        evaluation={"every": 1_000},
    )
    best = best_evaluations(folder)
    assert min(best.values()) >= -200, best
