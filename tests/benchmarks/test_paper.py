"""python -m benchmarks paper: training in pieces, stored runs and best policies."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.paper_plan import command_of, make_tiny_plan
from support.stored_results import ROOT, write_stored_run

from benchmarks.td3_bench import best_policy, paper
from benchmarks.td3_bench.best_policy import (
    CHOICE_SEED,
    TEST_SEED,
    choose_best,
    keep_results,
    measure_return,
)
from benchmarks.td3_bench.paper import last_error, last_step, train_tasks
from benchmarks.td3_bench.plan import Plan
from benchmarks.td3_bench.stored import store_run
from td3.cli import main
from td3.errors import RunBusy, UserError
from td3.launch.resume import resume
from td3.policy import pretrained
from td3.policy.load import load_policy, policies_of
from td3.policy.policy import Policy
from td3.report.page import table
from td3.report.summary import read_run
from td3.run.lock import lock_run


def test_stored_run_has_the_numbers_of_the_run(trained: Plan) -> None:
    for task in trained.tasks:
        run, kept = read_run(trained.run_folder(task)), read_run(trained.result_folder(task))
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
        files = {path.name for path in trained.result_folder(task).iterdir()}
        assert files == {"config.toml", "curves.csv", "events.jsonl"}


def test_store_run_drops_most_progress_events(trained: Plan, tmp_path: Path) -> None:
    shutil.copytree(trained.runs / "Pendulum-v1", tmp_path / "run")
    events = tmp_path / "run" / "events.jsonl"
    first, *_, last = events.read_text().splitlines()
    began, ended = (json.loads(line) for line in (first, last))
    before = [{"time": 10.0 + k, "event": "progress", "step": k} for k in range(995)]
    after = [{"time": 5000.0 + k, "event": "progress", "step": k} for k in range(990, 995)]
    killed = [*before, {"time": 4000.0, "event": "resume", "step": 990}, *after]
    recorded = [began | {"time": 9.0}, *killed, ended | {"time": 5010.0}]
    events.write_text("".join(json.dumps(event) + "\n" for event in recorded))
    kept = store_run(tmp_path / "run", tmp_path / "out")
    assert len(kept.events) < 60
    assert kept.status == "finished"
    assert kept.wall_seconds == read_run(tmp_path / "run").wall_seconds


def test_train_tasks_skips_finished_tasks(trained: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any) -> None:
        raise AssertionError(given)

    monkeypatch.setattr(paper, "start_task", never)
    assert sorted(train_tasks(trained).finished) == sorted(trained.tasks)


def test_training_stopped_and_killed_continues_to_the_same_curves(tmp_path: Path) -> None:
    (tmp_path / "pieces").mkdir()
    longer: dict[str, Any] = {
        "tasks": ("Pendulum-v1",),
        "steps": 20_000,
        "evaluation_every": 10_000,
        "checkpoint_every": 1000,
    }
    whole, plan = make_tiny_plan(tmp_path, **longer), make_tiny_plan(tmp_path / "pieces", **longer)
    assert train_tasks(whole).finished == ["Pendulum-v1"]
    run = plan.run_folder("Pendulum-v1")
    for number, after in ((signal.SIGINT, 1000), (signal.SIGKILL, 5000)):
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks", *command_of(plan)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda after=after: last_step(run) >= after)
        child.send_signal(number)
        assert child.wait() == {signal.SIGINT: 130, signal.SIGKILL: -9}[number]
        wait_until(lambda: read_run(run).status == "stopped")
        wait_until(lambda: not is_busy(run))
    assert train_tasks(plan).finished == ["Pendulum-v1"]
    curves = [(p.result_folder("Pendulum-v1") / "curves.csv").read_text() for p in (plan, whole)]
    assert curves[0] == curves[1]
    happened = [event["event"] for event in read_run(run).events]
    assert happened.count("resume") == 2
    assert read_run(plan.result_folder("Pendulum-v1")).wall_seconds == read_run(run).wall_seconds


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_busy(run: Path) -> bool:
    try:
        with lock_run(run):
            return False
    except RunBusy:
        return True


def test_train_tasks_with_a_failing_task_reports_it_and_continues(tmp_path: Path) -> None:
    plan = make_tiny_plan(tmp_path, tasks=("NoSuch-v0", "Pendulum-v1"), steps=60)
    progress = train_tasks(plan)
    assert progress.finished == ["Pendulum-v1"]
    assert "No environment 'NoSuch-v0' is registered" in progress.failed["NoSuch-v0"]


def test_train_tasks_with_a_full_disk_reports_the_error(
    trained: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(run: Path, out: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(best_policy, "store_run", full)
    progress = train_tasks(trained)
    assert progress.returns == {}
    assert set(progress.failed) == set(trained.tasks)
    assert all("could not be stored: [Errno 28]" in message for message in progress.failed.values())


def test_last_error_of_a_killed_task_names_the_signal(trained: Plan) -> None:
    assert last_error(trained, "Pendulum-v1", -9) == "killed by SIGKILL"


@pytest.fixture
def shipped(trained: Plan, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Use the trained policies as the pretrained ones."""
    path = trained.policy_file("Pendulum-v1")
    monkeypatch.setattr(pretrained, "FOLDER", path.parent)
    return dict(load_policy(path).card["tested"])


def test_best_policy_is_tested_on_other_episodes(
    trained: Plan, shipped: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = load_policy(trained.policy_file("Pendulum-v1"))
    found = policies_of(trained.run_folder("Pendulum-v1"))
    (own,) = [policy for policy in found if policy.card["sha256"] == kept.card["sha256"]]
    steps = trained.config.loop.steps
    added = {"tested": shipped, "chosen_from": {"recipe": "tiny", "seeds": 2, "steps": steps}}
    assert kept.card | {"card_sha256": ""} == own.card | added | {"card_sha256": ""}
    assert shipped["mean_return_low"] < shipped["mean_return"] < shipped["mean_return_high"]
    assert measure_return(own) == shipped
    monkeypatch.setattr(best_policy, "play", None)  # known returns are not measured again
    assert keep_results(trained, "Pendulum-v1") == shipped


def test_keep_results_of_a_task_in_a_module_that_the_user_named_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import gymnasium as gym\n"
        "entry_point = 'gymnasium.envs.classic_control:PendulumEnv'\n"
        "gym.register('Kept-v0', entry_point, max_episode_steps=20)\n"
    )
    (tmp_path / "kept_task.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    progress = train_tasks(make_tiny_plan(tmp_path, tasks=("kept_task:Kept-v0",)))
    assert progress.failed == {}
    assert set(progress.returns) == {"kept_task:Kept-v0"}


def test_choose_best_compares_policies_on_the_same_starts(
    trained: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The return that a card states does not matter."""
    policies = policies_of(trained.run_folder("Pendulum-v1"))
    asked = []

    def fake_play(policy: Policy, seed: int, episodes: int) -> NDArray[np.float64]:
        asked.append((policy.name, seed, episodes))
        return np.array([float(policy.name == "agent-1")])

    monkeypatch.setattr(best_policy, "play", fake_play)
    for best, other in ((0, 1), (1, 0)):
        policies[best].card["mean_return"], policies[other].card["mean_return"] = 1.0, 0.0
        assert choose_best(policies).name == "agent-1"
    starts = (CHOICE_SEED, best_policy.CHOICE_EPISODES)
    assert set(asked) == {("agent-0", *starts), ("agent-1", *starts)}
    assert CHOICE_SEED != TEST_SEED


def test_evaluate_pretrained_reproduces_the_stated_return(
    shipped: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    same = ["--episodes", "5", "--seed", str(TEST_SEED), "--json"]
    assert main(["evaluate", "--pretrained", "Pendulum-v1", *same]) == 0
    found = json.loads(capsys.readouterr().out)
    stated = found["agents"][0]["stated"]
    assert stated.items() >= shipped.items()
    assert stated["expected_low"] < stated["mean_return"] < stated["expected_high"]
    assert stated["reproduced"] is True
    assert found["mean_return"] == pytest.approx(shipped["mean_return"], rel=1e-6)
    assert main(["evaluate", "--pretrained", "Pendulum-v1", "--episodes", "1"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(
        "Pendulum-v1, 1 episode: mean return ± standard deviation over episodes\n"
    )
    assert re.search(r" over 5 other episodes\nreproduced: expected .* \(99 % interval\)\n", output)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pretrained", "Pendulm-v1"], "No pretrained policy for 'Pendulm-v1'. Did you mean"),
        ([], "Give a run folder, or a task with --pretrained."),
        (["somewhere", "--pretrained", "Pendulum-v1"], "not both"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "video"])
@pytest.mark.usefixtures("shipped")
def test_pretrained_with_a_bad_name_exits_2(
    command: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *words]) == 2
    assert message in capsys.readouterr().err


def test_resume_of_stored_results_raises_and_changes_nothing(tmp_path: Path) -> None:
    write_stored_run(tmp_path, "Ant-v5", [[0.0, 1.0]])
    before = {path.name: path.read_bytes() for path in (tmp_path / "Ant-v5").iterdir()}
    with pytest.raises(
        UserError,
        match="contains only the results of a run",
    ):
        resume(tmp_path / "Ant-v5")
    assert {path.name: path.read_bytes() for path in (tmp_path / "Ant-v5").iterdir()} == before
    with pytest.raises(UserError, match="results without policies"):
        load_policy(tmp_path / "Ant-v5")
