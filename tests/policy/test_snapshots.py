"""`--every`: the policies that a run kept, in `td3 export`, `td3.export` and `td3 play`."""

import json
import shutil
from pathlib import Path

import pytest

import td3
from td3.cli import main
from td3.errors import UserError
from td3.play.sources import policies_to_play
from td3.policy.file import policy_bytes
from td3.policy.snapshots import snapshots

RUN = Path(__file__).parents[2] / "benchmarks/results/halfcheetah-v5-100k"


def write_policy(file: Path, step: int, mean_return: float) -> None:
    policy = td3.load_policy(pretrained="Hopper-v5")
    card = policy.card | {"step": step, "mean_return": mean_return}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(policy_bytes(policy.tensors, card))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two agents, the second one better, each with five kept policies."""
    run = tmp_path / "run"
    for agent in (0, 1):
        write_policy(run / f"policy/agent-{agent}.safetensors", 90 + agent, 10.0 * agent)
        write_policy(run / f"policy/agent-{agent}-last.safetensors", 105, 1.0)
        for step in (0, 25, 50, 75, 105):
            write_policy(run / f"policy/agent-{agent}-step-{step}.safetensors", step, -1.0)
    return run


@pytest.mark.parametrize(
    ("every", "steps"),
    [(25, [0, 25, 50, 75, 105]), (50, [0, 50, 105]), (1, [0, 25, 50, 75, 105]), (60, [0, 75])],
)
def test_snapshots_are_the_first_at_or_after_each_multiple_and_the_best(
    run: Path, every: int, steps: list[int]
) -> None:
    found = snapshots(run, every)
    assert list(found) == [*(f"step-{step}" for step in steps), "best"]
    assert [policy.step for policy in found.values()] == [*steps, 91]
    assert all(policy.name.startswith("agent-1") for policy in found.values())
    assert snapshots(run / "policy", every, 0, which="last")["last"].name == "agent-0-last"


def test_snapshots_of_kept_checkpoints_are_their_last_policies(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_policy(run / "policy/agent-0.safetensors", 200, 5.0)
    for step in (100, 200):
        write_policy(run / f"kept/{step:09d}/policy/agent-0-last.safetensors", step, 1.0)
        write_policy(run / f"kept/{step:09d}/policy/agent-0.safetensors", 7, 2.0)
    found = snapshots(run, 100)
    assert [policy.step for policy in found.values()] == [100, 200, 200]
    names = ["agent-0-step-100", "agent-0-step-200", "agent-0"]
    assert [policy.name for policy in found.values()] == names
    assert [item.policy.name for item in policies_to_play([run], "", 100)] == names


def test_snapshots_of_a_run_that_kept_none_names_the_setting(tmp_path: Path) -> None:
    write_policy(tmp_path / "policy/agent-0.safetensors", 5, 1.0)
    with pytest.raises(UserError, match=r"--evaluation\.keep-every 20000 to keep one every 20,000"):
        snapshots(tmp_path, 20_000)
    with pytest.raises(UserError, match="every must be 1 or more, got 0"):
        snapshots(tmp_path, 0)
    with pytest.raises(UserError, match="needs a run folder"):
        snapshots(tmp_path / "policy/agent-0.safetensors", 5)
    with pytest.raises(UserError, match="every needs a run, not a policy"):
        td3.export(td3.load_policy(tmp_path), "js", tmp_path / "out", every=5)
    with pytest.raises(UserError, match="needs a run folder"):
        policies_to_play([], "", 5)


def test_play_every_offers_only_the_snapshots_of_the_run(run: Path) -> None:
    names = [item.policy.name for item in policies_to_play([run], "", 60)]
    assert names == ["agent-1-step-0", "agent-1-step-75", "agent-1"]


def test_export_every_writes_each_snapshot_into_its_own_folder(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = td3.export(run, ["numpy", "js"], every=60)
    folders = [run / "exports/agent-1" / name for name in ("step-0", "step-75", "best")]
    assert sorted(paths) == sorted(
        folder / name
        for folder in folders
        for name in ("policy.py", "policy.mjs", "policy_vectors.bin")
    )
    assert '"step": 75' in (folders[1] / "policy.mjs").read_text()
    words = ["export", str(run), "--every", "60", "--to", "js", "--out", str(tmp_path / "out")]
    assert main([*words, "--agent", "0", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    assert list(tables) == ["step-0", "step-75", "best"]
    assert (tmp_path / "out/best/policy.mjs").is_file()


def test_export_every_of_a_run_without_snapshots_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    assert main(["export", str(run), "--every", "20000", "--to", "js"]) == 2
    problem = capsys.readouterr().err
    assert problem.count("\n") == 1
    assert "Train with td3 train … --evaluation.keep-every 20000" in problem
    assert not (run / "exports").exists()
