"""A run that is killed with SIGKILL at random moments, and resumed, has the same numbers."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.long import LONG, pick
from support.run_tools import (
    ELSEWHERE,
    command,
    different,
    flags,
    tiny,
    train_in_pieces,
    wait_for,
    wait_for_event,
)

from td3.training import background_evaluation as evaluations


class Case(NamedTuple):
    """A kind of run, how many steps it has for each kill, and how often it is killed."""

    steps: int
    quick: int
    long: int
    tables: dict[str, Any]


CHEETAH = {"environment": {"id": "HalfCheetah-v5"}, "seeds": 3}
IMAGES = {
    "environment": {"id": "support.find:Find-v0", "frame_stack": 2, "count": 2},
    "agent": {"channels": [4, 4], "features": 8, "random_shift": 1, "n_step": 2},
}
CASES = {
    "single": Case(300, 8, 40, {}),
    "population": Case(300, 3, 30, {**CHEETAH, "seeds": 4}),
    "background evaluation": Case(300, 3, 30, CHEETAH),
    "workers": Case(
        150, 0, 30, {"environment": {"count": 3, "vectorization": "workers", "workers": 2}}
    ),
    "images": Case(60, 0, 25, IMAGES),
    "variant": Case(150, 0, 25, {"variant": "lap", "seeds": 2}),
    "updates after episodes": Case(150, 0, 20, {"loop": {"update": "episode"}}),
}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if LONG or case.quick])
def test_run_after_random_kills_equals_run_in_one(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """Checkpoints every 20 steps: many kills happen while one is written."""
    case = CASES[name]
    kills, tables = pick(case.quick, case.long), dict(case.tables)
    loop = {**tables.pop("loop", {}), "steps": case.steps * kills}
    config = tiny(loop=loop, checkpoint={"every": 20}, **tables)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    background = name == "background evaluation"
    with monkeypatch.context() as patched:
        if background:
            patched.setattr(evaluations, "in_background", lambda device: True)
        train_in_pieces(config, whole, [])
    variant = ["--variant", config.variant.name] if config.variant.name else []
    happened, process = 0, start(background, "train", *flags(config), *variant, "--run", killed)
    wait_for(killed / "checkpoints", process)
    if process.poll() is not None:
        pytest.fail(process.communicate()[1].decode())
    rng = random.Random(name)
    for _ in range(kills):
        time.sleep(rng.uniform(0.0, 0.4))
        process.kill()
        process.communicate()
        happened += process.returncode < 0
        process = start(background, "resume", killed)
        if rng.random() < 0.7:  # sometimes kill while it is still resuming
            wait_for_event(killed, "resume", process)
    _, problem = process.communicate()
    assert process.returncode in (0, 2), problem.decode()
    if process.returncode == 2:  # the last kill came after the last step
        assert b"is finished" in problem
    assert happened > kills / 2
    assert different(whole, killed) == []
    record_property("cases", happened)


def start(background: bool, *words: object) -> "subprocess.Popen[bytes]":
    begin = [sys.executable, "-c", ELSEWHERE] if background else command()
    return subprocess.Popen(
        [*begin, *map(str, words), "--quiet"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # finds the tests' own tasks
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
