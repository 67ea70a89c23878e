"""Ctrl-C, SIGTERM and SIGHUP at any moment: the run saves, stops within seconds, and resumes."""

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.run_tools import command, different, flags, tiny, train_in_pieces

from td3.launch.session import open_training
from td3.policy.policy import Policy
from td3.run.checkpoint import newest_checkpoint
from td3.run.folder import create
from td3.signals import StopRequest
from td3.training import background_evaluation
from td3.training.loop_evaluation import GaveUp

LIMIT = 8.0  # seconds from the signal to the exit, on a busy machine


def events(folder: Path) -> list[str]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines]


# Each evaluation of two agents takes 400 actions: 1 is at step 0, 2 at step 150, 5 at the end.
@pytest.mark.parametrize("action", [30, 500, 700, 1999])
def test_stop_during_evaluation_saves_and_resumes_exactly(
    action: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, request, acted = tiny(seeds=2), StopRequest(), 0
    train_in_pieces(config, tmp_path / "whole", [])
    original = Policy.act

    def act(*given: object) -> object:
        nonlocal acted
        acted += 1
        request.signal = 2 if acted == action else request.signal
        return original(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(Policy, "act", act)
    with open_training(config, create(config, tmp_path / "run")) as training:
        training.loop(request)
        assert acted == action
        assert training.evaluations.step == training.saved_at == training.step
    with open_training(config, tmp_path / "run") as training:
        assert training.restore() == []
        training.loop(StopRequest())
    assert different(tmp_path / "whole", tmp_path / "run") == []


# The results of step 150 are awaited at step 300; the last step waits for 450 and for itself.
@pytest.mark.parametrize("wait", [1, 2, 4, 5])
def test_stop_while_waiting_for_background_evaluation_resumes_exactly(
    wait: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_evaluation, "in_background", lambda device: True)
    config, request, waits = tiny(), StopRequest(), 0
    train_in_pieces(config, tmp_path / "whole", [])
    original = background_evaluation.wait_for

    def wait_for(future: object, give_up: object) -> object:
        nonlocal waits
        waits += 1
        if waits == wait:
            request.signal = 2
        if waits >= wait and request.signal:
            raise GaveUp
        return original(future, give_up)  # type: ignore[arg-type]

    monkeypatch.setattr(background_evaluation, "wait_for", wait_for)
    with open_training(config, create(config, tmp_path / "run")) as training:
        training.loop(request)
        assert training.saved_at == training.step == min(600, 150 * wait)
        request.signal = 0
    with open_training(config, tmp_path / "run") as training:
        assert training.restore() == []
        training.loop(StopRequest())
    assert different(tmp_path / "whole", tmp_path / "run") == []


def wait_for_file(path: Path, process: "subprocess.Popen[bytes]") -> None:
    limit = time.monotonic() + 60
    while not list(path.parent.glob(path.name)):
        assert time.monotonic() < limit
        assert process.poll() is None
        time.sleep(0.02)


def test_ctrl_c_during_a_long_evaluation_exits_within_seconds(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    config = tiny(evaluation={"episodes": 100_000})
    words = command("train", *flags(config), "--run", str(folder), "--quiet")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for_file(folder / "events.jsonl", process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, problem = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, problem.decode()
    assert b"Traceback" not in problem
    assert events(folder) == ["start", "stop"]


@pytest.mark.parametrize("quiet", [True, False])
def test_closed_terminal_saves_before_the_run_ends(quiet: bool, tmp_path: Path) -> None:
    """The kernel sends SIGHUP to the run and to its workers, and every write fails from then on."""
    folder = tmp_path / "run"
    config = tiny(
        loop={"steps": 500_000},
        environment={"count": 2, "vectorization": "workers", "workers": 2},
        checkpoint={"every": 400},
    )
    words = command("train", *flags(config), "--run", str(folder), *["--quiet"] * quiet)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    limit = time.monotonic() + 60
    os.set_blocking(terminal, False)
    while not list((folder / "checkpoints").glob("[0-9]*")):
        assert time.monotonic() < limit
        try:
            os.read(terminal, 100_000)
        except BlockingIOError:
            time.sleep(0.02)
    os.close(terminal)
    limit = time.monotonic() + LIMIT
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
        assert time.monotonic() < limit
        time.sleep(0.02)
    assert os.waitstatus_to_exitcode(ended[1]) == 129
    assert events(folder)[-1] == "stop"
    checkpoint = newest_checkpoint(folder)
    assert checkpoint is not None
    assert checkpoint.step > 0
    lines = (folder / "events.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == checkpoint.step


def test_ignored_hangup_stays_ignored_as_with_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)


def test_hangup_after_another_signal_does_not_exit_at_once() -> None:
    with StopRequest(lambda: True) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.exit_code == 143
