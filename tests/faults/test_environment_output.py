"""What environments print, or put into messages, does not reach stdout or control the terminal."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.run_tools import command, flags, tiny

TASK = """
import ctypes, os, sys
from gymnasium.envs.classic_control import PendulumEnv
print("imported")
class Loud(PendulumEnv):
    steps = 0
    def reset(self, **options):
        print("python")
        os.write(1, b"descriptor\\n")
        ctypes.CDLL(None).puts(b"c code")
        return super().reset(**options)
    def step(self, action):
        self.steps += 1
        if self.steps == int(os.environ.get("FAIL_AT", "0")):
            raise ValueError("\\x1b]0;owned\\x07 \\x9b2J")
        return super().step(action)
"""


def train(folder: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    (folder / "loud.py").write_text(TASK)
    config = tiny(environment={"id": "loud:Loud"}, loop={"steps": 150})
    return subprocess.run(
        command("train", *flags(config), "--run", str(folder / "run"), *words),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **variables},
    )


WORKERS = ("--environment.vectorization", "workers")


@pytest.mark.parametrize("words", [(), WORKERS], ids=["own", "workers"])
def test_output_of_an_environment_goes_to_stderr(words: tuple[str, ...], tmp_path: Path) -> None:
    done = train(tmp_path, *words, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["exit_code"] == 0
    for text in ("imported", "python", "descriptor", "c code"):
        assert text in done.stderr
    run = str(tmp_path / "run")
    words = ("evaluate", run, "--environment", "loud:Loud", "--episodes", "1", "--json")
    done = subprocess.run(command(*words), capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout)["episodes"] == 1


def test_control_characters_of_an_environment_are_neutralised(tmp_path: Path) -> None:
    done = train(tmp_path, "--quiet", FAIL_AT="60")
    assert done.returncode == 1
    assert done.stdout == ""
    assert r"raised ValueError: \x1b]0;owned\x07 \x9b2J (" in done.stderr
    assert not set("\x1b\x07\x9b") & set(done.stderr)
