"""The paper's tasks: trained in pieces, kept in small files, told on a page."""

import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from td3 import paper, pretrained
from td3.cli import main
from td3.errors import UserError
from td3.pages import BEGIN
from td3.paper import Plan, cores_for, keep_policy, last_step, train_tasks
from td3.policy import load_policy
from td3.report import read_run, table
from td3.results import Outcome, read_outcomes, write_results
from td3.stored import store_run

RECIPE = """
[agent]
hidden_sizes = [8, 8]
batch_size = 8
[loop]
random_steps = 20
replay_size = 200
log_every = 20
[evaluation]
episodes = 2
"""
AUTHORS = Path(__file__).parents[2] / "benchmarks/reference/td3_authors_curves.csv"


def plan_in(folder: Path, **changes: Any) -> Plan:
    (folder / "tiny.toml").write_text(RECIPE)
    asked: dict[str, Any] = {
        "tasks": ("InvertedPendulum-v5", "Pendulum-v1"), "recipe": str(folder / "tiny.toml"),
        "seeds": 2, "steps": 200, "evaluation_every": 50, "checkpoint_every": 50, "device": "cpu",
        "runs": folder / "runs", "results": folder / "results", "policies": folder / "policies",
    }  # fmt: skip
    return Plan(**asked | changes)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    plan = plan_in(tmp_path_factory.mktemp("paper"))
    seen: list[int] = []
    progress = train_tasks(plan, lambda progress: seen.append(len(progress.finished)))
    assert progress.failed == {}
    assert sorted(progress.finished) == sorted(plan.tasks)
    assert seen[-1] == 2
    return plan


def test_what_is_kept_says_what_the_run_said(trained: Plan) -> None:
    for task in trained.tasks:
        run, kept = read_run(trained.runs / task), read_run(trained.results / task)
        assert kept.status == "finished"
        assert kept.config == run.config
        assert kept.wall_seconds == run.wall_seconds
        for agent, found in run.evaluations.items():
            assert kept.evaluations[agent].seed == found.seed
            assert kept.evaluations[agent].steps.tolist() == [0, 50, 100, 150, 200]
            np.testing.assert_allclose(
                kept.evaluations[agent].mean_returns, found.mean_returns, rtol=1e-6
            )
        assert [row["last"] for row in table([kept])] == pytest.approx(
            [row["last"] for row in table([run])], rel=1e-6
        )
        files = {path.name for path in (trained.results / task).iterdir()}
        assert files == {"config.toml", "curves.csv", "events.jsonl"}


def test_most_reports_of_progress_are_left_out(trained: Plan, tmp_path: Path) -> None:
    shutil.copytree(trained.runs / "Pendulum-v1", tmp_path / "run")
    events = tmp_path / "run" / "events.jsonl"
    first, *_, last = events.read_text().splitlines()
    progress = [{"time": 10.0 + k, "event": "progress", "step": k} for k in range(1000)]
    events.write_text("\n".join([first, *map(json.dumps, progress), last]) + "\n")
    kept = store_run(tmp_path / "run", tmp_path / "out")
    assert len(kept.events) == 2 + 50
    assert kept.status == "finished"


def test_what_is_finished_is_not_trained_again(
    trained: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(command: list[str]) -> None:
        raise AssertionError(command)

    monkeypatch.setattr(paper, "begin", never)
    assert sorted(train_tasks(trained).finished) == sorted(trained.tasks)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seeds": 3}, "was begun with seeds 2, not 3"),
        ({"steps": 400}, "was begun with loop.steps 200, not 400"),
        ({"recipe": "paper"}, "was begun with recipe tiny, not paper"),
        ({"at_once": 0}, "at-once must be 1 or more"),
        ({"at_once": 10_000}, "cores for 10000 tasks"),
    ],
)
def test_another_plan_is_refused(trained: Plan, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        dataclasses.replace(trained, **changes)


def test_stopped_and_killed_it_goes_on_to_the_same_curves(trained: Plan, tmp_path: Path) -> None:
    plan = plan_in(tmp_path, tasks=("Pendulum-v1",))
    words = [
        *("Pendulum-v1", "--recipe", plan.recipe, "--seeds", "2", "--steps", "200", "--device"),
        *("cpu", "--evaluation.every", "50", "--checkpoint.every", "50", "--runs", plan.runs),
        *("--results", plan.results, "--policies", plan.policies),
    ]  # fmt: skip
    command = [sys.executable, "-m", "td3", "bench", "paper", *map(str, words)]
    codes = []
    for number, after in ((signal.SIGTERM, 40), (signal.SIGINT, 120)):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        while child.poll() is None and last_step(plan.runs / "Pendulum-v1") < after:
            time.sleep(0.01)
        child.send_signal(number)
        child.communicate()
        codes.append(child.returncode)
    assert train_tasks(plan).finished == ["Pendulum-v1"]
    curves = [(p.results / "Pendulum-v1" / "curves.csv").read_text() for p in (plan, trained)]
    assert curves[0] == curves[1]
    assert set(codes) <= {143, 130, 0}  # 0: it was done before the signal came


def test_a_task_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, tasks=("NoSuch-v0", "Pendulum-v1"), steps=60)
    progress = train_tasks(plan)
    assert progress.finished == ["Pendulum-v1"]
    assert "No environment 'NoSuch-v0' is registered" in progress.failed["NoSuch-v0"]


def test_cores_are_shared_out() -> None:
    shares = cores_for(2)
    assert len(shares) == 2
    assert shares[0].isdisjoint(shares[1])
    assert len(shares[0]) == len(shares[1]) >= 1


@pytest.fixture
def shipped(trained: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(paper, "TEST_EPISODES", 5)
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    return keep_policy(dataclasses.replace(trained, policies=tmp_path), "Pendulum-v1")


def test_the_best_policy_is_tested_on_other_episodes(
    trained: Plan, shipped: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, kept = (
        load_policy(trained.runs / "Pendulum-v1"),
        load_policy(tmp_path / "Pendulum-v1.safetensors"),
    )
    assert kept.card["tested"] == shipped
    assert kept.card | {"tested": None} == own.card | {"tested": None}
    assert shipped["mean_return_low"] < shipped["mean_return"] < shipped["mean_return_high"]
    monkeypatch.setattr(paper, "evaluate", None)  # what is known is not played again
    assert keep_policy(dataclasses.replace(trained, policies=tmp_path), "Pendulum-v1") == shipped


def test_evaluate_finds_what_is_stated(
    shipped: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "--pretrained", "Pendulum-v1", "--episodes", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agents"][0]["stated"] == shipped
    assert found["mean_return"] == pytest.approx(shipped["mean_return"], rel=1e-6)
    assert main(["evaluate", "--pretrained", "Pendulum-v1", "--episodes", "1"]) == 0
    assert "over 5 episodes, 95 % interval of the mean" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pretrained", "Pendulm-v1"], "No policy for 'Pendulm-v1' comes along. Did you mean"),
        ([], "Name a run folder, or a task with --pretrained."),
        (["somewhere", "--pretrained", "Pendulum-v1"], "not both"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "video"])
@pytest.mark.usefixtures("shipped")
def test_what_is_not_there_is_said(
    command: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *words]) == 2
    assert said in capsys.readouterr().err


def test_the_page_tells_all_tasks_in_the_papers_order(trained: Plan, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "results.md"
    written = write_results(trained.results, AUTHORS, page)
    assert {path.name for path in written} == {"results.md", "results.png", "results.svg"}
    text = page.read_text(encoding="utf-8")
    assert BEGIN in text
    first, second = (text.index(f"| {task} | 2 |") for task in trained.tasks)
    assert first < second
    assert "**all" not in text  # Pendulum is not in the authors' curves
    assert "every 50, 2 episodes" in text
    with pytest.raises(UserError, match="holds no results"):
        write_results(tmp_path, AUTHORS, page)


def test_scores_go_from_untrained_to_the_authors_end(trained: Plan) -> None:
    found = read_outcomes(trained.results, AUTHORS)
    outcome = next(outcome for outcome in found if outcome.authors)
    assert isinstance(outcome, Outcome)
    assert outcome.authors is not None
    assert outcome.authors.steps.tolist() == [0]  # no longer than ours
    assert outcome.published is not None
    untrained, trained_well = outcome.published.mean[0], outcome.published.mean[-10:].mean()
    scores = outcome.score(np.array([untrained, trained_well]))
    np.testing.assert_allclose(scores, [0, 1])
