"""A full disk: training continues, nothing is lost, and the message names file and bytes."""

import json
import time
from pathlib import Path

import pytest
from support.faulty_disk import FaultyDisk
from support.run_tools import different, tiny, train_in_pieces

from td3.cli import main
from td3.config import CheckpointConfig
from td3.errors import RunStopped
from td3.launch.resume import resume
from td3.launch.session import open_training
from td3.launch.start import start
from td3.run.folder import create
from td3.signals import StopRequest
from td3.training.saving import SaveTimes

FULL = r"Cannot write .*: No space left on device; it needs [\d,]+ bytes, [\d,]+ are free"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run without any fault."""
    folder = tmp_path_factory.mktemp("full") / "whole"
    train_in_pieces(tiny(threads=1), folder, [])
    return folder


def remarks_of(run: Path) -> list[str]:
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return [event["message"] for event in events if event["event"] == "warning"]


@pytest.mark.parametrize("room", [0, 100, 3_000, 10_000])
def test_run_continues_while_the_disk_is_full_and_loses_nothing(
    room: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From step 140 to 360 only `room` bytes can be written: no checkpoint, record or policy."""
    run = create(tiny(threads=1), tmp_path / "run")
    disk = FaultyDisk(monkeypatch, run)
    with open_training(tiny(threads=1), run) as training:

        def fill_disk(step: int) -> None:
            if step in (140, 360):
                disk.room = room if step == 140 else None

        training.on_step = fill_disk
        training.loop(StopRequest())
    monkeypatch.undo()
    assert different(whole, run) == []
    remarks = remarks_of(run)
    assert len(remarks) == 3  # at steps 200 and 300, and when it works again
    assert all(" Training continues, and the next checkpoint tries again" in r for r in remarks[:2])
    assert remarks[-1].startswith("Saved again, after ")


def test_run_stops_with_file_and_bytes_after_the_time_to_retry(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    disk = FaultyDisk(monkeypatch, run)
    config = tiny(threads=1, checkpoint={"retry_for": ""})

    def fill_disk(step: int) -> None:
        if step == 250:
            disk.room = 500

    with pytest.raises(
        RunStopped, match=FULL + r"\. Saved up to step 200\. Continue with: td3 res"
    ):
        start(config, run, on_training=lambda training: setattr(training, "on_step", fill_disk))
    assert "metrics.jsonl" in disk.log[-1][1] or len(disk.log) > 10
    monkeypatch.undo()
    assert resume(run) == 0
    assert different(whole, run) == []


def test_last_checkpoint_is_not_silently_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    disk = FaultyDisk(monkeypatch, run)

    def fill_disk(step: int) -> None:
        if step == 590:
            disk.room = 0

    with pytest.raises(RunStopped, match=FULL + r"\. Saved up to step 500"):
        start(tiny(), run, on_training=lambda training: setattr(training, "on_step", fill_disk))


def test_commands_on_a_full_disk_name_the_file(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = FaultyDisk(monkeypatch, tmp_path)
    disk.room = 0
    assert main(["train", "Pendulum-v1", "--recipe", "quick", "--run", str(tmp_path / "run")]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert f"Cannot write to {tmp_path}/run: No space left on device" in error


def test_save_times_give_up_after_retry_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    times = SaveTimes(CheckpointConfig(after="5s", retry_for="1m"))
    error = OSError(28, "No space left on device; it needs 5 bytes", "/run/state")
    assert not times.due
    now = 105.0
    assert times.due
    assert times.failed(error).startswith(
        "Cannot write /run/state: No space left on device; it needs 5 bytes. Training continues"
    )
    assert not times.due
    now = 150.0
    assert "within 15 s" in times.failed(error)
    assert times.saved() == "Saved again, after 45 s"
    assert times.saved() == ""
    now = 200.0
    assert "within 1 min" in times.failed(error)
    now = 260.0
    assert times.failed(error) == ""


def test_run_that_saves_by_time_has_the_same_results(whole: Path, tmp_path: Path) -> None:
    config = tiny(threads=1, checkpoint={"after": "0.02s"})
    create(config, tmp_path / "run")
    steps = []
    with open_training(config, tmp_path / "run") as training:
        training.on_step = lambda step: steps.append(training.saved_at)
        training.loop(StopRequest())
    assert len(set(steps)) > 10
    assert different(whole, tmp_path / "run") == []
