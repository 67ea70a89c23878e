"""The lock of a run folder: who gets it, and what ends it."""

import os
import shutil
from pathlib import Path

import pytest

from td3.errors import RunBusy, RunLost
from td3.run import lock
from td3.run.lock import lock_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_second_process_is_refused_after_the_lock_file_was_deleted(folder: Path) -> None:
    with lock_run(folder):
        with (
            pytest.raises(RunBusy, match=f"in use by process {os.getpid()}; stop"),
            lock_run(folder),
        ):
            pass
        (folder / ".lock").unlink()
        with pytest.raises(RunBusy, match="in use by another process; stop"), lock_run(folder):
            pass
    with lock_run(folder) as held:
        held.check()


def test_forked_child_does_not_keep_the_lock(folder: Path) -> None:
    ready, done = os.pipe(), os.pipe()
    with lock_run(folder):
        child = os.fork()
        if child == 0:
            try:
                os.write(ready[1], b".")
                os.read(done[0], 1)
            finally:
                os._exit(0)
        os.read(ready[0], 1)
        with pytest.raises(RunBusy), lock_run(folder):
            pass
    with lock_run(folder):  # the child still runs
        pass
    os.write(done[1], b".")
    assert os.waitpid(child, 0)[1] == 0
    for descriptor in (*ready, *done):
        os.close(descriptor)


def test_check_reports_a_deleted_a_moved_and_a_replaced_folder(folder: Path) -> None:
    with lock_run(folder) as held:
        moved = folder.rename(folder.with_name("my other run"))
        with pytest.raises(RunLost, match=r"moved to .*/my other run .* td3 resume '.*other run'"):
            held.check()
        folder.mkdir()
        with pytest.raises(RunLost, match="moved to"):
            held.check()
        shutil.rmtree(moved)
        with pytest.raises(RunLost, match="run was deleted during training"):
            held.check()
        folder.rmdir()
        with pytest.raises(RunLost, match="run was deleted during training"):
            held.check()


def test_check_reports_a_descriptor_that_an_environment_closed(folder: Path) -> None:
    others = set(lock.descriptors)
    with lock_run(folder) as held:
        os.close(held.own)
        with pytest.raises(RunLost, match="lost its lock during training"):
            held.check()
    assert lock.descriptors == others


def test_file_is_locked_where_folders_cannot_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS. Then the identity of the file is checked too."""
    original = lock.take
    monkeypatch.setattr(lock, "take", lambda d: os.path.isfile(f"/dev/fd/{d}") and original(d))
    with lock_run(folder) as held:
        with pytest.raises(RunBusy), lock_run(folder):
            pass
        held.check()
        (folder / ".lock").unlink()
        with lock_run(folder), pytest.raises(RunLost, match=r"\.lock was removed"):
            held.check()
