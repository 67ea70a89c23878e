"""Every system call of a save fails once, or is the last one of the process."""

import contextlib
import errno
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.faulty_disk import FaultyDisk, Killed
from support.long import LONG
from support.run_tools import different, tiny, train_in_pieces

from td3.algorithm.replay import ReplayBuffer
from td3.config import varied
from td3.launch.resume import resume
from td3.launch.session import open_training
from td3.run.checkpoint import newest_checkpoint, save_checkpoint
from td3.run.folder import read_config
from td3.signals import StopRequest


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls") / "run"
    train_in_pieces(tiny(loop={"steps": 200}), folder, [])
    return folder


def kill(number: int, call: int) -> None:
    if number >= call:
        raise Killed


def fail(code: int) -> Callable[[int, int], None]:
    def fault(number: int, call: int) -> None:
        if number == call:
            raise OSError(code, os.strerror(code))

    return fault


FAULTS = {"kill": kill, "power": kill, "EIO": fail(errno.EIO), "ENOSPC": fail(errno.ENOSPC)}


def copies(run: Path, folder: Path, stride: int = 1) -> Iterator[tuple[int, Path]]:
    """0, 1, 2 … (or every second one, third one …) and a copy of the run for each."""
    for number in itertools.count(step=stride):
        copy = folder / "copy"
        shutil.copytree(run, copy)
        yield number, copy
        shutil.rmtree(copy)


def save_once_more(folder: Path, disk: FaultyDisk, fault: Callable[[int, str], None]) -> int:
    """Add a transition to the newest checkpoint and save; returns the number of system calls."""
    replay = ReplayBuffer(400, seed=0)
    old = newest_checkpoint(folder, replay)
    assert old is not None
    replay.add(([0, 0, 0], [0, 0, 0], [0], 0, False))
    facts = old.facts | {"step": 201}
    disk.restart(fault)
    with contextlib.suppress(Killed, OSError):
        save_checkpoint(folder, 201, old.tensors, facts, replay, old.segments)
    disk.fault = lambda number, name: None
    return len(disk.log)


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("foreign", [(), ("000000201",), ("000000201", ".writing-000000201")])
def test_fault_at_any_system_call_leaves_old_or_new_checkpoint(
    kind: str,
    foreign: tuple[str, ...],
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """Also if folders of these names contain a file of the user."""
    disk = FaultyDisk(monkeypatch, tmp_path)
    for call, folder in copies(run, tmp_path):
        for name in foreign:
            (folder / "checkpoints" / name).mkdir()
            (folder / "checkpoints" / name / "notes.txt").write_text("mine")
        calls = save_once_more(folder, disk, lambda number, name: FAULTS[kind](number, call))  # noqa: B023
        if kind == "power":
            disk.lose_power()
        found = newest_checkpoint(folder, ReplayBuffer(400, seed=0))
        assert found is not None
        assert found.step in ((200, 201) if call < calls else (201,)), disk.log[call]
        assert not found.damaged
        assert not (folder / "aside").exists(), disk.log[call]
        if not foreign:  # else the folder may hold half of the new one
            assert found.rejected == [], disk.log[call]
        if found.step == 200:
            save_once_more(folder, disk, lambda number, name: None)
            found = newest_checkpoint(folder, ReplayBuffer(400, seed=0))
            assert found is not None
            assert (found.step, found.rejected) == (201, [])
        assert len(list(folder.glob("checkpoints/*/notes.txt"))) == len(foreign)
        if call >= calls:
            break
    assert calls >= 25
    record_property("cases", calls)


SETTINGS: dict[str, dict[str, Any]] = {
    "single": {},
    "population": {"seeds": 2, "grid": {"agent.discount": [0.98, 0.99]}},
    "images": {
        "environment": {"id": "support.find:Find-v0", "frame_stack": 2, "count": 2},
        "agent": {"channels": [4, 4], "features": 8, "random_shift": 1, "n_step": 2},
    },
    "variant": {"variant": "lap", "seeds": 2},
}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_training_with_a_fault_at_any_system_call_of_a_save_ends_as_without(
    name: str,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """The short form tries every thirtieth call."""
    if not LONG and (name, kind) not in (("single", "power"), ("images", "EIO")):
        pytest.skip("only with TD3_FAULTS=long")
    start, whole = tmp_path / "start", tmp_path / "whole"
    train_in_pieces(tiny(**SETTINGS[name], threads=1, loop={"steps": 250}), start, [])
    shutil.copytree(start, whole)
    assert resume(whole, steps=350) == 0
    disk = FaultyDisk(monkeypatch, tmp_path / "copy")
    for call, folder in copies(start, tmp_path, 1 if LONG else 30):
        calls = train_with_fault(folder, disk, lambda number: FAULTS[kind](number, call))  # noqa: B023
        if kind == "power":
            disk.lose_power()
        if kind in ("kill", "power") and call < calls:
            assert resume(folder, steps=350) == 0
        assert different(whole, folder) == [], disk.log[call]
        if call >= calls:
            break
    assert calls >= 25
    record_property("cases", calls if LONG else calls // 30)


def train_with_fault(folder: Path, disk: FaultyDisk, fault: Callable[[int], None]) -> int:
    """Continue up to step 350; returns the number of system calls of the save of step 300."""
    config = varied(read_config(folder)[0], {"loop.steps": 350})
    with contextlib.suppress(Killed), open_training(config, folder) as training:
        training.restore()
        save, calls = training.save, 0

        def save_with_fault(last: bool = False) -> None:
            nonlocal calls
            if training.step != 300:
                return save(last)
            disk.restart(lambda number, name: fault(number))
            try:
                save(last)
            finally:
                calls, disk.fault = len(disk.log), lambda number, name: None

        training.save = save_with_fault  # type: ignore[method-assign]
        training.loop(StopRequest())
    return calls
