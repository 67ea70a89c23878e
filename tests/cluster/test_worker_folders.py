"""Temporary folders of workers that were killed."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from td3.cluster.worker import sweep, temporary_folder


def test_sweep_removes_folders_of_ended_workers_that_nobody_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = temporary_folder("run")
    ended = subprocess.Popen(["true"])
    while "Z" not in Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2]:
        time.sleep(0.01)
    for pid in (ended.pid, os.getpid()):
        (folder / f"0000-{pid}").mkdir(parents=True)
    sweep("run")
    assert [path.name for path in folder.iterdir()] == [f"0000-{os.getpid()}"]
    ended.wait()
