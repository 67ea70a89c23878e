"""A run survives the loss or the damage of any one of its files."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.damage import delete, flip, truncate
from support.long import LONG
from support.run_tools import different, tiny, train_in_pieces

import td3
from td3.algorithm.prioritized import PrioritizedReplay
from td3.algorithm.replay import ReplayBuffer
from td3.errors import UserError
from td3.launch.resume import resume

LATER = 450  # steps of the run that is resumed


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 300 steps, and the same one of LATER steps."""
    folder = tmp_path_factory.mktemp("lost")
    for name, steps in (("run", 300), ("whole", LATER)):
        train_in_pieces(tiny(loop={"steps": steps}, threads=1), folder / name, [])
    return folder


FILES = {
    "config.toml": "",
    "events.jsonl": "",
    "metrics.jsonl": "metrics.jsonl is not as it was",
    "checkpoints/000000200/manifest.json": "",
    "checkpoints/000000200/state.safetensors": "",
    "checkpoints/000000300/manifest.json": "",
    "checkpoints/000000300/state.safetensors": "",
    "replay/000000100.rows": "000000100.rows are lost",
    "replay/000000200.rows": "000000200.rows are lost",
    "replay/000000300.rows": "",
    "policy/agent-0.safetensors": "the next evaluation writes a new best one",
    "policy/agent-0-last.safetensors": "",
}
"""Every file of a run → why the result is not exact without it; empty if it is."""


def test_every_file_of_a_run_is_tried(runs: Path) -> None:
    written = {str(p.relative_to(runs / "run")) for p in (runs / "run").rglob("*") if p.is_file()}
    assert written - {".lock"} == FILES.keys()


DAMAGES = [delete, truncate, flip]
CASES = [
    (name, damage)
    for position, name in enumerate(FILES)
    for damage in (DAMAGES if LONG else [DAMAGES[position % 3]])
    if LONG or position % 2
]


@pytest.mark.parametrize(("name", "damage"), CASES)
def test_run_without_one_file_resumes_exactly_or_labelled(
    name: str, damage: Callable[[Path], None], runs: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "run", run)
    damage(run / name)
    if name == "config.toml" and damage is not delete:
        refused_or_labelled(run)  # the user may have edited it
        return
    assert resume(run, steps=LATER) == 0
    labels = [remark for remark in remarks_of(run) if remark.startswith("not exact")]
    if reason := FILES[name]:
        assert any(reason in label for label in labels), labels
    else:
        assert labels == []
        assert different(runs / "whole", run) == []
        return
    again = remarks_of(run)
    assert resume(run, steps=LATER + 50) == 0  # the next checkpoint is complete again
    assert remarks_of(run)[len(again) :] == []


def refused_or_labelled(run: Path) -> None:
    with contextlib.suppress(UserError):
        assert resume(run, steps=LATER) == 0
        assert remarks_of(run)


def remarks_of(run: Path) -> list[str]:
    lines = (run / "events.jsonl").read_bytes().splitlines()
    events = []
    for line in lines:
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return [event["message"] for event in events if event.get("event") == "warning"]


@pytest.mark.parametrize(
    ("settings", "lost"),
    [
        ({"seeds": 2}, "000000200"),
        ({"variant": "lap", "seeds": 2}, "000000100"),
        ({"environment": {"frame_stack": 3}, "agent": {"n_step": 3}}, "000000200"),
        (
            {
                "environment": {"id": "support.find:Find-v0", "frame_stack": 2, "count": 2},
                "agent": {"channels": [4, 4], "features": 8, "random_shift": 1, "n_step": 2},
            },
            "000000200",
        ),
    ],
)
def test_every_kind_of_replay_buffer_continues_without_a_file(
    settings: dict[str, Any], lost: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train_in_pieces(tiny(loop={"steps": 300}, threads=1, **settings), run, [])
    flip(run / f"replay/{lost}.rows")
    loaded = td3.load_run(run).replay
    assert 50 <= len(loaded) <= 250
    states = loaded.sample(200)[0]
    assert (np.abs(states).reshape(-1, states.shape[-1]).sum(axis=-1) > 0).all()  # none is missing
    assert resume(run, steps=400, accept_changes=True) == 0
    remarks = remarks_of(run)
    assert f"{lost}.rows are lost" in remarks[0]
    assert resume(run, steps=500) == 0
    assert remarks_of(run) == remarks


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplay])
def test_forget_keeps_all_other_transitions_in_order(kind: type[ReplayBuffer]) -> None:
    replay = kind(10, seed=[0, 1])
    for number in range(13):  # transitions 3 to 12 are left
        replay.add(([[number], [-number]], [[0], [0]], [[0], [0]], [0, 0], [False, False]))
    if isinstance(replay, PrioritizedReplay):
        replay.set_priorities(
            np.tile(np.arange(10), (2, 1)),
            replay.rows[:, :, 0].abs(),  # type: ignore[index]
        )
    replay.forget([{"rows": {"start": [4, 0], "stop": [6, 5]}}])
    assert replay.rows is not None
    assert replay.added.tolist() == [8, 8]
    assert replay.rows[0, :8, 0].tolist() == [3, *range(6, 13)]
    assert replay.rows[1, :8, 0].tolist() == [-n for n in range(5, 13)]
    if isinstance(replay, PrioritizedReplay):
        assert replay.weights[0].tolist() == [3, *range(6, 13), 0, 0]
        torch.testing.assert_close(replay.sums.sum(dim=1), torch.tensor([66.0, 68.0]))


def test_forget_of_a_buffer_with_more_data_per_row_is_refused() -> None:
    class Counted(ReplayBuffer):
        def tensors(self) -> dict[str, torch.Tensor]:
            return {"counts": torch.zeros(4)}

    replay = Counted(4, seed=0)
    replay.add(([0], [0], [0], 0, False))
    with pytest.raises(ValueError, match="Counted cannot move its transitions"):
        replay.forget([{"rows": {"start": [0], "stop": [1]}}])
