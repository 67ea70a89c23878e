"""td3 tune on the command line."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.run_tools import command

from td3.cli import main

OPTIONS = "--trials 5 --seeds 1 --rows 2 --steps 400 --evaluations 4 --episodes 1 --confirm 0"
SETTINGS = "--loop.random-steps 100 --agent.hidden-sizes 16 16 --agent.batch-size 16 --threads 1"
SMALL = f"tune Pendulum-v1 --recipe quick --device cpu {OPTIONS} {SETTINGS}".split(" ")


def result(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def interrupt(folder: Path, number: signal.Signals) -> int:
    """Start a search and send it a signal after its first trial ended; returns its exit code."""
    words = command(*SMALL, "--run", str(folder))
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            if line.lstrip().startswith("1/5"):
                process.send_signal(number)
    return process.wait()


def test_killed_and_interrupted_search_continues_to_results_of_uninterrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = result(capsys, *SMALL, "--run", str(tmp_path / "whole"))
    assert len(whole["trials"]) == 5
    assert Path(whole["recipe"]).is_file()
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        folder = tmp_path / number.name
        assert interrupt(folder, number) == code
        again = result(capsys, "tune", "--resume", str(folder))
        assert again["trials"] == whole["trials"]
        assert again["best"] == whole["best"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune"], "Name an environment"),
        (["tune", "Missing-v0", "--trials", "2"], "Missing"),
        (["tune", "Pendulum-v1", "--search", "none.toml"], "Cannot read none.toml"),
        (["tune", "Pendulum-v1", "--search", "wrong.toml"], "agent.tua"),
        (["tune", "Pendulum-v1", "--trials", "0"], "trials must be a whole number from 1"),
        (["tune", "Pendulum-v1", "--storage", "mysql"], "Cannot open --storage mysql"),
        (["tune", "--resume", "none"], "none does not exist"),
        (["tune", "Pendulum-v1", "--populations", "2"], "Leave out --populations: it works only"),
        (["tune", "Pendulum-v1", "--wait", "9m"], "Leave out --wait: it works only with --cluster"),
        (["tune", "Pendulum-v1", "--cluster", "local", "--wait", "x"], "wait must be a duration"),
        (["tune", "--resume", "."], "not the folder of a search"),
        (["tune", "--resume", ".", "--trials", "9"], "takes only --quiet, --json"),
        (["tune", "Pendulum-v1", "--grid", "agent.tau=0.1"], "no grid"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_leaves_no_folder(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.toml").write_text("[agent]\ntua = true\n")
    assert main(words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("td3: ")
    assert message in error
    assert list(tmp_path.glob("runs/*")) == []


def test_resume_of_a_search_names_the_right_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tune.toml").touch()
    assert main(["resume", str(tmp_path)]) == 2
    assert "td3 tune --resume" in capsys.readouterr().err


def test_short_help_lists_common_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--help"]) == 0
    text = capsys.readouterr().out
    for flag in ("--trials", "--seeds", "--search", "--shapes", "--storage", "--resume"):
        assert flag in text
