"""Classes, functions and lists in `td3.train`; resume of runs whose environment is an object."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from gymnasium.envs.classic_control import Continuous_MountainCarEnv, PendulumEnv
from support.run_tools import different
from support.worker_tasks import Counting

import td3
from td3.cli import main
from td3.environments import factories
from td3.run.folder import read_config
from td3.training import results

SMALL: dict[str, Any] = {
    "recipe": "quick",
    "steps": 300,
    "quiet": True,
    "agent": {"hidden_sizes": [8, 8], "batch_size": 8},
    "loop": {"random_steps": 50, "log_every": 70},
    "checkpoint": {"every": 100},
    "evaluation": {"every": 150, "episodes": 1},
    "threads": 1,
    "device": "cpu",
}


def train(environment: Any, run: Path, **changes: Any) -> Path:
    return td3.train(environment, run=run, **{**SMALL, **changes})


def forget() -> None:
    """What a new process knows."""
    factories.GIVEN.clear()


def test_train_on_a_class_resumes_from_the_command_line_exactly(tmp_path: Path) -> None:
    given = functools.partial(Counting, at=2)
    whole = train(given, tmp_path / "whole")
    pieces = train(given, tmp_path / "pieces", steps=150)
    config, _ = read_config(pieces)
    assert config.environment.id == "support.worker_tasks:Counting"
    assert config.environment.kwargs == {"at": 2}
    forget()
    assert main(["resume", str(pieces), "--steps", "300", "--quiet"]) == 0
    assert different(whole, pieces) == []


def test_train_with_workers_gives_the_same_numbers(tmp_path: Path) -> None:
    one = train(Counting, tmp_path / "one")
    table = {"id": Counting, "vectorization": "workers", "workers": 1}
    other = train(table, tmp_path / "other")
    assert different(one, other) == []


def test_train_on_a_local_function_resumes_with_the_function_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def make() -> Counting:
        return Counting()

    whole = train(make, tmp_path / "whole")
    pieces = train(make, tmp_path / "pieces", steps=150)
    assert td3.load_policy(pieces).evaluate(episodes=1).lengths == [7]
    forget()
    assert main(["resume", str(pieces), "--quiet"]) == 2
    assert f"td3.resume('{pieces}', environment=make_env)" in capsys.readouterr().err
    with pytest.raises(td3.UserError, match="pass its class"):
        td3.resume(pieces, environment=make())  # type: ignore[arg-type]
    td3.resume(pieces, steps=300, environment=make, quiet=True)
    assert different(whole, pieces) == []


def test_resume_command_takes_an_environment_that_moved_into_a_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def make() -> Counting:
        return Counting()

    whole = train(make, tmp_path / "whole")
    pieces = train(make, tmp_path / "pieces", steps=150)
    forget()
    resume = ["resume", str(pieces), "--steps", "300", "--quiet", "--environment"]
    for wrong, message in (
        ("Pendulum-v1", "must be module:name"),
        ("support.worker_tasks:Countin", "has no 'Countin'"),
        ("no_such_module:Env", "; td3 looks in the current folder and the installed packages."),
    ):
        assert main([*resume, wrong]) == 2
        assert message in capsys.readouterr().err
    assert main([*resume, "support.worker_tasks:Counting"]) == 0
    assert different(whole, pieces) == []


def test_train_on_a_list_trains_one_run_each(tmp_path: Path) -> None:
    given = [Counting, "Pendulum-v1", functools.partial(Counting, at=2)]
    runs = td3.train(given, run=tmp_path, **{**SMALL, "steps": 100})
    names = ["support.worker_tasks-Counting", "Pendulum-v1", "support.worker_tasks-Counting-2"]
    assert [run.folder for run in runs] == [tmp_path / name for name in names]
    assert [read_config(run.folder)[0].environment.kwargs for run in runs] == [{}, {}, {"at": 2}]


def test_train_on_a_list_is_refused_before_the_first_run(tmp_path: Path) -> None:
    with pytest.raises(td3.UserError, match="not 3"):
        td3.train(["Pendulum-v1", 3], run=tmp_path, **SMALL)  # type: ignore[list-item]
    assert list(tmp_path.iterdir()) == []


def test_train_logs_success_and_requested_numbers(tmp_path: Path) -> None:
    run = train({"id": Counting, "info": ["is_success", "pull"]}, tmp_path / "run")
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    trained = [record for record in records if record["kind"] == "train"]
    assert all(set(record["info"]) == {"is_success", "pull"} for record in trained)
    for record in trained:  # pull is the reward of a step
        per_step = record["episode_return"] / record["episode_length"]
        assert record["info"]["pull"] == pytest.approx(per_step)
    assert {record["success"] for record in records if record["kind"] == "evaluation"} <= {0, 1}


@pytest.mark.parametrize("limit", [0, 40])
def test_train_warns_once_of_episodes_that_never_end(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "ENDLESS", 50)
    table = {"id": PendulumEnv, "max_episode_steps": limit}
    run = train(table, tmp_path / "run", evaluation={"every": 300, "episodes": 1, "max_steps": 45})
    events = (run / "events.jsonl").read_text()
    assert events.count("has not ended an episode for 50 steps") == (limit == 0)
    assert td3.load_policy(run).evaluate(1, environment=PendulumEnv).lengths == [limit or 45]


def test_resume_with_other_spaces_is_refused(tmp_path: Path) -> None:
    run = train(lambda: Counting(), tmp_path / "run", steps=200)
    with pytest.raises(td3.UserError, match=r"does not fit .*lambda.* has another shape"):
        td3.resume(run, steps=300, environment=Continuous_MountainCarEnv, quiet=True)
