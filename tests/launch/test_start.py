"""What is refused before a run starts, and what it says about its task."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support.run_tools import RecordingDisplay, tiny

from td3.cli.outcome import ranking
from td3.config import Config
from td3.environments.simulators import describe_outdated
from td3.errors import UserError
from td3.launch import resume as resuming
from td3.launch import start as starting
from td3.launch.resume import resume
from td3.launch.start import start


def not_called(config: Config) -> Any:
    raise AssertionError("the environment is made before the folder is checked")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (
            "config.toml",
            "a run already contains a run. Continue it: td3 resume 'a run', or choose another "
            "folder.",
        ),
        ("notes.txt", "a run exists and is not an empty folder; choose another one with --run."),
    ],
)
def test_start_refuses_a_used_folder_before_it_makes_the_environment(
    file: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(starting, "set_up", not_called)
    (tmp_path / "a run").mkdir()
    (tmp_path / "a run" / file).touch()
    with pytest.raises(UserError) as refused:
        start(tiny(), Path("a run"))
    assert str(refused.value) == message


def test_resume_of_a_finished_run_names_it_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start(tiny(loop={"steps": 120}), Path("runs/x"))
    with pytest.raises(UserError) as refused:
        resume(Path("runs/x"))
    assert str(refused.value) == (
        "runs/x is finished (120 steps). To train longer: td3 resume runs/x --steps 240"
    )
    monkeypatch.setattr(resuming, "set_up", not_called)
    with pytest.raises(UserError) as refused:
        resume(Path("runs/x"), steps=90)  # fewer than the random steps
    assert str(refused.value) == "runs/x already has 120 steps; give --steps a larger number."
    with pytest.raises(AssertionError, match="the environment is made"):
        resume(Path("runs/x"), steps=90, at=60)


@pytest.mark.parametrize(
    ("env_id", "text"),
    [
        ("HalfCheetah-v4", "HalfCheetah-v4 is outdated; use HalfCheetah-v5."),
        ("HalfCheetah-v5", ""),
        ("Pendulum-v1", ""),
        ("Pendulum", ""),
        ("NoSuchTask-v0", ""),
        ("my_module:make_env", ""),
    ],
)
def test_describe_outdated_names_the_newest_version(env_id: str, text: str) -> None:
    assert describe_outdated(env_id) == text


@pytest.mark.filterwarnings("error")
def test_start_on_an_outdated_task_says_so_in_one_line(tmp_path: Path) -> None:
    screen: Any = RecordingDisplay()
    config = tiny(loop={"steps": 120})
    task = dataclasses.replace(config.environment, id="HalfCheetah-v4")
    start(dataclasses.replace(config, environment=task), tmp_path / "run", screen)
    assert "HalfCheetah-v4 is outdated; use HalfCheetah-v5." in screen.messages


def test_ranking_of_a_grid_does_not_promise_ten_evaluations(tmp_path: Path) -> None:
    config = tiny(loop={"steps": 120})
    start(dataclasses.replace(config, grid={"agent.tau": (0.01, 0.1)}), tmp_path / "run")
    assert ranking(tmp_path / "run")[1] == "Mean of the last evaluations (at most ten):"
