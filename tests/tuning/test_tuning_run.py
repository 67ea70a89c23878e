"""td3 tune from the first trial to the report."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.run_tools import tiny

from td3.config import load_recipe
from td3.errors import UserError
from td3.tuning.confirm import compare, read_confirmation
from td3.tuning.display import open_tune_display
from td3.tuning.page import best_setting, write_page
from td3.tuning.plan import Plan, read_plan
from td3.tuning.results import describe, rank
from td3.tuning.run import Outcome, create_search, tune
from td3.tuning.search import open_search

SEARCH = {"default": False, "agent": {"tau": True, "hidden_sizes": [[16, 16], [8, 8]]}}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A small search with everything that follows it."""
    config = tiny(seeds=2, threads=1)
    plan = Plan(config, trials=8, rows=4, evaluations=6, episodes=1, search=SEARCH, confirm=2)
    plan, folder = create_search(plan, tmp_path_factory.mktemp("tune") / "search")
    with open_tune_display(plan, quiet=True) as display:
        return tune(plan, folder, display)


def test_best_trial_has_highest_value(outcome: Outcome) -> None:
    values = [own.value for own in outcome.results if own.value is not None]
    assert outcome.best is not None
    assert outcome.best.value == max(values)
    assert outcome.exit_code == 0


def test_recipe_has_settings_of_best_trial(outcome: Outcome) -> None:
    recipe = load_recipe(str(outcome.folder / "best.toml"))
    assert outcome.best is not None
    assert recipe.agent.tau == outcome.best.settings["agent.tau"]
    assert recipe.agent.hidden_sizes == outcome.best.settings["agent.hidden_sizes"]
    assert (recipe.environment.id, recipe.loop.steps) == ("Pendulum-v1", 600)
    assert (recipe.seeds, recipe.device) == (1, "auto")


def test_table_has_every_trial_with_its_evaluations(outcome: Outcome) -> None:
    with (outcome.folder / "trials.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert {row["agent.hidden_sizes"] for row in rows} <= {"16 16", "8 8"}
    for row, own in zip(rows, outcome.results, strict=True):
        assert row["return at 100"] == str(own.means[100])


def test_confirmation_uses_fresh_seeds(outcome: Outcome) -> None:
    found = read_confirmation(outcome.folder)
    if outcome.best is not None and outcome.best.number == 0:
        pytest.skip("the default is the best")
    assert found == outcome.confirmation
    assert found is not None
    assert found.low < found.difference < found.high
    lines = (outcome.folder / "confirm" / "default" / "metrics.jsonl").read_text().splitlines()
    assert {json.loads(line)["seed"] for line in lines} == {1000, 1001}


def test_report_has_figures_and_all_trials(outcome: Outcome) -> None:
    page = (outcome.folder / "report.html").read_text(encoding="utf-8")
    for heading in ("Best setting", "Confirmation", "History", "Slices", "Trials"):
        assert f"<h2>{heading}</h2>" in page
    assert page.count("data:image/svg+xml") >= 3


def test_report_tells_what_it_has_no_confirmation_or_importance_for(
    outcome: Outcome, tmp_path: Path
) -> None:
    plan = read_plan(outcome.folder)
    default = {"agent.tau": plan.config.agent.tau}
    for settings, confirm, told in (
        (default, 2, "there is nothing to confirm"),
        ({"agent.tau": 0.04}, 0, "nobody knows how much of it is luck"),
        ({"agent.tau": 0.04}, 2, "seeds of its own"),
    ):
        best = replace(outcome.results[0], value=1.0, settings=settings)
        assert told in " ".join(best_setting(replace(plan, confirm=confirm), best))
    with open_search(plan, outcome.folder) as search:
        few = [own for own in outcome.results if own.value is not None][:1]
        write_page(plan, search.trials, few, None, tmp_path)
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "needs 4 complete trials; this is 1 complete trial" in page
    assert "Confirmation" not in page


def test_confirmation_of_an_earlier_best_trial_is_not_shown(
    outcome: Outcome, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(outcome.folder, folder)
    stored = json.loads((folder / "confirmation.json").read_text()) if outcome.confirmation else {}
    values = {"trial": 99, "best": [1.0], "default": [0.0], "difference": 1, "low": 0, "high": 2}
    (folder / "confirmation.json").write_text(json.dumps({**stored, **values}))
    plan = replace(read_plan(folder), confirm=0)
    with open_tune_display(plan, quiet=True) as display:
        assert tune(plan, folder, display).confirmation is None


def test_finished_search_continues_to_same_results(outcome: Outcome) -> None:
    plan = read_plan(outcome.folder)
    with open_tune_display(plan, quiet=True) as display:
        again = tune(plan, outcome.folder, display)
    assert again.results == outcome.results
    assert again.confirmation == outcome.confirmation


def test_folder_of_a_search_is_not_overwritten(outcome: Outcome) -> None:
    with pytest.raises(UserError, match="td3 tune --resume"):
        create_search(read_plan(outcome.folder), outcome.folder)


def test_search_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    config = tiny(environment={"id": "Missing-v0"})
    plan, folder = create_search(Plan(config, trials=2, rows=2), tmp_path / "refused")
    with open_tune_display(plan, quiet=True) as display, pytest.raises(UserError):
        tune(plan, folder, display, is_new=True)
    assert not folder.exists()


def test_rows_default_to_the_device_and_fit_the_trials(tmp_path: Path) -> None:
    plan = Plan(tiny(seeds=3), trials=100)
    assert create_search(plan, tmp_path / "many")[0].rows == 16
    assert create_search(replace(plan, trials=2), tmp_path / "few")[0].rows == 6


def test_plan_survives_its_file(outcome: Outcome) -> None:
    plan = read_plan(outcome.folder)
    assert plan.search == SEARCH
    assert (plan.trials, plan.steps, plan.every) == (8, 600, 100)


def test_pipe_gets_a_line_for_each_trial(
    outcome: Outcome, capsys: pytest.CaptureFixture[str]
) -> None:
    plan: Any = replace(read_plan(outcome.folder), trials=9)
    with open_tune_display(plan, quiet=False) as display:
        tune(plan, outcome.folder, display)
    written = capsys.readouterr().err
    assert "Continuing: " in written
    assert "9/9  trial 8 " in written


def test_difference_has_welch_interval() -> None:
    difference, low, high = compare([3.0, 4.0, 5.0], [1.0, 2.0, 6.0])
    scipy = pytest.importorskip("scipy.stats")
    expected = scipy.ttest_ind([3.0, 4.0, 5.0], [1.0, 2.0, 6.0], equal_var=False)
    ends = expected.confidence_interval()
    assert (difference, low, high) == pytest.approx((1.0, ends.low, ends.high), abs=1e-3)


def test_difference_of_equal_values_has_no_width() -> None:
    assert compare([1.0, 1.0], [1.0, 1.0]) == (0.0, 0.0, 0.0)


def test_ranking_leaves_out_trials_that_did_not_finish(outcome: Outcome) -> None:
    values = [own.value or np.nan for own in rank(outcome.results)]
    assert values == sorted(values, reverse=True)


def test_settings_are_described_with_short_numbers() -> None:
    own = {"agent.tau": 0.012345, "agent.hidden_sizes": (64, 64)}
    assert describe(own) == "tau 0.0123, hidden_sizes 64 64"
