"""`td3 doctor RUN`: every damage is found, and what is left can be repaired and resumed."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.damage import delete, flip, truncate
from support.run_tools import different, tiny, train_in_pieces

from td3.cli import main
from td3.doctor.run_checks import check_run, repair_run
from td3.launch.resume import resume
from td3.run.lock import LOCK_FILE, lock_run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doctor") / "run"
    config = tiny(loop={"steps": 300}, threads=1, checkpoint={"keep_every": 200})
    train_in_pieces(config, folder, [])
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def findings(run: Path) -> dict[str, str]:
    """The messages of the checks that are not "ok", and that of the last one."""
    checks = check_run(run)
    assert checks[-1].name == "resume"
    found = {check.name: check.message for check in checks if check.status != "ok"}
    return found | {"resume": checks[-1].message}


def test_intact_run_has_no_findings_and_is_not_changed(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert main(["doctor", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "0 errors, 0 warnings." in printed
    assert "td3 resume continues at step 300; with --at also at 200" in printed
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_finished_run_is_said_to_need_more_steps(run: Path) -> None:
    with (run / "events.jsonl").open("a") as file:
        file.write('{"time": 0, "event": "finish", "step": 300}\n')
    assert findings(run)["resume"] == (
        "finished at step 300; td3 resume RUN --steps N trains longer; --at continues at 200"
    )
    truncate(run / "checkpoints/000000300/manifest.json")
    assert findings(run)["resume"] == "td3 resume continues at step 200"


EXACT, LOSSY = "td3 resume continues at step {}", "not exact: transitions are lost"
DAMAGES = [  # file, check that reports it, what resume does
    ("checkpoints/000000300/state.safetensors", "checkpoint", EXACT.format(200)),
    ("checkpoints/000000300/manifest.json", "checkpoint", EXACT.format(200)),
    ("checkpoints/000000200/manifest.json", "checkpoint", EXACT.format(300)),
    ("replay/000000300.rows", "checkpoint", EXACT.format(200)),
    ("replay/000000100.rows", "checkpoint", LOSSY),
    ("metrics.jsonl", "metrics", EXACT.format(300)),
    ("policy/agent-0.safetensors", "policy", EXACT.format(300)),
]


@pytest.mark.parametrize("damage", [truncate, flip])
@pytest.mark.parametrize(("name", "check", "verdict"), DAMAGES)
def test_damage_is_found_repaired_and_kept_aside(
    name: str,
    check: str,
    verdict: str,
    damage: Callable[[Path], None],
    run: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(run / name)
    damaged = (run / name).read_bytes()
    found = findings(run)
    assert check in found
    assert verdict in found["resume"]
    assert main(["doctor", str(run)]) == 1
    capsys.readouterr()
    assert main(["doctor", str(run), "--repair", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["repaired"]
    after = findings(run)
    if verdict != LOSSY:
        assert {k: v for k, v in after.items() if k not in ("resume", "metrics")} == {}
    kept = [run / name, *(run / "aside").rglob("*")]  # records that can all be read stay in place
    assert damaged in [path.read_bytes() for path in kept if path.is_file()]
    assert resume(run, steps=500) == 0  # two new checkpoints
    assert [k for k in findings(run) if k != "resume"] == []


def test_second_repair_of_the_records_changes_nothing(run: Path) -> None:
    truncate(run / "metrics.jsonl")
    assert len(repair_run(run)) == 1
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.name != LOCK_FILE}
    repair_run(run)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list((run / "aside").iterdir())) == 1
    assert "keep the readable records" in next(
        c.advice for c in check_run(run) if c.name == "metrics"
    )


def test_lost_settings_are_written_again_from_a_checkpoint(run: Path) -> None:
    before = (run / "config.toml").read_bytes()
    (run / "config.toml").unlink()
    assert "config.toml is missing" in findings(run)["settings"]
    assert main(["doctor", str(run), "--repair"]) == 0
    assert (run / "config.toml").read_bytes() == before


@pytest.mark.parametrize("content", ["seed = ", "[loop]\nsteps = 'x'", "unknown = 1", "\0"])
def test_unusable_settings_are_found_and_replaced_by_the_copy_in_a_checkpoint(
    content: str, run: Path
) -> None:
    before = (run / "config.toml").read_bytes()
    (run / "config.toml").write_text(content)
    assert "cannot be continued" in findings(run)["resume"]
    assert main(["doctor", str(run), "--repair"]) == 0
    assert (run / "config.toml").read_bytes() == before
    assert (run / "aside/config.toml").read_text() == content
    assert resume(run, steps=310) == 0


@pytest.mark.parametrize("damage", [flip, truncate, delete])
def test_damaged_kept_checkpoint_is_not_offered_and_moved_aside(
    damage: Callable[[Path], None], run: Path
) -> None:
    own = run / "checkpoints/000000200"
    for file in own.iterdir():
        file.unlink()
    damage(run / "kept/000000200/checkpoints/000000200/manifest.json")
    found = findings(run)
    assert "step 200: " in found["kept"]
    assert found["resume"] == "td3 resume continues at step 300"
    assert main(["doctor", str(run), "--repair"]) == 0
    assert (run / "aside/000000200/config.toml").exists()
    assert "kept" not in findings(run)


def test_metrics_longer_than_the_memory_are_read_in_pieces(run: Path) -> None:
    with open(run / "metrics.jsonl", "ab") as file:
        file.truncate(2**40)  # a terabyte of zeros that need no space
    assert list(findings(run)) == ["resume"]
    assert main(["copy", str(run), str(run.parent / "copy")]) == 0
    assert (run.parent / "copy/metrics.jsonl").stat().st_size < 10_000


def test_repaired_run_ends_as_an_undamaged_one(run: Path, whole: Path) -> None:
    flip(run / "checkpoints/000000300/state.safetensors")
    assert main(["doctor", str(run), "--repair", "--json"]) == 0
    assert resume(run) == 0
    assert different(whole, run) == []


def test_run_that_cannot_be_continued_is_left_alone(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in run.glob("checkpoints/*/state.safetensors"):
        flip(file)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert "cannot be continued: no checkpoint is complete" in findings(run)["resume"]
    assert main(["doctor", str(run), "--repair"]) == 2
    assert "cannot be repaired" in capsys.readouterr().err
    after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert {k: v for k, v in after.items() if k.name != ".lock"} == {
        k: v for k, v in before.items() if k.name != ".lock"
    }


def test_doctor_reports_versions_a_kept_checkpoint_and_a_process(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(run / "kept/000000200/checkpoints/000000200/manifest.json")
    settings = run / "config.toml"
    settings.write_text(re.sub('python = ".*"', 'python = "3.0"', settings.read_text()))
    with lock_run(run):
        found = findings(run)
        assert main(["doctor", str(run), "--repair"]) == 2
    assert "is in use by process" in capsys.readouterr().err
    assert "python was 3.0" in found["versions"]
    assert "step 200: manifest.json fails its checksum" in found["kept"]
    assert "A process trains" in found["lock"]
    assert "lock" not in findings(run)


def test_repair_without_a_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "Pendulum-v1", "--repair"]) == 2
    assert "--repair needs a run folder" in capsys.readouterr().err
