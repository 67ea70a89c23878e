"""A run removes and overwrites only what it wrote itself."""

import os
import shutil
from pathlib import Path

import pytest
from support.run_tools import different, tiny, train_in_pieces

from td3 import files
from td3.algorithm.images.frame_storage import allocate_on_disk
from td3.cli import main
from td3.errors import UserError
from td3.launch.resume import resume
from td3.launch.start import start
from td3.policy.load import load_policy
from td3.run.manifest import Invalid, read_manifest
from td3.run.memory import IMAGES_FILE


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
    assert len(list(run.glob("checkpoints/*/notes.txt"))) == 2


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


def test_resume_refuses_a_folder_in_place_of_a_replay_file_and_leaves_it_alone(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run / "replay/000000050.rows"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    before = contents(run)
    assert main(["resume", str(run), "--steps", "400", "--quiet"]) == 2
    assert f"{folder} is in the way: td3 needs a regular file" in unwrapped(capsys.readouterr().err)
    assert {**contents(run), ".lock": b""} == {**before, ".lock": b""}


LINKED_FILES = [
    ".lock",
    "config.toml",
    ".writing-config.toml",
    "metrics.jsonl",
    "events.jsonl",
    IMAGES_FILE,
    "policy/agent-0.safetensors",
    "policy/.writing-agent-0.safetensors",
    "checkpoints/000000300/manifest.json",
    "checkpoints/000000300/state.safetensors",
    "checkpoints/.writing-000000400/state.safetensors",
    "replay/000000300.rows",
    "replay/.writing-000000400.rows",
]
LINKED_FOLDERS = [
    "checkpoints",
    "checkpoints/000000200",
    "checkpoints/000000300",
    "checkpoints/.writing-000000400",
    "checkpoints/000000400",
    "replay",
    "policy",
]


def refused(capsys: pytest.CaptureFixture[str], run: Path, link: Path) -> None:
    capsys.readouterr()
    assert main(["resume", str(run), "--steps", "400", "--quiet"]) == 2
    assert f"{link} is a symbolic link; td3 writes only to" in unwrapped(capsys.readouterr().err)


def unwrapped(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", LINKED_FILES)
def test_resume_refuses_a_linked_file_and_leaves_its_target_alone(
    name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link, target = run / name, tmp_path / "target"
    link.parent.mkdir(exist_ok=True)
    if link.exists():
        shutil.move(link, target)
    else:
        target.write_bytes(b"mine")
    link.symlink_to(target)
    before, others = target.read_bytes(), contents(run)
    refused(capsys, run, link)
    assert target.read_bytes() == before
    assert link.is_symlink()
    assert {**contents(run), ".lock": b""} == {**others, ".lock": b""}


@pytest.mark.parametrize("name", LINKED_FILES)
def test_resume_creates_nothing_at_the_end_of_a_dangling_link(
    name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = run / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "target")
    if name == "config.toml":  # there is no run without it
        assert main(["resume", str(run), "--steps", "400", "--quiet"]) == 2
    else:
        refused(capsys, run, link)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("name", LINKED_FOLDERS)
def test_resume_refuses_a_linked_folder_and_leaves_its_target_alone(
    name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link, target = run / name, tmp_path / "target"
    if link.exists():
        shutil.move(link, target)
    else:
        target.mkdir()
        (target / "state.safetensors").write_text("mine")
    link.symlink_to(target)
    before = contents(target)
    refused(capsys, run, link)
    assert contents(target) == before
    assert link.is_symlink()


def test_a_link_that_appears_during_training_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write checks again: here the link comes after the check at the start."""
    target = tmp_path / "target"
    target.write_text("mine")
    original = files.JsonLines.length

    def link_then_length(lines: files.JsonLines) -> int:
        (tmp_path / "run/replay").mkdir(exist_ok=True)
        (tmp_path / "run/replay/.writing-000000100.rows").symlink_to(target)
        return original(lines)

    monkeypatch.setattr(files.JsonLines, "length", link_then_length)
    with pytest.raises(UserError, match=r"\.writing-000000100\.rows is a symbolic link"):
        start(tiny(), tmp_path / "run")
    assert target.read_text() == "mine"


def test_each_way_to_write_refuses_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("mine")
    link.symlink_to(target)
    (tmp_path / "new").write_text("new")
    writers = [
        lambda: files.write_durably(link, [b"x"]),
        lambda: files.replace_file(link, b"x"),
        lambda: files.rename(tmp_path / "new", link),
        lambda: files.JsonLines(link),
        lambda: files.make_folder(link),
        lambda: allocate_on_disk(link, (10, 10)),
    ]
    for write in writers:
        with pytest.raises(UserError, match="link is a symbolic link"):
            write()
    files.remove(link)
    assert link.is_symlink()
    assert target.read_text() == "mine"


def test_a_run_folder_may_be_reached_through_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(tmp_path)
    (tmp_path / "short").symlink_to(run)
    assert resume(tmp_path / "short", steps=450) == 0
    assert resume(tmp_path / "runs/run", steps=600) == 0
    (tmp_path / "empty").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "empty")
    assert start(tiny(loop={"steps": 600}), tmp_path / "here")[1] == 0
    assert different(run, tmp_path / "empty") == []


def test_train_refuses_an_existing_folder_that_holds_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/metrics.jsonl").symlink_to(tmp_path / "target")
    words = ["train", "Pendulum-v1", "--recipe", "quick", "--run", str(tmp_path / "run"), "--quiet"]
    assert main(words) == 2
    assert "is not an empty folder" in unwrapped(capsys.readouterr().err)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "events.jsonl", "config.toml"])
def test_train_refuses_a_link_that_appears_in_its_new_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, run = tmp_path / "target", tmp_path / "run"
    target.write_text("mine")

    def link_instead(*given: object) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(target)

    run.mkdir()
    monkeypatch.setattr("td3.launch.start.check_disk", link_instead)
    with pytest.raises(UserError, match=f"run/{name} is a symbolic link"):
        start(tiny(), run)
    assert target.read_text() == "mine"


def test_a_fifo_instead_of_a_file_is_refused_without_waiting(run: Path) -> None:
    manifest = run / "checkpoints/000000300/manifest.json"
    for path in (manifest, run / ".lock"):
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(Invalid, match=r"manifest\.json cannot be read \(it is not a regular"):
        read_manifest(manifest.parent)
    with pytest.raises(UserError, match=r"run/\.lock is in the way"):
        resume(run, steps=400)


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_tracker_does_not_write_through_a_link(name: str, run: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (run / name).symlink_to(tmp_path / "target")
    settings = run / "config.toml"
    assert "track = []" in settings.read_text()
    settings.write_text(settings.read_text().replace("track = []", f'track = ["{name}"]'))
    with pytest.raises(UserError, match=f"run/{name} is a symbolic link"):
        resume(run, steps=400)
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("plot", "plots"),
        ("plot", "plots/curves.png"),
        ("plot", "plots/curves.svg"),
        ("report", "report.md"),
        ("report", "report.html"),
        ("report", "plots"),
        ("video", "videos"),
        ("video", "videos/its name.mp4"),
    ],
)
def test_commands_that_write_into_a_run_refuse_links(
    command: str, name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name.startswith("videos/"):
        name = f"videos/{load_policy(run).name}.mp4"
    link, target = run / name, tmp_path / "target"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    for existing in (False, True):
        if existing and link.name in ("plots", "videos"):
            target.mkdir()
        elif existing:
            target.write_bytes(b"mine")
        assert main([command, str(run)]) == 2
        assert f"{link} is a symbolic link" in unwrapped(capsys.readouterr().err)
        assert target.exists() == existing
        assert not existing or target.is_dir() or target.read_bytes() == b"mine"
        assert contents(target) == {}


def test_outside_a_run_a_plot_may_be_written_through_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "figures").symlink_to(tmp_path / "disk")
    assert main(["plot", str(run), "--out", str(tmp_path / "figures/curves")]) == 0
    assert (tmp_path / "disk/curves.png").exists()
