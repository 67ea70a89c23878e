"""Runs that start from an earlier run or from a policy."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.hostile_runs import Change, reshaped, set_to
from support.run_tools import different
from torch import Tensor

import td3
from td3.cli import main
from td3.run.folder import read_facts

SMALL: dict[str, Any] = {
    "recipe": "quick",
    "steps": 200,
    "quiet": True,
    "agent": {"hidden_sizes": [8, 8], "batch_size": 8},
    "loop": {"random_steps": 50, "replay_size": 150, "log_every": 70},
    "checkpoint": {"every": 100},
    "evaluation": {"every": 100, "episodes": 1, "max_steps": 30},
    "threads": 1,
    "device": "cpu",
}


def train(run: Path, **changes: Any) -> td3.Run:
    """A small run with these settings changed."""
    settings = dict(SMALL)
    for key, value in changes.items():
        old = settings.get(key)
        settings[key] = {**old, **value} if isinstance(old, dict) else value
    return td3.train(settings.pop("task", "Pendulum-v1"), run=run, **settings)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> td3.Run:
    return train(tmp_path_factory.mktemp("source") / "run")


class StopAt(td3.Callback):
    def on_step(self, run: Any) -> Any:
        return td3.STOP if run.step == 113 else None


def learned(run: td3.Run) -> dict[str, Tensor]:
    return td3.load_run(run).agent.tensors()


def start_of(run: td3.Run) -> tuple[dict[str, Tensor], Any]:
    """Agents and replay buffer as the checkpoint of step 0 has them."""
    for folder in sorted((run / "checkpoints").iterdir())[1:]:
        shutil.rmtree(folder)
    begun = td3.load_run(run)
    return begun.agent.tensors(), begun.replay


def begin(run: Path, source: Any, **changes: Any) -> td3.Run:
    """A short run, which still has the checkpoint of its start."""
    return train(run, **{"steps": 60, "start_from": source, **changes})


def test_start_from_run_takes_networks_and_moments(source: td3.Run, tmp_path: Path) -> None:
    run = begin(tmp_path / "run", source)
    before, (after, replay) = learned(source), start_of(run)
    assert before.keys() == after.keys()
    for name, tensor in after.items():
        expected = torch.zeros_like(tensor) if name == "updates" else before[name]
        assert torch.equal(tensor, expected), name
    assert len(replay) == 0
    facts = read_facts(run.folder, "source")
    assert facts["path"] == str(source.folder)
    assert (facts["kind"], facts["step"], facts["agents"]) == ("run", 200, [0])
    assert len(facts["sha256"]) == 64


def test_start_from_acts_with_the_policy_in_the_first_steps(
    source: td3.Run, tmp_path: Path
) -> None:
    run = begin(tmp_path / "run", source, loop={"exploration_noise": 0.0})
    rows = td3.load_run(run).replay.rows
    assert rows is not None
    states, actions = rows[0, :15, :3].numpy(), rows[0, :15, 6].numpy()
    expected = [source.agent.select_action(state)[0] for state in states]
    np.testing.assert_allclose(actions, expected, atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"start_replay": True},
        {"start_replay": True, "variant": "lap"},
        {"variant": "ensemble", "environment": {"normalize_observations": True}},
    ],
)
def test_resume_is_exact_although_the_source_is_gone(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    given = dict(changes)
    task = {"id": "Pendulum-v1", **given.pop("environment", {})}
    source_only = {k: v for k, v in given.items() if k != "start_replay"}
    source = train(tmp_path / "source", task=task, **source_only)
    more = {"task": task, "start_from": source, "loop": {"random_steps": 10}, **given}
    whole = train(tmp_path / "whole", **more)
    pieces = train(tmp_path / "pieces", callbacks=[StopAt()], **more)
    shutil.rmtree(source.folder)
    td3.resume(pieces, quiet=True)
    assert different(whole.folder, pieces.folder) == []
    assert "not exact" not in (pieces / "events.jsonl").read_text()
    assert read_facts(pieces.folder, "source") == read_facts(whole.folder, "source")


def test_run_killed_before_its_first_checkpoint_starts_again(
    source: td3.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = Path(shutil.copytree(source.folder, tmp_path / "copied"))
    whole = begin(tmp_path / "whole", copied, steps=120)
    killed = begin(tmp_path / "killed", copied, steps=60)
    for name in ("checkpoints", "policy"):
        shutil.rmtree(killed / name)
    (killed / "events.jsonl").write_text("")
    hidden = copied.rename(tmp_path / "hidden")
    assert main(["resume", str(killed), "--steps", "120", "--quiet"]) == 2
    assert "does not exist" in capsys.readouterr().err
    hidden.rename(copied)
    td3.resume(copied, steps=210, quiet=True)
    with pytest.raises(td3.UserError, match="has changed since then"):
        td3.resume(killed, steps=120, quiet=True)
    shutil.rmtree(copied)
    shutil.copytree(source.folder, copied)
    td3.resume(killed, steps=120, quiet=True)
    assert different(whole.folder, killed.folder) == []


def test_start_from_maps_agents_of_populations(source: td3.Run, tmp_path: Path) -> None:
    three = train(tmp_path / "three", seeds=3)
    best = max(range(3), key=lambda k: td3.load_policy(three, k).mean_return)
    for count, given, expected in ((3, three, [0, 1, 2]), (2, source, [0, 0]), (1, three, [best])):
        run = begin(tmp_path / f"run-{count}", given, seeds=count)
        assert read_facts(run.folder, "source")["agents"] == expected
        before, (after, _) = learned(given), start_of(run)
        for name in ("actor.layer_1.weight", "critic_target.layer_3.bias", "actor_optimizer.mean"):
            for key in (key for key in after if key.startswith(name)):
                assert torch.equal(after[key], before[key][expected]), key


@pytest.mark.parametrize(
    "change",
    [
        reshaped("agent/actor.layer_1.bias", lambda tensor: tensor / 0),
        set_to("actor.layer_1.bias", torch.zeros(1)),
    ],
)
def test_start_from_checkpoint_with_wrong_tensors_uses_the_one_before(
    change: Change, source: td3.Run, tmp_path: Path
) -> None:
    shutil.copytree(source.folder, tmp_path / "damaged")
    change(tmp_path / "damaged")
    run = train(tmp_path / "new", start_from=tmp_path / "damaged")
    assert read_facts(run.folder, "source")["step"] == 100


def test_start_from_policy_takes_the_actor_only(source: td3.Run, tmp_path: Path) -> None:
    policy = source / "policy/agent-0-last.safetensors"
    run = begin(tmp_path / "run", policy, seeds=2)
    after, _ = start_of(run)
    tensors = td3.load_policy(policy).tensors
    for name, array in tensors.items():
        for own in (name, name.replace("actor.", "actor_target.")):
            assert (after[own].numpy() == np.asarray(array)).all(), own
    critics = after["critic.layer_1.weight"]
    assert not torch.equal(critics[0], critics[1])
    assert not after["actor_optimizer.count"].any()
    assert read_facts(run.folder, "source")["kind"] == "policy"


def test_start_from_names_a_pretrained_policy(tmp_path: Path) -> None:
    given = {"task": "InvertedPendulum-v5", "agent": {"hidden_sizes": [256, 256]}}
    run = begin(tmp_path / "run", "InvertedPendulum-v5", **given)
    after, _ = start_of(run)
    expected = td3.load_policy(pretrained="InvertedPendulum-v5").tensors["actor.layer_2.weight"]
    assert (after["actor.layer_2.weight"].numpy() == np.asarray(expected)).all()


def test_start_replay_copies_transitions_and_stacks(tmp_path: Path) -> None:
    task = {"id": "Pendulum-v1", "frame_stack": 3}
    source = train(tmp_path / "source", task=task, agent={"n_step": 2})
    given = {"task": task, "agent": {"n_step": 2}, "start_replay": True, "seeds": 2}
    run = begin(tmp_path / "run", source, **given)
    _, replay = start_of(run)
    before = td3.load_run(source).replay
    assert replay.sizes.tolist() == before.sizes.tolist() * 2
    drawn = before.draw(32)
    expected = before.gather(drawn)
    for part, right in zip(replay.gather(np.repeat(drawn, 2, axis=0)), expected, strict=True):
        assert torch.equal(part, right.expand_as(part))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agent": {"hidden_sizes": [8, 9]}}, "agent.hidden_sizes 8 8, and this run has 8 9"),
        ({"variant": "huber"}, "variant.name none, and this run has huber"),
        ({"task": "MountainCarContinuous-v0"}, "does not fit MountainCarContinuous-v0"),
        ({"loop": {"replay_size": 99}, "start_replay": True}, "loop.replay_size 150, and this run"),
        ({"start_from": "", "start_replay": True}, "start_replay needs start_from"),
        ({"start_from": "no-such-run"}, "does not exist"),
        ({"policy": True, "start_replay": True}, "has no replay buffer"),
        ({"policy": True, "agent": {"hidden_sizes": [9, 8]}}, "agent.hidden_sizes 8 8"),
        ({"policy": True, "task": "MountainCarContinuous-v0"}, "actor.layer_1.weight is"),
        ({"bare": True}, "has no checkpoint to start from"),
    ],
)
def test_start_from_what_does_not_fit_is_refused(
    changes: dict[str, Any], message: str, source: td3.Run, tmp_path: Path
) -> None:
    given = {"start_from": source, **changes}
    if given.pop("policy", False):
        given["start_from"] = source / "policy/agent-0.safetensors"
    if given.pop("bare", False):
        given["start_from"] = tmp_path / "bare"
        shutil.copytree(source.folder, tmp_path / "bare", ignore=lambda *_: {"checkpoints"})
    with pytest.raises(td3.UserError, match=message) as caught:
        train(tmp_path / "run", **given)
    assert str(caught.value).count(". ") == 0
    assert not (tmp_path / "run").exists()


def test_start_from_a_critic_with_other_bins_is_refused(tmp_path: Path) -> None:
    short = {"steps": 60, "loop": {"random_steps": 50}, "evaluation": {"every": 60}}
    source = train(tmp_path / "source", variant={"name": "lean", "limit": 5.0}, **short)
    other = {"variant": {"name": "lean", "limit": 10.0}, **short}
    with pytest.raises(td3.UserError, match=r"variant.limit 5.0, and this run has 10.0"):
        train(tmp_path / "run", start_from=source, **other)
    train(tmp_path / "actor", start_from=source / "policy/agent-0.safetensors", **other)


def test_from_on_the_command_line_equals_python(source: td3.Run, tmp_path: Path) -> None:
    """The flag has the same meaning as the argument, and a short name."""
    python = train(tmp_path / "python", start_from=source)
    text = (python / "config.toml").read_text()
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(text[: text.index("[versions]")].replace(str(source), ""))
    words = ["train", "--recipe", str(recipe), "--run", str(tmp_path / "command"), "--quiet"]
    assert main([*words, "--from", str(source)]) == 0
    assert different(python.folder, tmp_path / "command") == []
