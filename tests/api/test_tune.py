"""td3.tune"""

from pathlib import Path
from typing import Any

import optuna
import pytest

import td3

SMALL: dict[str, Any] = {
    "trials": 3,
    "seeds": 1,
    "steps": 300,
    "loop": {"random_steps": 100},
    "agent": {"hidden_sizes": [16, 16], "batch_size": 16},
    "plan": {"confirm": 0, "evaluations": 3, "episodes": 1, "rows": 2},
    "threads": 1,
    "device": "cpu",
    "quiet": True,
}


def test_tune_searches_settings_of_variant_and_resumes(tmp_path: Path) -> None:
    found = td3.tune("Pendulum-v1", "quick", variant="huber", run=tmp_path / "run", **SMALL)
    assert found.best is not None
    assert 0.1 <= found.best.settings["variant.delta"] <= 10
    assert "[variant]" in (found.folder / "best.toml").read_text(encoding="utf-8")
    assert td3.tune(resume=found.folder, quiet=True).results == found.results


def test_tune_takes_pruner_of_optuna_and_tables(tmp_path: Path) -> None:
    found = td3.tune(
        "Pendulum-v1",
        "quick",
        run=tmp_path / "run",
        search={"default": False, "agent": {"tau": True}},
        pruner=optuna.pruners.ThresholdPruner(lower=0),  # every return is below
        **SMALL,
    )
    assert {own.state for own in found.results} == {"pruned"}
    assert found.best is None
    assert set(found.results[0].settings) == {"agent.tau"}
    assert "No trial is complete" in (found.folder / "report.md").read_text(encoding="utf-8")


def test_tune_refuses_unknown_option() -> None:
    with pytest.raises(td3.UserError, match="unknown option"):
        td3.tune("Pendulum-v1", "quick", **(SMALL | {"plan": {"rosw": 3}}))
