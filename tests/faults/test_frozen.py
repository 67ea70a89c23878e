"""An agent that diverges is frozen and does not affect the other agents."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support.run_tools import different, tiny, train_in_pieces
from support.simulated_device import simulate_device

from td3.algorithm.images.frame_replay import FrameReplay
from td3.algorithm.replay import ReplayBuffer
from td3.config import Config
from td3.errors import RunStopped, UserError
from td3.execution.gpu.learner import GpuLearner
from td3.launch.resume import resume
from td3.launch.session import open_training
from td3.launch.start import start
from td3.policy.load import load_policy
from td3.report.summary import read_run
from td3.run.checkpoint import newest_checkpoint
from td3.run.folder import create
from td3.signals import StopRequest
from td3.training.loop import Training

PICTURES: dict[str, Any] = {
    "environment": {"id": "support.find:Find-v0", "frame_stack": 2},
    "agent": {"channels": [4, 4], "features": 8, "random_shift": 1, "n_step": 2},
    "loop": {"steps": 400},
}
RATE, SCALE = "agent.critic_learning_rate", "environment.reward_scale"


def population(key: str, last: float, **tables: Any) -> Config:
    """Two seeds with a value that learns, and two with `last`."""
    return tiny(grid={key: [1e-3, last]}, seeds=2, **tables)


def trained(config: Config, folder: Path) -> Training:
    with open_training(config, create(config, folder), None) as training:
        training.loop(StopRequest())
    return training


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def records_of(folder: Path, agent: int) -> list[dict[str, Any]]:
    found = [record for record in lines(folder, "metrics") if record["agent"] == agent]
    return [{k: v for k, v in record.items() if k != "settings"} for record in found]


@pytest.mark.parametrize(
    ("key", "diverging", "why"),
    [
        (RATE, 1e30, "its action is no longer finite"),
        (SCALE, 1e25, "its critic_loss is inf"),
        (SCALE, 1e38, "its reward is too large to store"),
    ],
)
@pytest.mark.parametrize("update", ["step", "episode"])
def test_frozen_agent_does_not_change_the_others(
    key: str, diverging: float, why: str, update: str, tmp_path: Path
) -> None:
    tables: dict[str, Any] = {"loop": {"update": update}}
    healthy = trained(population(key, 2e-3, **tables), tmp_path / "healthy")
    broken = trained(population(key, diverging, **tables), tmp_path / "broken")
    assert healthy.population.frozen.tolist() == [False] * 4
    assert broken.population.frozen.tolist() == [False, False, True, True]
    for agent in (0, 1):
        mine, theirs = (run.agent.member(agent).tensors() for run in (healthy, broken))
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
        assert healthy.replay.rows is not None
        assert broken.replay.rows is not None
        assert torch.equal(healthy.replay.rows[agent], broken.replay.rows[agent])
        assert records_of(tmp_path / "healthy", agent) == records_of(tmp_path / "broken", agent)
    frozen = [event for event in lines(tmp_path / "broken", "events") if event["event"] == "frozen"]
    assert sorted((event["agent"], event["seed"]) for event in frozen) == [(2, 0), (3, 1)]
    assert all(event["settings"] == {key: diverging} for event in frozen)
    if update == "step":  # after an episode's updates, another check may report it first
        assert {event["message"] for event in frozen} == {why}


def test_frozen_agent_does_not_change_the_others_with_images(tmp_path: Path) -> None:
    healthy = trained(population(RATE, 2e-3, **PICTURES), tmp_path / "healthy")
    broken = trained(population(RATE, 1e30, **PICTURES), tmp_path / "broken")
    assert broken.population.frozen.tolist() == [False, False, True, True]
    assert isinstance(broken.replay, FrameReplay)
    assert isinstance(healthy.replay, FrameReplay)
    assert not broken.replay.images[2:].any()
    for agent in (0, 1):
        mine, theirs = (run.agent.member(agent).tensors() for run in (healthy, broken))
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
        assert torch.equal(healthy.replay.images[agent], broken.replay.images[agent])
        assert records_of(tmp_path / "healthy", agent) == records_of(tmp_path / "broken", agent)


def test_frozen_agent_has_only_finite_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    config = population(RATE, 1e30, environment={"normalize_observations": True})
    training = trained(config, folder)
    found = newest_checkpoint(folder, ReplayBuffer(400, seed=config.agent_seeds))
    assert found is not None
    assert found.step == 600
    assert found.facts["frozen"] == [2, 3]
    assert all(bool(torch.isfinite(tensor).all()) for tensor in found.tensors.values())
    assert not training.agent.member(2).critic.flat.any()
    assert not training.agent.member(2).critic_optimizer.square.any()
    when = read_run(folder).frozen[2]
    assert records_of(folder, 2)[-1]["step"] <= when < 110
    assert load_policy(folder, agent=2).card["settings"] == {RATE: 1e30}


@pytest.mark.parametrize("stops", [[90], [104], [150, 350]])
@pytest.mark.parametrize(
    "tables", [{}, {"environment": {"normalize_observations": True}}, PICTURES]
)
def test_resume_keeps_agent_frozen_and_others_exact(
    stops: list[int], tables: dict[str, Any], tmp_path: Path
) -> None:
    config = population(RATE, 1e30, **tables)
    train_in_pieces(config, tmp_path / "whole", [])
    assert train_in_pieces(config, tmp_path / "pieces", stops) == []
    assert different(tmp_path / "whole", tmp_path / "pieces") == []
    whole, pieces = (read_run(tmp_path / name).frozen for name in ("whole", "pieces"))
    assert whole == pieces
    assert sorted(whole) == [2, 3]


@pytest.mark.parametrize(("key", "diverging"), [(RATE, 1e30), (SCALE, 1e30), (SCALE, 1e25)])
def test_gpu_learner_freezes_the_same_agent(
    key: str, diverging: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Graphs are simulated by calls. The next actions were chosen before the agent froze."""
    config = population(key, diverging, agent={"actor_learning_rate": 0.1})
    plain = trained(dataclasses.replace(config, execution="eager"), tmp_path / "plain")
    simulate_device(monkeypatch)
    monkeypatch.setattr(
        "td3.launch.assembly.make_learner",
        lambda *given, **options: GpuLearner(*given[:4], compiled=False, fused=False, **options),
    )
    captured = trained(config, tmp_path / "captured")
    for stop in sorted(set(read_run(tmp_path / "captured").frozen.values())):
        short = dataclasses.replace(config, loop=dataclasses.replace(config.loop, steps=stop + 5))
        whole, pieces = tmp_path / f"whole-{stop}", tmp_path / f"pieces-{stop}"
        assert train_in_pieces(short, whole, []) == []
        assert train_in_pieces(short, pieces, [stop]) == []
        assert different(whole, pieces) == []
    assert plain.population.frozen.tolist() == captured.population.frozen.tolist()
    assert different(tmp_path / "plain", tmp_path / "captured") == []
    assert captured.replay.rows is not None
    assert captured.replay.rows[:2].any()
    assert not captured.replay.rows[2:].any()


def test_run_fails_when_all_agents_diverged(tmp_path: Path) -> None:
    config = tiny(grid={RATE: [1e30, 2e30]})
    with pytest.raises(RunStopped, match=r"Seed 0 with critic_learning_rate 2e\+30 diverged: its"):
        start(config, tmp_path / "run")
    assert sorted(read_run(tmp_path / "run").frozen) == [0]


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ("[0.001, 1e-05]", r"grid.agent.critic_learning_rate was \(0.001, 0.002\) .* is now"),
        ("[0.002, 0.001]", r"grid.agent.critic_learning_rate was"),
    ],
)
def test_resume_with_another_grid_is_refused(now: str, message: str, tmp_path: Path) -> None:
    train_in_pieces(population(RATE, 2e-3, loop={"steps": 200}), tmp_path / "run", [])
    settings = tmp_path / "run" / "config.toml"
    settings.write_text(settings.read_text().replace("[0.001, 0.002]", now))
    with pytest.raises(UserError, match=message):
        resume(tmp_path / "run", steps=300)


def test_resume_ignores_plain_value_of_a_grid_setting(tmp_path: Path) -> None:
    """The grid sets the value of every member, so nothing changes."""
    train_in_pieces(population(RATE, 2e-3, loop={"steps": 200}), tmp_path / "run", [])
    settings = tmp_path / "run" / "config.toml"
    text = settings.read_text()
    changed = re.sub(r"(?m)^critic_learning_rate = .*", "critic_learning_rate = 0.5", text)
    assert changed != text
    settings.write_text(changed)
    resume(tmp_path / "run", steps=300)
    assert "learning_rate" not in (tmp_path / "run" / "events.jsonl").read_text()


def test_resume_with_more_agents_is_refused(tmp_path: Path) -> None:
    train_in_pieces(tiny(loop={"steps": 200}), tmp_path / "run", [])
    settings = tmp_path / "run" / "config.toml"
    settings.write_text(settings.read_text().replace("[grid]", '[grid]\n"agent.tau" = [0.1, 0.2]'))
    with pytest.raises(UserError, match=r"grid\.agent\.tau was None"):
        resume(tmp_path / "run", steps=300)


def test_resume_with_fewer_agents_is_refused(tmp_path: Path) -> None:
    train_in_pieces(population(RATE, 2e-3, loop={"steps": 200}), tmp_path / "run", [])
    settings = tmp_path / "run" / "config.toml"
    settings.write_text(settings.read_text().replace("[0.001, 0.002]", "[0.001]"))
    with pytest.raises(UserError, match=r"grid\.agent\.critic_learning_rate was .* is now"):
        resume(tmp_path / "run", steps=300)


@pytest.mark.parametrize("kind", ["one of two", "the only one"])
def test_agent_without_finite_actions_is_frozen_by_evaluation(kind: str, tmp_path: Path) -> None:
    """Finite weights may still give infinite sums."""
    config = tiny(seeds=2 if kind == "one of two" else 1)
    with open_training(config, create(config, tmp_path / "run"), None) as training:
        while training.step < 120:
            training.advance()
        with torch.no_grad():
            training.agent.actor.flat[-1].sign_().mul_(1e38)  # infinity minus infinity
        if kind == "the only one":
            with pytest.raises(RunStopped, match="Seed 0 diverged: its policy gives actions"):
                training.evaluate()
            return
        training.evaluate()
        assert training.population.frozen.tolist() == [False, True]
    records = lines(tmp_path / "run", "metrics")
    evaluated = [r["agent"] for r in records if r["kind"] == "evaluation"]
    assert evaluated == [0]
    (frozen,) = [e for e in lines(tmp_path / "run", "events") if e["event"] == "frozen"]
    assert frozen["message"] == "its policy gives actions that are not finite"
