"""Callbacks and stop conditions on the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from td3.cli import parse
from td3.cli.train import Arguments, default, resolve_config
from td3.config import Config, StopConfig
from td3.errors import UserError

MODULE = """
import numpy as np
import td3

class Halt(td3.Callback):
    def on_step(self, run):
        if run.step >= 150:
            return td3.STOP("150 steps are enough")

class Broken(td3.Callback):
    def on_checkpoint(self, run):
        return 1 / 0

class Loud(td3.Exploration):
    def draw(self, begins):
        return np.concatenate([stream.choice([-1.0, 1.0], self.shape) for stream in self.streams])
"""
SMALL = (
    "Pendulum-v1 --recipe quick --steps 400 --loop.random-steps 100 --evaluation.every 200 "
    "--evaluation.episodes 1 --checkpoint.every 200 --agent.hidden-sizes 16 16 --device cpu "
    "--threads 1"
)


def config_of(*words: str) -> Config:
    return resolve_config(parse(Arguments, "train", list(words), default(list(words))))


def td3(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder with the user's module."""
    (folder / "own_code.py").write_text(MODULE)
    return subprocess.run(
        [sys.executable, "-m", "td3", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )


def last_event(run: Path) -> dict[str, object]:
    event: dict[str, object] = json.loads((run / "events.jsonl").read_text().splitlines()[-1])
    return event


def test_callback_flag_can_be_repeated() -> None:
    assert config_of("--callback", "a:B", "--seeds", "2", "--callback", "c:D").callback == (
        "a:B",
        "c:D",
    )
    assert type(config_of()) is Config
    assert config_of().callback == ()


def test_stop_flags_fill_the_stop_table() -> None:
    words = ["--stop.at-return", "-200", "--stop.after", "1h30m", "--stop.patience", "5"]
    assert config_of(*words).stop == StopConfig(at_return=-200.0, after="1h30m", patience=5)


@pytest.mark.parametrize("flag", ["--callback", "--stop.after"])
def test_flag_without_value_shows_an_example(flag: str) -> None:
    with pytest.raises(UserError, match=rf"{flag} needs a value, e\.g\. {flag} "):
        default([flag, "--seeds", "2"])


def test_run_stopped_by_a_callback_exits_0_and_resumes_with_it(tmp_path: Path) -> None:
    words = [*SMALL.split(), "--callback", "own_code:Halt", "--run", "run"]
    words += ["--loop.exploration", "own_code:Loud"]
    done = td3(tmp_path, "train", *words)
    assert done.returncode == 0, done.stderr
    assert "Stopped at step 150: 150 steps are enough. Continue with: td3 resume run" in done.stderr
    assert last_event(tmp_path / "run")["reason"] == "150 steps are enough"
    assert td3(tmp_path, "resume", "run", "--quiet").returncode == 0
    assert last_event(tmp_path / "run")["step"] == 151


def test_run_stopped_by_a_condition_continues_with_ignore_stop(tmp_path: Path) -> None:
    words = [*SMALL.split(), "--stop.at-return", "-99999", "--run", "run"]
    done = td3(tmp_path, "train", *words)
    assert done.returncode == 0, done.stderr
    assert "Continue with: td3 resume run --ignore-stop" in done.stderr
    done = td3(tmp_path, "resume", "run", "--quiet", "--ignore-stop")
    assert (done.returncode, done.stdout) == (0, "run\n")
    assert last_event(tmp_path / "run")["event"] == "finish"


def test_failing_callback_exits_1_with_one_sentence(tmp_path: Path) -> None:
    words = [*SMALL.split(), "--callback", "own_code:Broken", "--run", "run", "--quiet"]
    done = td3(tmp_path, "train", *words)
    assert done.returncode == 1
    assert done.stderr == (
        "td3: The callback Broken.on_checkpoint raised ZeroDivisionError: division by zero "
        "(own_code.py, line 12). Saved up to step 200. Continue with: td3 resume run\n"
    )


def test_missing_callback_exits_2_without_a_folder(tmp_path: Path) -> None:
    done = td3(tmp_path, "train", *SMALL.split(), "--callback", "own_code:Hlat", "--run", "run")
    assert done.returncode == 2
    assert "callback: own_code has no 'Hlat'. Did you mean 'Halt'?" in done.stderr
    assert not (tmp_path / "run").exists()
