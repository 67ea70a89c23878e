"""Policies that come with the package earn what their cards state."""

import json
from pathlib import Path

import pytest

from td3.cli import main
from td3.policy import load_policy, save_policy
from td3.pretrained import names, pretrained


@pytest.mark.parametrize("task", names())
def test_each_says_where_it_comes_from_and_what_it_earns(task: str) -> None:
    policy = load_policy(pretrained(task))
    assert policy.environment.id == task
    assert {"seed", "step", "versions", "tested"} <= policy.card.keys()
    assert policy.card["tested"]["episodes"] == 100


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Hopper-v5"])
def test_two_of_them_earn_what_is_stated(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--pretrained", task, "--episodes", "20", "--json"]) == 0
    stated = json.loads(capsys.readouterr().out)["agents"][0]["stated"]
    assert stated["reproduced"], stated


def test_a_worse_one_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = load_policy(pretrained("Hopper-v5"))
    tensors = dict(policy.tensors)
    tensors["actor.layer_3.bias"] = tensors["actor.layer_3.bias"] + 0.2
    save_policy(tensors, policy.card, tmp_path / "worse.safetensors")
    assert main(["evaluate", str(tmp_path / "worse.safetensors"), "--episodes", "20"]) == 0
    assert "but this one does not" in capsys.readouterr().out
