"""td3 learn: the list of lessons, a student's copy, and Jupyter."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from td3 import cli
from td3.lessons.catalog import lessons
from td3.lessons.progress import mark_done, progress_file


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TD3_HOME", str(tmp_path / "home"))


def test_learn_lists_all_lessons_with_progress(capsys: pytest.CaptureFixture[str]) -> None:
    mark_done(1)
    assert cli.main(["learn"]) == 0
    shown = capsys.readouterr().out
    assert all(own.title in shown for own in lessons())
    assert shown.count("min  done") == 1
    assert "Next:  td3 learn 2" in shown
    assert cli.main(["learn", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["number"] for row in rows if row["done"]] == [1]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"done": ["x"]}', '{"done": 3}'])
def test_learn_with_a_damaged_progress_file_starts_anew(content: str) -> None:
    progress_file().parent.mkdir()
    progress_file().write_text(content)
    assert cli.main(["learn"]) == 0
    mark_done(3)
    assert json.loads(progress_file().read_text()) == {"done": [3]}


def test_progress_follows_the_data_folder_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TD3_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert progress_file() == tmp_path / "data" / "td3" / "lessons.json"


def test_mark_done_without_a_place_to_write_prints_a_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress_file().parent.write_text("a file in the way")
    mark_done(1)
    assert "could not be stored" in capsys.readouterr().out


def test_learn_copies_a_lesson_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["learn", "5", "--no-open"]) == 0
    copy = Path("my-lessons/05-next-action.ipynb")
    assert json.loads(copy.read_text(encoding="utf-8"))["metadata"]["td3"]["number"] == 5
    copy.write_text("my own work")
    assert cli.main(["learn", "5", "--no-open"]) == 0
    assert copy.read_text() == "my own work"
    assert "Your copy" in capsys.readouterr().out


def test_learn_opens_jupyter_or_names_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []

    def start(command: list[str]) -> SimpleNamespace:
        started.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", start)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cli.main(["learn", "5"]) == 0
    assert "pip install 'td3[learn]'" in capsys.readouterr().out
    assert started == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert cli.main(["learn", "5"]) == 0
    path = str(Path("my-lessons/05-next-action.ipynb"))
    assert started == [[sys.executable, "-m", "jupyterlab", path]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["99"], "There is no lesson 99"),
        (["five"], "is not a whole number"),
        (["5", "--folder", "file"], "Cannot write file"),
        (["5", "--folder", "taken"], "is in the way"),
    ],
)
def test_learn_refuses_bad_input_with_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("")
    Path("taken/05-next-action.ipynb").mkdir(parents=True)
    assert cli.main(["learn", *words]) == 2
    assert sentence in capsys.readouterr().err
