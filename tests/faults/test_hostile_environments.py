"""Whole runs with environments that misbehave: a clear message, the last checkpoint intact."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from support.run_tools import command, different, flags, tiny

from td3.run.checkpoint import newest_checkpoint

TASK = """
import ctypes, os, time
import torch
from gymnasium.envs.classic_control import PendulumEnv
TROUBLE, MARK = os.environ.get("TROUBLE", ""), "done"
class Odd(BaseException):
    pass
class Hostile(PendulumEnv):
    steps = 0
    def step(self, action):
        self.steps += 1
        state, reward, terminated, truncated, info = super().step(action)
        if self.steps == 230:
            if TROUBLE == "base exception":
                raise Odd("\\x1b[31mred")
            if TROUBLE == "exit":
                os._exit(0)
            if TROUBLE == "array":
                terminated = [False, False]
            if TROUBLE == "inference mode":
                self.mode = torch.inference_mode()
                self.mode.__enter__()
            if TROUBLE == "descriptors":
                os.closerange(3, 200)
            if TROUBLE == "hang":
                time.sleep(600)
            if TROUBLE == "hang in C":
                ctypes.CDLL(None).usleep(600_000_000)
        if self.steps == 50 and TROUBLE == "gradients":
            torch.set_grad_enabled(False)
        return state, reward, terminated, truncated, info
    def close(self):
        if TROUBLE == "close" and self.steps == 300:
            time.sleep(600)
"""
PLACE = "in environment 0 at step 230. Saved up to step 200. Continue with: td3 resume "
SLOW = "(if that may take so long, raise environment.patience) "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile")
    (made / "hostile.py").write_text(TASK)
    return made


def train(folder: Path, run: Path, trouble: str) -> "subprocess.CompletedProcess[str]":
    config = tiny(
        environment={"id": "hostile:Hostile", "patience": 1.5},
        loop={"steps": 300},
        evaluation={"max_steps": 100},
    )
    return subprocess.run(
        command("train", *flags(config), "--run", str(run), "--quiet"),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "TROUBLE": trouble},
        timeout=60,
    )


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (
            "base exception",
            r"hostile:Hostile raised Odd: \x1b[31mred (hostile.py, line 15) " + PLACE,
        ),
        ("exit", "hostile:Hostile called os._exit(0) " + PLACE),
        ("array", "hostile:Hostile returned terminated that is neither true nor false "),
        ("hang", f"hostile:Hostile has not returned from step for 1.5 s {SLOW}{PLACE}"),
        ("hang in C", f"hostile:Hostile has not returned from step for 1.5 s {SLOW}{PLACE}"),
        ("inference mode", "hostile:Hostile left PyTorch's inference mode on, in which nothing "),
        ("descriptors", "{run} lost its lock during training"),
    ],
)
def test_misbehaving_environment_is_named_and_the_run_continues_exactly(
    trouble: str, message: str, folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = train(folder, run, trouble)
    assert done.returncode == 1, done.stderr
    assert done.stderr.lstrip("\n").startswith("td3: " + message.replace("{run}", str(run)))
    assert len(done.stderr.splitlines()) <= 2
    assert "Traceback" not in done.stderr
    checkpoint = newest_checkpoint(run)
    assert checkpoint
    assert checkpoint.step == 200


def test_environment_that_turns_off_gradients_or_hangs_in_close_changes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)  # to compare the runs here
    for trouble in ("", "gradients", "close"):
        start = time.monotonic()
        done = train(folder, tmp_path / f"run {trouble}", trouble)
        assert (done.returncode, done.stderr) == (0, "")
        assert time.monotonic() - start < 300  # close sleeps for 600
    assert different(tmp_path / "run ", tmp_path / "run gradients") == []
    assert different(tmp_path / "run ", tmp_path / "run close") == []
