"""Which changed settings make a resumed run inexact."""

from pathlib import Path
from typing import Any

import pytest

from td3.config import Config, to_dict, varied
from td3.training.resume_rules import check_settings

FOLDER = Path("runs/x")


def remarks(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return check_settings(varied(Config(), after), to_dict(varied(Config(), before)), FOLDER)


@pytest.mark.parametrize(
    "after",
    [
        {"loop.steps": 7},
        {"track": ("wandb",)},
        {"callback": ("a:B",)},
        {"stop.at_return": 9.0},
        {"evaluation.keep_every": 100},
        {"stop.after": "2h"},
        {"stop.patience": 3},
    ],
)
def test_check_settings_with_setting_without_effect_is_exact(after: dict[str, Any]) -> None:
    assert remarks({}, after) == []


@pytest.mark.parametrize("schedule", ["agent.learning_rate_schedule", "loop.exploration_schedule"])
def test_check_settings_with_other_steps_under_a_schedule_is_not_exact(schedule: str) -> None:
    same = {schedule: "linear"}
    assert remarks(same, same) == []
    found = remarks(same, {**same, "loop.steps": 7})
    assert found == ["not exact: loop.steps was 1000000, is 7"]


def test_check_settings_with_other_exploration_is_not_exact() -> None:
    found = remarks({}, {"loop.exploration": "pink"})
    assert found == ["not exact: loop.exploration was gaussian, is pink"]


def test_check_settings_of_run_older_than_a_setting_takes_its_default() -> None:
    before = to_dict(Config())
    del before["loop"]["exploration"], before["stop"]
    assert check_settings(Config(), before, FOLDER) == []
    found = check_settings(varied(Config(), {"loop.exploration": "zeta"}), before, FOLDER)
    assert found == ["not exact: loop.exploration was gaussian, is zeta"]
