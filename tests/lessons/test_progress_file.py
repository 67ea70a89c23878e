"""The file of finished lessons, which may be damaged or something else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from td3.lessons.progress import done_lessons, mark_done, progress_file

KINDS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "deep": lambda path: path.write_text("[" * 100_000),
    "list": lambda path: path.write_text("[1]"),
    "digits": lambda path: path.write_text('{"done": [%s]}' % ("9" * 5000)),
    "infinity": lambda path: path.write_text('{"done": [1e999]}'),
    "text": lambda path: path.write_text('{"done": "123"}'),
    "null": lambda path: path.write_text('{"done": null}'),
    "no UTF-8": lambda path: path.write_bytes(b"\xff\xfe"),
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TD3_HOME", str(tmp_path))
    return progress_file()


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_progress_counts_as_empty_and_is_replaced(kind: str, file: Path) -> None:
    KINDS[kind](file)
    assert done_lessons() == set()
    mark_done(3)
    assert done_lessons() == {3}


def test_progress_that_cannot_be_stored_leaves_no_other_file(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.mkdir()
    mark_done(3)
    assert "could not be stored" in capsys.readouterr().out
    assert [path.name for path in file.parent.iterdir()] == [file.name]
