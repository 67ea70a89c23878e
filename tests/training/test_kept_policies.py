"""`evaluation.keep_every` keeps policies of several steps, also across a resume."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.run_tools import tiny, train_in_pieces

import td3
from td3.play.sources import policies_to_play
from td3.training.results import is_kept

KEPT = ["agent-0-step-0", "agent-0-step-150", "agent-0-step-300"]


class State:
    """What `is_kept` looks at."""

    def __init__(self, every: int, keep_every: int, count: int) -> None:
        self.config = tiny(evaluation={"every": every, "keep_every": keep_every})
        self.collector = type("Collector", (), {"count": count})


@pytest.mark.parametrize(
    ("every", "keep_every", "count", "steps", "kept"),
    [
        (10, 20, 1, [0, 10, 20, 30, 40, 45], [0, 20, 40]),
        (10, 15, 1, [0, 10, 20, 30], [0, 20, 30]),
        (10, 5, 1, [0, 10, 20], [0, 10, 20]),
        (10, 20, 12, [0, 12, 24, 36, 48], [0, 24, 48]),
        (10, 0, 1, [0, 10, 20], []),
    ],
)
def test_kept_policy_is_the_first_at_or_after_each_multiple(
    every: int, keep_every: int, count: int, steps: list[int], kept: list[int]
) -> None:
    state: Any = State(every, keep_every, count)
    assert [step for step in steps if is_kept(state, step)] == kept


def test_kept_policies_of_a_resumed_run_are_those_of_an_uninterrupted_one(tmp_path: Path) -> None:
    config = tiny(loop={"steps": 300}, evaluation={"every": 75, "keep_every": 150})
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    train_in_pieces(config, whole, [300])
    train_in_pieces(config, pieces, [170, 300])
    for folder in (whole, pieces):
        found = {path.stem for path in (folder / "policy").iterdir()}
        assert found == {*KEPT, "agent-0", "agent-0-last"}
    first, second = (
        [td3.load_policy(folder / "policy" / f"{name}.safetensors") for name in KEPT]
        for folder in (whole, pieces)
    )
    assert [policy.step for policy in first] == [0, 150, 300]
    for one, two in zip(first, second, strict=True):
        assert all(np.array_equal(one.tensors[key], two.tensors[key]) for key in one.tensors)
    shown = [item.policy.name for item in policies_to_play([whole], "")]
    assert shown == ["agent-0", "agent-0-last", *KEPT]
