"""The progress display, on a terminal and in a pipe."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from td3.config import Config, load_recipe
from td3.launch import progress
from td3.launch.progress import Display, best_steps, open_display


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, to be changed by the test."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def make_display(clock: list[float], config: Config) -> Display:
    display = Display(config)
    display.bar.get_time = lambda: clock[0]
    display.console = Console(file=io.StringIO(), width=80)
    return display


def draw(display: Display, width: int = 80) -> str:
    screen = Console(file=io.StringIO(), width=width)
    screen.print(display.render())
    file: Any = screen.file
    return str(file.getvalue())


def printed(display: Display) -> list[str]:
    file: Any = display.console.file
    return str(file.getvalue()).splitlines()


def evaluation(step: int, value: float, best: bool, agent: int = 0) -> dict[str, Any]:
    facts = {"kind": "evaluation", "step": step, "agent": agent}
    return facts | {"mean_return": value, "best": best}


def test_display_shows_speed_and_time_left_on_80_columns(clock: list[float]) -> None:
    config = load_recipe("paper")
    display = make_display(clock, config)
    for step in range(0, 200_001, 50_000):
        clock[0] += 10
        display.step(step)
    (line,) = [line for line in draw(display).splitlines() if "steps/s" in line]
    assert "20% 200,000/1,000,000 steps · 5,000 steps/s · 2 min 40 s left" in line


def test_display_shows_no_time_left_during_random_steps(clock: list[float]) -> None:
    display = make_display(clock, load_recipe("paper"))
    for step in (0, 5000, 10_000):
        clock[0] += 10
        display.step(step)
    assert "500 steps/s · random actions" in draw(display)


def test_display_speed_ignores_random_steps_once_learning_begins(clock: list[float]) -> None:
    display = make_display(clock, load_recipe("paper"))
    for step in (0, 12_500, 25_000, 25_001):
        clock[0] += 10
        display.step(step)
    assert "25,001/1,000,000 steps · …" in draw(display)
    for step in range(25_101, 26_000, 100):
        clock[0] += 10
        display.step(step)
    assert "10 steps/s" in draw(display)


def test_display_shows_phase_until_first_step(clock: list[float]) -> None:
    display = make_display(clock, load_recipe("quick"))
    display.phase("measuring threads")
    assert "measuring threads …" in draw(display)
    display.step(1)
    assert "measuring threads" not in draw(display)


def test_pipe_prints_evaluation_only_if_best_or_last_or_after_a_minute(clock: list[float]) -> None:
    config = load_recipe("quick")
    display = make_display(clock, config)
    clock[0] = 1.0
    display.write(evaluation(0, -900.0, best=True))
    display.write(evaluation(1000, -950.0, best=False))
    display.write(evaluation(2000, -800.0, best=True))
    display.write(evaluation(3000, -850.0, best=False))
    clock[0] += 61
    display.write(evaluation(4000, -860.0, best=False))
    display.write(evaluation(5000, -870.0, best=False))
    display.write(evaluation(config.loop.steps, -880.0, best=False))
    steps = [line.split()[1] for line in printed(display)]
    assert steps == ["0", "2,000", "4,000", f"{config.loop.steps:,}"]


def test_pipe_prints_one_line_if_one_of_several_agents_improved(clock: list[float]) -> None:
    display = make_display(clock, dataclasses.replace(load_recipe("quick"), seeds=2))
    for step, best in ((0, True), (1000, False), (2000, True)):
        display.write(evaluation(step, 1.0, best=best, agent=0))
        display.write(evaluation(step, 1.0, best=False, agent=1))
    assert [line.split()[1] for line in printed(display)] == ["0", "2,000"]


def test_display_after_resume_knows_step_of_best_evaluation(
    clock: list[float], tmp_path: Path
) -> None:
    metrics = tmp_path / "metrics.jsonl"
    found = [evaluation(0, 1.0, True), evaluation(500, 9.0, True), evaluation(1000, 3.0, False)]
    text = "".join(json.dumps(record) + "\n" for record in found)
    metrics.write_text(text + '{"kind": "train"}\n{"kind": "evalu')
    assert best_steps(metrics) == {0: 500}
    display = make_display(clock, load_recipe("quick"))
    record = {"kind": "resumed", "step": 1000, "best": [9.0], "frozen": [False]}
    display.write(record | {"best_steps": best_steps(metrics)})
    display.write(evaluation(1500, 4.0, False))
    assert "evaluation 4.0 (best 9.0 at 500)" in display.summary()


def test_quiet_display_shows_only_what_is_not_exact(capsys: pytest.CaptureFixture[str]) -> None:
    with open_display(load_recipe("quick"), quiet=True) as display:
        display.phase("making networks")
        display.write(evaluation(0, 1.0, best=True))
        display.write({"kind": "remark", "message": "not exact: another torch"})
    assert capsys.readouterr() == ("", "! not exact: another torch\n")
