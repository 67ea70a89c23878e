"""A run keeps each agent's last policy next to its best one."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.run_tools import different, tiny, train_in_pieces

import td3
from td3.cli import main
from td3.errors import UserError
from td3.launch.resume import resume
from td3.launch.session import open_training
from td3.policy.load import policies_of
from td3.run.folder import create


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("last") / "run"
    train_in_pieces(tiny(seeds=2), folder, [])
    return folder


def evaluations(run: Path, agent: int) -> list[dict[str, object]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [r for r in records if r["kind"] == "evaluation" and r["agent"] == agent]


@pytest.mark.parametrize("agent", [0, 1])
def test_load_policy_last_is_the_policy_of_the_last_evaluation(run: Path, agent: int) -> None:
    last, best = (td3.load_policy(run, agent, which=which) for which in ("last", "best"))
    final = evaluations(run, agent)[-1]
    assert (last.name, best.name) == (f"agent-{agent}-last", f"agent-{agent}")
    assert (last.step, last.mean_return) == (600, final["mean_return"])
    assert best.mean_return == max(record["mean_return"] for record in evaluations(run, agent))  # type: ignore[type-var]


def test_last_policy_is_the_actor_of_the_checkpoint(run: Path) -> None:
    config = tiny(seeds=2)
    with open_training(config, run) as training:
        training.restore()
        layers = training.agent.actor.layers()
    policy = td3.load_policy(run, 1, which="last")
    for (weight, bias), own in zip(layers, policy.layers, strict=True):
        np.testing.assert_array_equal(own[0], weight[1].detach().numpy())
        np.testing.assert_array_equal(own[1], bias[1, 0].detach().numpy())


def test_policies_of_a_run_never_mixes_best_and_last(run: Path) -> None:
    names = [policy.name for policy in policies_of(run)]
    assert names == ["agent-0", "agent-1"]
    assert [policy.name for policy in policies_of(run, which="last")] == [
        "agent-0-last",
        "agent-1-last",
    ]


def test_last_policy_is_written_even_if_it_is_not_the_best(tmp_path: Path) -> None:
    config = tiny()
    with open_training(config, create(config, tmp_path / "run")) as training:
        training.best = [1e9]
        training.evaluate()
    names = [path.name for path in (tmp_path / "run" / "policy").iterdir()]
    assert names == ["agent-0-last.safetensors"]


def test_resume_after_a_stop_gives_the_same_last_policy(run: Path, tmp_path: Path) -> None:
    train_in_pieces(tiny(seeds=2), tmp_path / "pieces", [170, 333])
    assert different(run, tmp_path / "pieces") == []


def test_resume_refuses_a_link_at_the_last_policy(tmp_path: Path) -> None:
    config = tiny(loop={"steps": 200})
    train_in_pieces(config, tmp_path / "run", [])
    file = tmp_path / "run" / "policy" / "agent-0-last.safetensors"
    file.rename(tmp_path / "target")
    file.symlink_to(tmp_path / "target")
    with pytest.raises(UserError, match=r"agent-0-last\.safetensors is a symbolic link"):
        resume(tmp_path / "run", steps=300)


def test_evaluate_command_which_last_plays_the_last_policy(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", str(run), "--agent", "1", "--episodes", "1", "--json"]
    for which in ("last", "best"):
        assert main([*words, "--which", which]) == 0
        (row,) = json.loads(capsys.readouterr().out)["agents"]
        policy = td3.load_policy(run, 1, which=which)  # type: ignore[arg-type]
        assert (row["agent"], row["step"]) == (policy.name, policy.step)
        assert row["returns"] == policy.evaluate(1).returns.tolist()


def test_load_policy_last_of_an_older_run_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    (tmp_path / "config.toml").touch()
    with pytest.raises(
        UserError, match=r"No last policy of any agent .* no evaluation of this run"
    ):
        td3.load_policy(tmp_path, which="last")
    with pytest.raises(UserError, match="which must be best or last, not 'newest'"):
        td3.load_policy(tmp_path, which="newest")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="is one policy; choose an agent or 'last'"):
        td3.load_policy(tmp_path / "agent-0.safetensors", which="last")
