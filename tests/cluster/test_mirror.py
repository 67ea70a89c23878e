"""The copy of a run that trains: complete at any moment, every transition sent once."""

import json
from concurrent.futures import Future
from pathlib import Path

import pytest
from support.run_tools import StopAt, different, tiny, train_in_pieces

from td3.cluster.mirror import Mirror, newest_complete
from td3.cluster.pieces import Piece, file_pieces, folder_pieces, write_piece, write_pieces
from td3.cluster.storage import Storage
from td3.cluster.worker import Job, Worker
from td3.config import Config
from td3.errors import UserError
from td3.launch.session import open_training
from td3.run.folder import create


def train_until(config: Config, folder: Path, step: int) -> None:
    """Train from the newest checkpoint, if any, to this step, and save."""
    is_new = not folder.exists()
    if is_new:
        create(config, folder)
    stop = StopAt(step)
    with open_training(config, folder) as training:
        if not is_new:
            training.restore()
        training.on_step = stop
        training.loop(stop)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone") / "run"
    train_in_pieces(tiny(seeds=2), folder, [])
    return folder


def test_copy_at_a_checkpoint_continues_to_the_same_results(
    tmp_path: Path, uninterrupted: Path
) -> None:
    config, run, copy = tiny(seeds=2), tmp_path / "run", tmp_path / "copy"
    train_until(config, run, 250)
    mirror = Mirror(run)
    name = mirror.new_checkpoint()
    write_pieces(copy, mirror.checkpoint_pieces(name))
    assert (name, newest_complete(copy), mirror.new_checkpoint()) == ("000000250", 250, "")
    train_until(config, copy, 10_000)
    assert different(copy, uninterrupted) == []


def test_second_checkpoint_sends_only_new_files_and_removes_old_ones(tmp_path: Path) -> None:
    config, run, copy = tiny(), tmp_path / "run", tmp_path / "copy"
    train_until(config, run, 150)
    mirror, sent = Mirror(run), []
    for step in (250, 350):
        pieces = list(mirror.checkpoint_pieces(mirror.new_checkpoint()))
        write_pieces(copy, pieces)
        sent.append({own.path for own in pieces if own.data is not None and "replay" in own.path})
        train_until(config, run, step)
    write_pieces(copy, mirror.checkpoint_pieces(mirror.new_checkpoint()))
    assert sent[0]
    assert sent[1]
    assert not sent[0] & sent[1]
    steps = sorted(path.name for path in (copy / "checkpoints").iterdir())
    assert steps == ["000000250", "000000350"]
    assert not list(tmp_path.glob("*.snapshot"))


def test_copy_is_complete_after_every_piece(tmp_path: Path) -> None:
    config, run, copy = tiny(), tmp_path / "run", tmp_path / "copy"
    train_until(config, run, 150)
    mirror = Mirror(run)
    write_pieces(copy, mirror.checkpoint_pieces(mirror.new_checkpoint()))
    train_until(config, run, 250)
    seen = []
    for piece in mirror.checkpoint_pieces(mirror.new_checkpoint()):
        write_piece(copy, piece)
        seen.append(newest_complete(copy))
        assert (copy / "metrics.jsonl").read_bytes().endswith(b"\n")
    assert set(seen) == {150, 250}
    assert seen == sorted(seen)  # type: ignore[type-var]


def test_end_of_a_run_arrives_after_its_last_checkpoint(
    tmp_path: Path, uninterrupted: Path
) -> None:
    copy = tmp_path / "copy"
    events = uninterrupted / "events.jsonl"
    events.write_text(
        json.dumps({"event": "start"}) + "\n" + json.dumps({"event": "finish"}) + "\n"
    )
    mirror = Mirror(uninterrupted)
    write_pieces(copy, mirror.checkpoint_pieces(mirror.new_checkpoint()))
    assert "finish" not in (copy / "events.jsonl").read_text()
    write_pieces(copy, mirror.records(is_over=True))
    assert (copy / "events.jsonl").read_bytes() == events.read_bytes()


def test_large_files_travel_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("td3.cluster.pieces.PIECE", 7)
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    for name, data in {"a": b"", "b": b"1234567", "c": bytes(range(100))}.items():
        (one / name).write_bytes(data)
    pieces = list(folder_pieces(one))
    assert len(pieces) == 1 + 1 + 15
    write_pieces(other, pieces)
    for name in "abc":
        assert (other / name).read_bytes() == (one / name).read_bytes()
    write_pieces(other, list(file_pieces(one, "c"))[:-1])  # interrupted: the file stays
    assert (other / "c").read_bytes() == bytes(range(100))


@pytest.mark.parametrize("path", ["../x", "/tmp/x", "a/../../x"])
def test_piece_outside_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="not inside the folder"):
        write_piece(tmp_path / "run", Piece(path, b""))


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_storage_gives_the_newest_complete_checkpoint(
    tmp_path: Path, uninterrupted: Path, kind: str
) -> None:
    config, run = tiny(seeds=2), tmp_path / "run"
    storage = Storage("memory://td3" if kind == "memory" else str(tmp_path / "storage"))
    storage.check()
    assert storage.fetch("0000", tmp_path / "nothing") is None
    train_until(config, run, 150)
    mirror = Mirror(run)
    for step in (250, 350):
        storage.store("0000", mirror, mirror.new_checkpoint())
        train_until(config, run, step)
    name = mirror.new_checkpoint()
    for path in list(mirror.missing(name))[:-1]:  # all but the manifest: killed in between
        storage.put("0000", mirror.snapshot, path)
    copy = tmp_path / "copy"
    assert storage.fetch("0000", copy) == 250
    again = Mirror(copy, copied=True)
    again.checkpoints |= storage.before("0000", 250)
    train_until(config, copy, 350)
    storage.store("0000", again, again.new_checkpoint())
    assert list(again.checkpoints) == ["000000250", "000000350"]
    assert stored_files(storage, "0000") == {
        own for files in again.checkpoints.values() for own in files
    }
    train_until(config, copy, 10_000)
    assert different(copy, uninterrupted) == []


def stored_files(storage: Storage, name: str) -> set[str]:
    """The files of checkpoints in a storage."""
    root = f"{storage.root}/{name}/"
    found = [own for part in ("replay", "checkpoints") for own in storage.system.find(root + part)]
    return {own.removeprefix(root) for own in found}


def test_upload_that_fails_is_told_once_until_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    worker = Worker(Job("run", "0000", {}, str(tmp_path / "storage")))
    told = []
    for error in (None, OSError("disk full"), OSError("disk full"), None, OSError("disk full")):
        worker.upload = Future()
        worker.upload.set_exception(error) if error else worker.upload.set_result(None)
        told.append([own["record"]["message"] for own in worker.upload_notes()])
    message = f"cannot write to {tmp_path / 'storage'}: disk full; td3 tries again"
    assert told == [[], [message], [], [], [message]]
    worker.close()


def test_storage_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot write to --storage"):
        Storage(str(tmp_path / "file" / "inside")).check()
    with pytest.raises(UserError, match="Cannot open --storage nosuch://x"):
        Storage("nosuch://x")
