"""The plan, the hint and the expected duration at the start of a run."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.run_tools import RecordingDisplay, tiny

from td3.config import Config, load_recipe
from td3.launch import overview
from td3.launch.overview import DurationEstimate, describe_duration, describe_plan, suggest_recipe
from td3.launch.start import start
from td3.run.memory import example_task


def test_describe_plan_names_steps_evaluations_and_agents() -> None:
    paper = load_recipe("paper")
    assert describe_plan(dataclasses.replace(paper, seeds=3)) == (
        "Plan: 3 agents, 1,000,000 steps each (the first 25,000 random),\n"
        "      201 evaluations of 10 episodes"
    )
    assert describe_plan(tiny(loop={"steps": 650})).endswith("6 evaluations of 1 episode")


@pytest.mark.parametrize(
    ("recipe", "state_dim", "steps", "hint"),
    [
        ("paper", 3, 1_000_000, True),
        ("paper", 17, 1_000_000, False),
        ("paper", 8, 1_000_000, False),  # Swimmer needs its million steps
        ("paper", 3, 20_000, False),
        ("quick", 3, 1_000_000, False),
    ],
)
def test_suggest_recipe_only_for_a_small_task_with_many_steps(
    recipe: str, state_dim: int, steps: int, hint: bool
) -> None:
    config = load_recipe(recipe)
    config = dataclasses.replace(config, loop=dataclasses.replace(config.loop, steps=steps))
    text = suggest_recipe(config, example_task(state_dim, 1))
    expected = "example looks like a small task: --recipe quick (15,000 steps) may be enough"
    assert text == (expected if hint else "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5, "less than a minute"),
        (61, "about 1 minute"),
        (2400, "about 40 minutes"),
        (10_000, "about 3 hours"),
        (260_000, "about 3 days"),
    ],
)
def test_describe_duration_gives_the_order_of_magnitude(seconds: float, text: str) -> None:
    assert describe_duration(seconds) == text


@pytest.mark.parametrize("background", [False, True])
def test_duration_estimate_counts_updates_and_evaluations(
    background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step takes 0.2 s, an evaluation 300 s, and one step in the measurement 100 s."""
    clock = {"now": 0.0}
    monkeypatch.setattr(overview, "time", SimpleNamespace(monotonic=lambda: clock["now"]))
    config: Config = tiny(loop={"steps": 10_000}, evaluation={"every": 1000})
    shown: list[dict[str, Any]] = []
    steps: list[int] = []
    training: Any = SimpleNamespace(
        config=config,
        on_step=steps.append,
        evaluations=SimpleNamespace(background=background),
        recorder=SimpleNamespace(show=shown.append),
    )
    DurationEstimate(training)
    clock["now"] = 0.0 if background else 300.0
    for step in range(1, 300):
        clock["now"] += 100.0 if step == 203 else 0.2
        training.on_step(step)
    assert steps == list(range(1, 300))
    # 10,000 × 0.2 s and 100 s; 11 × 300 s more unless evaluations run in the background
    text = "about 35 minutes" if background else "about 2 hours"
    messages = [record["message"] for record in shown]
    assert messages == [f"Expected duration: {text} on this machine"]
    assert training.on_step == steps.append


def test_start_shows_folder_plan_and_hint_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "MANY_STEPS", 100)
    screen: Any = RecordingDisplay()
    config = dataclasses.replace(tiny(loop={"steps": 200}), recipe="paper")
    start(config, tmp_path / "run", screen)
    assert screen.messages[0] == str(tmp_path / "run")
    assert screen.messages[1].startswith("Plan: 200 steps (the first 100 random),\n      3 eval")
    assert "--recipe quick" in screen.messages[2]
