"""Output on a terminal of 80 columns, with colours and redrawing."""

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from td3.config import load_recipe
from td3.launch.progress import Display, open_display
from td3.signals import STOPPING


def seen(words: list[str], until: str = "", then: int = 0) -> tuple[str, int]:
    """Output and exit code of a command on a terminal; at the text `until` it gets a signal."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "td3", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    text = b""
    while True:
        if not select.select([ours], [], [], 60)[0]:
            process.kill()
            raise AssertionError(f"no output after {text.decode()}")
        try:
            text += os.read(ours, 4096)
        except OSError:  # the process has closed its end
            break
        if until and until.encode() in text:
            process.send_signal(then)
            until = ""
    os.close(ours)
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text.decode()), process.wait()


def test_mistake_on_terminal_prints_one_sentence() -> None:
    text, code = seen(["train", "Pendulum-v1", "--gamma", "0.9"])
    assert code == 2
    assert text.splitlines() == [
        "td3: Unknown option --gamma. Did you mean --agent.discount? See 'td3 train --help'."
    ]


SMALL = [
    "train",
    "Pendulum-v1",
    "--recipe",
    "quick",
    "--agent.hidden-sizes",
    "8",
    "--threads",
    "1",
    "--loop.random-steps",
    "100",
    "--evaluation.episodes",
    "1",
]


def test_doctor_prints_suggested_command_on_one_line() -> None:
    options = ["--environment.pixels", "--environment.resize", "16", "--environment.grey"]
    text, code = seen(["doctor", "Pendulum-v1", *options, "--steps", "20"])
    assert code == 0
    command = " ".join(["td3 train Pendulum-v1 --recipe pixels", *options])
    assert len(command) > 80
    assert f"  {command}" in text.splitlines()
    assert "0 errors, " in text


def test_train_prints_next_commands_on_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "a-folder-whose-name-is-longer-than-one-line-of-the-terminal" / "run"
    text, code = seen([*SMALL, "--steps", "120", "--run", str(folder)])
    assert code == 0
    lines = [line.partition("td3 ")[2] for line in text.splitlines()]
    for command in ("evaluate {} --episodes 100", "video {}", "plot {}", "report {}"):
        assert command.format(folder) in lines


def test_progress_bar_at_end_of_run_is_full(tmp_path: Path) -> None:
    text, code = seen([*SMALL, "--steps", "250", "--run", str(tmp_path / "run")])
    assert code == 0
    assert re.search(r"━ 100% 250/250 steps · took \d+ s", text)
    assert "Pendulum-v1 · seed 0\r\n" in text


def test_a_refused_run_leaves_no_bar_behind(tmp_path: Path) -> None:
    text, code = seen(["train", "Pendulm-v1", "--run", str(tmp_path / "run")])
    assert code == 2
    assert "took" not in text
    assert "Did you mean 'Pendulum-v1'?" in text


def test_stop_on_terminal_prints_no_extra_line(tmp_path: Path) -> None:
    words = [*SMALL, "--steps", "100000", "--run", str(tmp_path / "run")]
    text, code = seen(words, until="steps/s", then=signal.SIGINT)
    assert code == 130
    assert "Stopped. Continue with:" in text
    assert f"\n{STOPPING}\n" not in text.replace("\r", ""), "the display would overwrite this line"


@pytest.mark.parametrize("terminal", [False, True])
def test_stop_is_part_of_progress_display(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "is_terminal", terminal)
    screen = Console(width=80, file=io.StringIO())

    def drawn(shown: Display) -> str:
        with screen.capture() as captured:
            screen.print(shown.render())
        return captured.get()

    with open_display(load_recipe("quick"), quiet=False) as shown:
        assert shown is not None
        assert STOPPING not in drawn(shown)
        assert shown.stopping() is terminal
        assert STOPPING in drawn(shown)
