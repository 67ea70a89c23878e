"""Metric records: means per agent over an interval."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from td3.algorithm.agent import Diagnostics
from td3.files import JsonLines
from td3.integrations import scalars
from td3.training.metrics import Interval, diverged


def test_interval_means_are_per_agent_and_skip_missing() -> None:
    interval = Interval(2, torch.device("cpu"))
    interval.add_update(Diagnostics(torch.tensor([1.0, 10.0]), torch.tensor([0.0, 2.0]), None))
    interval.add_update(
        Diagnostics(torch.tensor([3.0, 30.0]), torch.tensor([2.0, 4.0]), torch.tensor([5.0, 6.0]))
    )
    interval.add_update(Diagnostics(torch.tensor([100.0]), torch.tensor([1.0]), None), agent=1)
    interval.add_episode(1, -7.0, 11)
    interval.add_actions(np.array([[0.5, -0.995], [1.0, 0.999]]))
    first, second = interval.records(50, [3, 4], [2, 3])
    assert (first["step"], first["seed"], first["updates"]) == (50, 3, 2)
    assert first["critic_loss"] == 2.0
    assert first["actor_loss"] == 5.0
    assert first["episodes"] == 0
    assert first["episode_return"] is None
    assert first["saturated"] == 0.5
    assert second["critic_loss"] == pytest.approx(140 / 3)
    assert (second["episodes"], second["episode_return"], second["episode_length"]) == (1, -7, 11)
    assert second["saturated"] == 1.0


def test_interval_saturation_does_not_depend_on_folding() -> None:
    interval = Interval(2, torch.device("cpu"))
    low, high = np.zeros((2, 2)), np.array([[1.0, 0.0], [1.0, -1.0]])
    for actions in (low, high):
        interval.add_actions(actions)
    before = {name: tensor.clone() for name, tensor in interval.tensors().items()}
    assert before["actions"].tolist() == [[1, 4], [2, 4]]
    interval.member(1).tensors()
    other = Interval(2, torch.device("cpu"))
    other.restore(before)
    for one in (interval, other):
        one.add_actions(high)
        assert [record["saturated"] for record in one.records(3, [0, 1], [0, 0])] == [2 / 6, 4 / 6]
        one.add_actions(high)
        assert [record["saturated"] for record in one.records(4, [0, 1], [0, 0])] == [0.5, 1.0]


def test_interval_is_empty_after_records() -> None:
    interval = Interval(1, torch.device("cpu"))
    interval.add_update(Diagnostics(torch.ones(1), torch.ones(1), torch.ones(1)))
    interval.records(1, [0], [1])
    (record,) = interval.records(2, [0], [1])
    assert record["critic_loss"] is None


def test_interval_restore_is_exact() -> None:
    one, other = Interval(1, torch.device("cpu")), Interval(1, torch.device("cpu"))
    one.add_update(Diagnostics(torch.tensor([0.1]), torch.tensor([0.2]), None))
    one.add_episode(0, 1.5, 3)
    other.restore({name: tensor.clone() for name, tensor in one.tensors().items()})
    assert one.records(1, [0], [1]) == other.records(1, [0], [1])


def test_interval_logs_numbers_of_episodes_per_agent() -> None:
    one, other = (Interval(2, torch.device("cpu"), ("is_success", "x")) for _ in range(2))
    assert "info" not in one.records(1, [0, 1], [0, 0])[0]
    assert set(one.tensors()) == {"sums", "counts", "episodes", "actions"}  # as before
    one.add_episode(1, 0.0, 3, {"is_success": 1.0, "x": 0.5})
    one.add_episode(1, 0.0, 3, {"is_success": 0.0})
    other.restore({name: tensor.clone() for name, tensor in one.tensors().items()})
    for interval in (one, other):
        first, second = interval.records(2, [0, 1], [0, 0])
        assert "info" not in first
        assert second["info"] == {"is_success": 0.5, "x": 0.5}
        assert scalars(second)["train/info/is_success/seed-1"] == 0.5
        assert "info" not in interval.records(3, [0, 1], [0, 0])[1]


def test_diverged_names_metric() -> None:
    assert diverged({"critic_loss": float("nan"), "q": 1.0}) == "critic_loss"
    assert diverged({"critic_loss": 1.0, "q": float("inf")}) == "q"
    assert diverged({"critic_loss": None, "q": 1.0}) == ""


def test_json_lines_truncate_to_length(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "x.jsonl")
    lines.write({"a": 1})
    length = lines.length()
    lines.write({"a": 2})
    lines.truncate(length)
    lines.write({"a": 3})
    lines.close()
    text = (tmp_path / "x.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in text] == [{"a": 1}, {"a": 3}]


def test_scalars_are_named_by_kind_settings_and_seed() -> None:
    record = {
        "kind": "evaluation",
        "step": 5,
        "agent": 0,
        "seed": 2,
        "mean_return": 1.5,
        "best": True,
        "returns": [1.0],
    }
    assert scalars(record) == {"evaluation/mean_return/seed-2": 1.5}
    own = {"settings": {"agent.tau": 0.1, "agent.discount": 0.9}}
    assert scalars(record | own) == {"evaluation/mean_return/tau-0.1/discount-0.9/seed-2": 1.5}
