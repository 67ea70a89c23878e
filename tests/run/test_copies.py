"""Checkpoints that are kept, copied and gone back to."""

import json
import os
import shutil
from pathlib import Path

import pytest
from support.faulty_disk import FaultyDisk
from support.run_tools import different, tiny, train_in_pieces

import td3
from td3.cli import main
from td3.errors import UserError
from td3.launch.resume import resume
from td3.launch.session import open_training
from td3.launch.start import start
from td3.policy.load import load_policy
from td3.run import copies
from td3.run.copies import copy_run, kept_runs
from td3.run.folder import create
from td3.run.manifest import by_step


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 600 steps that keeps the checkpoints of steps 300 (first after 250) and 500."""
    folder = tmp_path_factory.mktemp("copies") / "run"
    train_in_pieces(tiny(threads=1, checkpoint={"keep_every": 250}), folder, [270])
    return folder


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    shutil.copytree(run, tmp_path / "copy")
    return tmp_path / "copy"


def test_kept_checkpoint_is_a_run_folder_that_ends_as_the_run(run: Path, tmp_path: Path) -> None:
    assert list(kept_runs(run)) == [300, 500]
    for step, folder in kept_runs(run).items():
        moved = tmp_path / str(step)
        shutil.copytree(folder, moved)  # as `cp -r` does
        load_policy(moved)
        assert resume(moved) == 0
        assert different(run, moved) == []


def test_kept_checkpoint_shares_its_files_with_the_run_without_more_space(tmp_path: Path) -> None:
    config = tiny(threads=1, loop={"steps": 300}, checkpoint={"keep_every": 100})
    train_in_pieces(config, tmp_path / "run", [])
    for name in ("replay/000000200.rows", "checkpoints/000000300/state.safetensors"):
        own, kept = tmp_path / "run" / name, tmp_path / "run/kept/000000300" / name
        assert os.path.samefile(own, kept)


@pytest.mark.parametrize("name", ["policy/agent-0.safetensors", "events.jsonl"])
def test_copy_and_resume_at_refuse_what_is_no_file_or_too_large(
    name: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.truncate(copy / name, 2**40)
    for _ in range(2):
        for words in (["resume", str(copy), "--at", "500"], ["copy", str(copy), str(copy) + "2"]):
            assert main(words) == 2
            assert name in "".join(capsys.readouterr().err.split())
        (copy / name).unlink()
        os.mkfifo(copy / name)


def test_file_system_without_links_gets_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    config = tiny(threads=1, loop={"steps": 300}, checkpoint={"keep_every": 200})
    train_in_pieces(config, tmp_path / "run", [])
    assert resume(tmp_path / "run/kept/000000200") == 0
    assert different(tmp_path / "run", tmp_path / "run/kept/000000200") == []


@pytest.mark.parametrize("step", [300, 500])
def test_resume_at_a_step_continues_from_there_and_loses_nothing(
    step: int, run: Path, copy: Path, tmp_path: Path
) -> None:
    policies = {p.name: p.read_bytes() for p in (copy / "policy").iterdir()}
    assert main(["resume", str(copy), "--at", str(step), "--quiet"]) == 0
    events = [json.loads(line) for line in (copy / "events.jsonl").read_text().splitlines()]
    assert [e["step"] for e in events if e["event"] == "resume"][-1] == step
    assert different(run, copy) == []
    before = copy / "aside/000000600"  # a run folder of its own
    assert different(run, before) == []
    assert {p.name: p.read_bytes() for p in (before / "policy").iterdir()} == policies
    remarks = [e["message"] for e in events if e["event"] == "warning"]
    assert remarks == [f"continued from step {step} on request; the run as it was is now {before}"]
    assert list(kept_runs(copy)) == [300, 500]


def test_resume_at_a_step_with_other_settings_makes_a_branch(run: Path, copy: Path) -> None:
    settings = copy / "config.toml"
    settings.write_text(settings.read_text().replace("tau = 0.005", "tau = 0.05"))
    assert resume(copy, at=300) == 0
    assert different(run, copy) != []
    assert different(run, copy / "aside/000000600") == []
    assert resume(copy, at=300) == 0  # and once more
    assert (copy / "aside/000000600.2/config.toml").is_file()


def test_unknown_step_is_refused_with_the_known_ones(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["resume", str(copy), "--at", "400"], ["copy", str(copy), "x", "--at", "400"]):
        assert main(words) == 2
        message = " ".join(capsys.readouterr().err.split())
        assert "has no checkpoint of step 400; it has: 300, 500, 600." in message


@pytest.mark.parametrize(
    "damaged", ["replay/000000300.rows", "checkpoints/000000300/manifest.json"]
)
def test_resume_at_a_damaged_checkpoint_is_refused_and_changes_nothing(
    damaged: str, run: Path, copy: Path
) -> None:
    (copy / "kept/000000300" / damaged).write_bytes(b"x")
    with pytest.raises(UserError, match=r"kept/000000300/checkpoints/000000300 is damaged: "):
        resume(copy, at=300)
    assert not (copy / "aside").exists()
    assert different(run, copy) == []


@pytest.mark.parametrize("at", [None, 500, 300])
def test_copy_command_writes_a_complete_run(
    at: int | None, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new/copy of it"
    words = [] if at is None else ["--at", str(at)]
    assert main(["copy", str(run), str(target), "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out) == {"run": str(target), "step": at or 600}
    assert [int(folder.name) for folder in by_step(target)] == [at or 600]
    if at:
        assert resume(target) == 0
    assert different(run, target) == []
    with pytest.raises(UserError, match="exists; choose another folder"):
        copy_run(run, target)


def test_copy_from_python_returns_the_new_run(run: Path, tmp_path: Path) -> None:
    copy = td3.load_run(run).copy(tmp_path / "copy", at=300)
    assert copy.folder == tmp_path / "copy"
    assert td3.resume(copy, quiet=True).evaluations["step"][-1] == 600
    assert different(run, copy.folder) == []


def test_copy_of_a_damaged_checkpoint_is_refused(copy: Path, tmp_path: Path) -> None:
    (copy / "checkpoints/000000600/state.safetensors").write_bytes(b"x")
    with pytest.raises(
        UserError, match=r"step 600 .* cannot be copied: state\.safetensors has 1 b"
    ):
        copy_run(copy, tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_copy_to_a_full_disk_leaves_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    FaultyDisk(monkeypatch, tmp_path).room = 20_000
    assert main(["copy", str(run), str(tmp_path / "target")]) == 2
    assert "No space left on device; it needs" in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def test_copy_during_training_waits_for_a_checkpoint_that_stays(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = copies.copy_checkpoint, 0

    def vanishing(*given: object, **named: object) -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise FileNotFoundError
        original(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(copies, "copy_checkpoint", vanishing)
    assert copy_run(run, tmp_path / "target") == 600


def test_failure_to_keep_a_checkpoint_is_reported_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(threads=1, checkpoint={"keep_every": 200})
    run = create(config, tmp_path / "run")
    disk = FaultyDisk(monkeypatch, run / "kept")
    from td3.signals import StopRequest

    with open_training(config, run) as training:

        def fill_disk(step: int) -> None:
            disk.room = 0 if step < 250 else None

        training.on_step = fill_disk
        training.loop(StopRequest())
    assert list(kept_runs(run)) == [300, 400, 600]
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    remarks = [e["message"] for e in events if e["event"] == "warning"]
    assert "Cannot write" in remarks[0]
    assert "kept/.writing-000000200" in remarks[0]


def test_linked_kept_folder_is_refused(copy: Path, tmp_path: Path) -> None:
    shutil.move(copy / "kept", tmp_path / "elsewhere")
    (copy / "kept").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="kept is a symbolic link"):
        resume(copy, steps=700)


def test_disk_is_checked_for_all_kept_transitions(tmp_path: Path) -> None:
    huge = {"steps": 10**13, "replay_size": 400}
    with pytest.raises(UserError, match="make room"):
        start(tiny(loop=huge, checkpoint={"keep_every": 10**6}), tmp_path / "run")
