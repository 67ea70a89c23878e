"""Random damage to the files of a run: resume is exact, says that it is not, or refuses."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.bounded import Bounded
from support.long import pick
from support.run_tools import different, tiny, train_in_pieces

DAMAGES = pick(15, 1000)
LATER = 210


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 200 steps, and the same one of LATER steps."""
    folder = tmp_path_factory.mktemp("damage")
    for name, steps in (("run", 200), ("whole", LATER)):
        config = tiny(
            agent={"hidden_sizes": [8, 8]},
            loop={"steps": steps, "update": "episode"},
            evaluation={"every": 100, "max_steps": 20},
            execution="eager",
            threads=1,
        )
        train_in_pieces(config, folder / name, [])
    return folder


@pytest.fixture(scope="module")
def td3(runs: Path) -> Iterator[Bounded]:
    shutil.copytree(runs / "run", runs / "warm")
    with Bounded([["resume", str(runs / "warm"), "--steps", str(LATER)]]) as program:
        yield program


def flip(draw: random.Random, data: bytearray) -> None:
    for _ in range(draw.choice([1, 1, 8])):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def cut(draw: random.Random, data: bytearray) -> None:
    del data[draw.randrange(len(data)) :]


def swap(draw: random.Random, data: bytearray) -> None:
    """Exchange two pieces."""
    size = draw.randint(1, max(1, len(data) // 4))
    one, other = (draw.randrange(max(1, len(data) - size)) for _ in range(2))
    data[one : one + size], data[other : other + size] = (
        data[other : other + size],
        data[one : one + size],
    )


def zeros(draw: random.Random, data: bytearray) -> None:
    """A block that never reached the disk."""
    first = draw.randrange(len(data)) // 512 * 512
    data[first : first + 512] = bytes(len(data[first : first + 512]))


def damage(draw: random.Random, run: Path) -> str:
    files = sorted(path for path in run.rglob("*") if path.is_file() and path.stat().st_size)
    kinds: list[Callable[[random.Random, bytearray], Any]] = [flip, cut, swap, zeros]
    path, kind = draw.choice(files), draw.choice(kinds)
    data = bytearray(path.read_bytes())
    kind(draw, data)
    path.write_bytes(data)
    return f"{kind.__name__} {path.relative_to(run)}"


def warnings(run: Path) -> list[str]:
    found = []
    for line in (run / "events.jsonl").read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("event") == "warning":
            found.append(str(event.get("message")))
    return found


def test_random_damage_leaves_an_exact_run_or_is_named(
    runs: Path, td3: Bounded, tmp_path: Path, record_property: Any
) -> None:
    record_property("cases", DAMAGES)
    for case in range(DAMAGES):
        run = tmp_path / "run"
        shutil.copytree(runs / "run", run)
        what = damage(random.Random(case), run)
        outcome = td3.run(["resume", "run", "--steps", str(LATER)], str(tmp_path))
        if outcome.code == 0:
            labelled = any("not exact" in message for message in warnings(run))
            assert labelled or different(runs / "whole", run) == [], (case, what)
            assert not outcome.problem_of_use(), (case, what)
        else:
            assert not outcome.problem(), (case, what)
        shutil.rmtree(run)
