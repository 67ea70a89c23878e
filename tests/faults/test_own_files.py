"""A run removes and overwrites only what it wrote itself."""

import shutil
from pathlib import Path

import pytest
from support.run_tools import different, tiny, train_in_pieces

from td3.errors import UserError
from td3.launch.start import resume


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 300 steps."""
    folder = tmp_path_factory.mktemp("own") / "run"
    train_in_pieces(tiny(loop={"steps": 300}), folder, [])
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


FOREIGN = [
    "checkpoints/notes.txt",
    "checkpoints/best/state.safetensors",
    "checkpoints/.writing-best/state.safetensors",
    "checkpoints/7/state.safetensors",
    "checkpoints/0000000007/state.safetensors",  # td3 writes no tenth digit that is 0
    "checkpoints/٠٠٠٠٠٠٩٠٠/state.safetensors",
    "checkpoints/²/state.safetensors",
    "checkpoints/000000200/notes.txt",
    "checkpoints/000000300/notes.txt",
    "checkpoints/000000900",
    "checkpoints/000000901/notes.txt",
    "checkpoints/.writing-000000350/notes.txt",
    "checkpoints/.writing-000000350/manifest.json/notes.txt",
    "replay/notes.txt",
    "replay/backup/000000100.rows",
    "replay/000000050.rows/notes.txt",
    "replay/٠٠٠٠٠٠٩٠٠.rows",
    "replay/000000100.rows.bak",
    "replay/.writing-notes",
]


def test_resume_and_later_saves_keep_files_that_td3_did_not_write(run: Path) -> None:
    for name in FOREIGN:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    (run / "checkpoints/latest").symlink_to("000000300")
    left_by_kill = [
        "checkpoints/000000901/manifest.json",
        "checkpoints/.writing-000000350/state.safetensors",
        "replay/000000060.rows",
        "replay/.writing-000000450.rows",
    ]
    for name in left_by_kill:
        (run / name).write_text("left by a kill")
    assert resume(run, steps=600) == 0
    kept = contents(run)
    assert {name: kept.get(name) for name in FOREIGN} == {n: n.encode() for n in FOREIGN}
    assert (run / "checkpoints/latest").is_symlink()
    assert not kept.keys() & set(left_by_kill)
    checkpoints = {path.parent.name for path in run.glob("checkpoints/*/manifest.json")}
    assert checkpoints == {".writing-000000350", "000000500", "000000600"}


def test_a_checkpoint_is_written_again_into_a_folder_with_a_file_of_the_user(
    run: Path, tmp_path: Path
) -> None:
    damaged = run / "checkpoints/000000300"
    (damaged / "state.safetensors").write_bytes(b"")
    (damaged / "notes.txt").write_text("mine")
    (run / "checkpoints/.writing-000000300").mkdir()
    (run / "checkpoints/.writing-000000300/todo.txt").write_text("mine too")
    train_in_pieces(tiny(loop={"steps": 350}), tmp_path / "whole", [])
    assert resume(run, steps=350) == 0
    assert different(tmp_path / "whole", run) == []
    assert (damaged / "notes.txt").read_text() == "mine"
    assert (damaged / "manifest.json").exists()
    assert (run / "checkpoints/.writing-000000300/todo.txt").read_text() == "mine too"


def test_a_folder_without_files_of_td3_does_not_count_as_a_checkpoint(run: Path) -> None:
    (run / "checkpoints/000000900").mkdir()
    (run / "checkpoints/000000900/notes.txt").write_text("mine")
    (run / "checkpoints/000000299").mkdir()
    (run / "checkpoints/000000299/notes.txt").write_text("mine")
    assert resume(run, steps=350) == 0
    checkpoints = {path.parent.name for path in run.glob("checkpoints/*/manifest.json")}
    assert checkpoints == {"000000300", "000000350"}


def test_a_linked_replay_folder_is_refused_and_nothing_in_it_is_removed(
    run: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(run / "replay", elsewhere)
    (elsewhere / "thesis.txt").write_text("mine")
    (elsewhere / "000000001.rows").write_text("of another run")
    before = contents(elsewhere)
    (run / "replay").symlink_to(elsewhere)
    with pytest.raises(UserError, match=r"run/replay is a symbolic link"):
        resume(run, steps=400)
    assert contents(elsewhere) == before
