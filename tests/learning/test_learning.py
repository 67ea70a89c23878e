"""Agents learn what they should, from several seeds."""

from pathlib import Path
from typing import Any

import pytest
from support.find import best_return

import td3
from td3.environments.environment import Environment


def best_evaluations(run: td3.Run) -> dict[int, float]:
    """The best mean return of each seed."""
    table = run.evaluations
    seeds = set(table["seed"].tolist())
    return {seed: float(table.where(seed=seed)["mean_return"].max()) for seed in seeds}


def test_pendulum_is_learned_from_three_seeds(tmp_path: Path) -> None:
    """The quick recipe, shortened to what it needs: −200 or better from every seed."""
    run = td3.train(recipe="quick", seeds=3, run=tmp_path / "run", steps=12_000)
    best = best_evaluations(run)
    assert len(best) == 3
    assert min(best.values()) >= -200, best


@pytest.mark.learning
def test_inverted_double_pendulum_is_learned(tmp_path: Path) -> None:
    run = td3.train(
        "InvertedDoublePendulum-v5",
        "paper",
        seeds=2,
        run=tmp_path / "run",
        steps=40_000,
        loop={"random_steps": 1_000},
        evaluation={"every": 2_000},
    )
    best = best_evaluations(run)
    assert min(best.values()) >= 9_000, best


@pytest.mark.learning
def test_the_course_recipe_learns_pendulum(tmp_path: Path) -> None:
    """Training after each episode, 400-300 networks, batches of 100, as in the walk-throughs."""
    run = td3.train(
        "Pendulum-v1",
        "course",
        seeds=2,
        run=tmp_path / "run",
        steps=12_000,
        loop={"random_steps": 1_000},
        evaluation={"every": 1_000},
    )
    best = best_evaluations(run)
    assert min(best.values()) >= -200, best


def test_a_picture_and_a_number_are_seen_together(tmp_path: Path) -> None:
    """Move from the position that the number gives to the bar in the picture.

    An agent that sees only one of the two earns about -5; the best mean is -0.37.
    """
    run = td3.train(
        {"id": "support.find:Find-v0", "frame_stack": 2},
        "quick",
        run=tmp_path / "run",
        steps=3_000,
        agent={
            "channels": [8, 8],
            "features": 16,
            "batch_size": 64,
            "random_shift": 1,
            "n_step": 2,
        },
        loop={"random_steps": 300},
        evaluation={"every": 500, "episodes": 20},
    )
    assert best_evaluations(run)[0] > -1
    policy = td3.load_policy(run)
    made = Environment(policy.environment)
    observation, _ = made.env.reset(seed=1)
    earned, over = 0.0, False
    task: Any = made.env.unwrapped
    goal, position = task.goal, task.position
    while not over:
        observation, reward, terminated, truncated, _ = made.env.step(policy(observation))
        earned, over = earned + float(reward), terminated or truncated
    assert earned == pytest.approx(best_return(goal, position), abs=0.8)
