"""Closed streams, and folders that are changed, moved or deleted while a run uses them."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from support.run_tools import command, different, flags, tiny, train_in_pieces

from td3 import files
from td3.cli import main
from td3.errors import RunLost, RunStopped
from td3.launch.resume import resume
from td3.launch.session import open_training
from td3.launch.start import start
from td3.run.folder import create
from td3.signals import StopRequest


class Wandering(gym.Wrapper[Any, Any, Any, Any]):
    """Pendulum that goes to another folder whenever it is reset."""

    def __init__(self, folder: str) -> None:
        super().__init__(gym.make("Pendulum-v1").unwrapped)
        self.folder = folder

    def reset(self, **given: Any) -> Any:
        os.chdir(self.folder)
        return super().reset(**given)


gym.register("Wandering-v0", entry_point=Wandering, max_episode_steps=200)


def test_closed_standard_streams_do_not_become_files_of_the_run(tmp_path: Path) -> None:
    def close_streams() -> None:
        for number in range(3):
            os.close(number)

    run = tmp_path / "run"
    config = tiny(loop={"steps": 100_000})
    process = subprocess.Popen(
        command("train", *flags(config), "--run", str(run)), preexec_fn=close_streams
    )
    deadline = time.monotonic() + 60
    while not (run / "events.jsonl").exists() or "progress" not in (
        (run / "events.jsonl").read_text()
    ):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)  # writes a message to stderr
    assert process.wait(60) == 130
    for name in ("metrics.jsonl", "events.jsonl"):
        for line in (run / name).read_text().splitlines():
            json.loads(line)


def test_environment_that_changes_the_folder_does_not_move_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    settings = {"id": "Wandering-v0", "kwargs": {"folder": str(elsewhere)}}
    config = tiny(environment=settings, loop={"steps": 300}, threads=1)
    assert start(config, Path("run")) == (Path("run"), 0)
    folder, code = start(config)
    assert (folder.parent, code) == (Path("runs"), 0)
    assert Path.cwd() == tmp_path
    assert resume(Path("run"), steps=450) == resume(folder, steps=450) == 0
    assert different(Path("run"), folder) == []
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("kind", ["deleted", "moved", "replaced"])
def test_run_whose_folder_vanishes_is_not_reported_as_saved(kind: str, tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"

    def vanish(step: int) -> None:
        if step != 150:
            return
        if kind == "deleted":
            shutil.rmtree(run)
        else:
            run.rename(other)
        if kind == "replaced":
            create(tiny(), run)

    def add_fault(training: Any) -> None:
        training.on_step = vanish

    with pytest.raises(RunStopped) as caught:
        start(tiny(evaluation={"every": 1000}), run, on_training=add_fault)
    assert isinstance(caught.value.__cause__, RunLost)
    if kind == "deleted":
        assert str(caught.value) == (
            f"{run} was deleted during training, with everything that was saved in it."
        )
        assert not run.exists()
        return
    assert f"moved to {other} during training. Continue with: td3 resume {other}" in str(
        caught.value
    )
    if kind == "replaced":  # nothing was written into the folder of somebody else
        assert [path.name for path in run.iterdir()] == ["config.toml"]
    assert resume(other) == 0
    train_in_pieces(tiny(evaluation={"every": 1000}), tmp_path / "whole", [])
    assert different(tmp_path / "whole", other) == []


def test_every_new_folder_of_a_run_is_flushed_in_the_folder_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []
    mkdir, fsync = os.mkdir, os.fsync

    def record_mkdir(path: Any, *given: Any, **named: Any) -> None:
        mkdir(path, *given, **named)
        calls.append(("made", str(path)))

    def record_fsync(descriptor: int) -> None:
        fsync(descriptor)
        calls.append(("flushed", os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(os, "mkdir", record_mkdir)
    monkeypatch.setattr(os, "fsync", record_fsync)
    run = tmp_path / "new/folder/run"
    create(tiny(), run)
    with open_training(tiny(loop={"steps": 200}), run) as training:
        training.loop(StopRequest())
    made = [(k, path) for k, (kind, path) in enumerate(calls) if kind == "made"]
    assert {Path(path).name for _, path in made} >= {"new", "folder", "run", "replay", "policy"}
    for position, path in made:
        if files.TEMPORARY not in path:  # renamed, and flushed then
            assert ("flushed", str(Path(path).parent)) in calls[position:], path


def test_command_in_a_deleted_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(["train", *flags(tiny()), "--run", "run", "--quiet"]) == 2
    assert "The current folder was deleted" in capsys.readouterr().err
