"""Policies that come with the package earn what their cards state."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.td3_bench.plan import OTHER_TASKS, PAPER_TASKS
from td3.cli import main
from td3.errors import UserError
from td3.policy.file import save_policy
from td3.policy.load import load_policy
from td3.policy.pretrained import names, pretrained
from td3.report.policy_scores import compare_with_published

WALKERS = ("AntBulletEnv-v0", "HalfCheetahBulletEnv-v0", "Walker2DBulletEnv-v0")


def test_pretrained_policy_exists_for_each_task() -> None:
    assert set(names()) == {*PAPER_TASKS, *OTHER_TASKS, *WALKERS}


def test_run_or_pretrained_needs_exactly_one() -> None:
    with pytest.raises(UserError, match=r"or load_policy\(pretrained='Hopper-v5'\)"):
        load_policy("Hopper-v5")
    with pytest.raises(UserError, match="Give a run folder, or a task"):
        load_policy()


@pytest.mark.parametrize("task", names())
def test_pretrained_cards_contain_origin_and_return(task: str) -> None:
    policy = load_policy(pretrained=task)
    assert policy.environment.id == task
    assert policy.card == load_policy(pretrained(task)).card
    assert {"seed", "step", "versions", "tested"} <= policy.card.keys()
    assert policy.card["tested"]["episodes"] == 100
    seeds, recipe = (3, "bullet") if task in WALKERS else (10, "paper")
    assert policy.card["chosen_from"] == {"recipe": recipe, "seeds": seeds, "steps": 1_000_000}


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Hopper-v5", "Walker2DBulletEnv-v0"])
def test_pretrained_policies_reach_their_stated_return(
    task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "--pretrained", task, "--episodes", "20", "--json"]) == 0
    stated = json.loads(capsys.readouterr().out)["agents"][0]["stated"]
    assert stated["reproduced"], stated


@pytest.mark.parametrize(
    ("stated", "returns", "reproduced"),
    [
        ({"mean_return": 9359.0, "std_return": 0.0, "episodes": 100}, [9359.0001] * 5, True),
        ({"mean_return": 9359.0, "std_return": 0.0, "episodes": 100}, [9358.0] * 5, False),
        ({"mean_return": 10.0, "std_return": 1.0, "episodes": 100}, [10.3, 10.5], True),
        ({"mean_return": 10.0, "std_return": 1.0, "episodes": 100}, [12.3, 12.5], False),
    ],
)
def test_compared_accepts_returns_within_the_interval(
    stated: dict[str, Any], returns: list[float], reproduced: bool
) -> None:
    found = compare_with_published(stated, returns)
    assert found is not None
    assert found["reproduced"] is reproduced


def test_compared_with_one_episode_is_none() -> None:
    stated = {"mean_return": 10.0, "std_return": 0.0, "episodes": 1}
    assert compare_with_published(stated, [3.0]) is compare_with_published(None, [3.0]) is None


def test_compared_rejects_a_worse_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = load_policy(pretrained("Hopper-v5"))
    tensors = dict(policy.tensors)
    tensors["actor.layer_3.bias"] = tensors["actor.layer_3.bias"] + 0.2
    save_policy(tensors, policy.card, tmp_path / "worse.safetensors")
    assert main(["evaluate", str(tmp_path / "worse.safetensors"), "--episodes", "20"]) == 0
    assert "not reproduced: expected" in capsys.readouterr().out
