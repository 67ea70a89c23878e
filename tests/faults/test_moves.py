"""A kill at any system call of `td3 resume --at`, `td3 copy`, `td3 doctor --repair` or a keep."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.faulty_disk import FaultyDisk, Killed
from support.long import LONG
from support.run_tools import tiny, train_in_pieces

from td3.algorithm.replay import ReplayBuffer
from td3.doctor.run_checks import check_run, repair_run
from td3.errors import UserError
from td3.files import JsonLines
from td3.run.checkpoint import newest_checkpoint
from td3.run.copies import copy_run, keep_checkpoint, kept_runs, rewind, verify
from td3.run.manifest import by_step

EVERY = 1 if LONG else 13
NEWEST = 500


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 500 steps that keeps the checkpoint of step 200."""
    folder = tmp_path_factory.mktemp("moves") / "run"
    config = tiny(threads=1, loop={"steps": NEWEST}, checkpoint={"keep_every": 200})
    train_in_pieces(config, folder, [])
    shutil.rmtree(folder / "kept/000000400")
    return folder


def go_back(run: Path) -> None:
    rewind(run, 200)


def keep(run: Path) -> None:
    keep_checkpoint(run, NEWEST)


def copy(run: Path) -> None:
    copy_run(run, run.parent / "copied")


def damage_and_repair(run: Path) -> None:
    """Of the newest checkpoint, of metrics.jsonl and of a policy."""
    state = run / f"checkpoints/000000{NEWEST}/state.safetensors"
    if state.exists() and not (run / "aside").exists():
        for path in (state, run / "metrics.jsonl", run / "policy/agent-0.safetensors"):
            path.unlink()  # it shares its content with the good run
            path.write_bytes(b"damaged")
    with contextlib.suppress(UserError):
        repair_run(run)


ACTIONS = {own.__name__: own for own in (go_back, keep, copy, damage_and_repair)}


def content(run: Path) -> dict[str, bytes]:
    """What a run continues from: its checkpoints, records and policies."""
    files = [run / "metrics.jsonl", *(run / "policy").glob("agent-*")]
    return {str(path.relative_to(run)): path.read_bytes() for path in files} | {
        f"checkpoints/{folder.name}": (folder / "manifest.json").read_bytes()
        for folder in by_step(run)
    }


def problems(run: Path) -> list[str]:
    return [check.message for check in check_run(run) if check.status == "error"]


def check_usable(run: Path, name: str) -> None:
    """The newest checkpoint is complete, and the records before it are intact.

    A newer one may be half removed: it is in `aside` then.
    """
    found = newest_checkpoint(run, ReplayBuffer(400, seed=0))
    assert found is not None
    if name == "damage_and_repair":
        return  # it may be killed before it has repaired anything
    assert found.damaged == []
    assert all("manifest.json cannot be read (No such file" in why for why in found.rejected)
    records = JsonLines(run / "metrics.jsonl")
    assert records.begins_with(found.facts["metrics_bytes"], found.facts["metrics_sha256"])
    records.close()


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("name", ACTIONS)
def test_action_that_is_interrupted_leaves_a_usable_run_and_can_be_repeated(
    name: str,
    kind: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    shutil.copytree(run, tmp_path / "whole/run")
    ACTIONS[name](tmp_path / "whole/run")
    expected = content(tmp_path / "whole/run")
    disk = FaultyDisk(monkeypatch, tmp_path / "case")
    call = cases = 0
    while True:
        own = tmp_path / "case/run"
        shutil.copytree(run, own)

        def fault(number: int, _: str, last: int = call) -> None:
            if number >= last:
                raise Killed

        disk.restart(fault)
        with contextlib.suppress(Killed):
            ACTIONS[name](own)
        calls, disk.fault = len(disk.log), lambda number, name: None
        if kind == "power":
            disk.lose_power()
        check_usable(own, name)
        for folder in kept_runs(own).values():
            verify(folder, int(folder.name))
        if (tmp_path / "case/copied").exists():
            verify(tmp_path / "case/copied", NEWEST)
            shutil.rmtree(tmp_path / "case/copied")
        ACTIONS[name](own)
        assert content(own) == expected, disk.log[call] if call < calls else ""
        assert problems(own) == problems(tmp_path / "whole/run")
        cases += 1
        if call >= calls:
            break
        call += EVERY
        shutil.rmtree(tmp_path / "case")
    assert calls >= 10
    record_property("cases", cases)
