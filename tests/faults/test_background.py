"""Whole runs with evaluations in the background, as on a GPU."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.long import some
from support.run_tools import ELSEWHERE, StopAt, different, flags, tiny, train_in_pieces

from td3.algorithm.replay import ReplayBuffer
from td3.errors import RunStopped
from td3.launch.session import open_training
from td3.run.checkpoint import newest_checkpoint
from td3.run.folder import create
from td3.signals import StopRequest
from td3.training import background_evaluation as evaluations

VARIANTS: dict[str, dict[str, Any]] = {
    "pendulum": {},
    "eleven agents": {"seeds": 11, "loop": {"steps": 350}},
    "after each episode": {"loop": {"update": "episode"}, "seeds": 2},
    "normalised": {"environment": {"normalize_observations": True}},
    "walker, whose used object differs": {"environment": {"id": "BipedalWalker-v3"}},
    "one that diverges": {"grid": {"agent.critic_learning_rate": [1e-3, 1e30]}},
}
STOPS = [37, 100, 163, 330]


@pytest.fixture
def background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluations, "in_background", lambda device: True)


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("variant", some(VARIANTS, "normalised", "one that diverges"))
@pytest.mark.usefixtures("background")
def test_background_run_in_pieces_equals_run_in_one(variant: str, tmp_path: Path) -> None:
    config = tiny(**VARIANTS[variant])
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert train_in_pieces(config, whole, []) == []
    assert train_in_pieces(config, pieces, STOPS) == []
    assert different(whole, pieces) == []


@pytest.mark.parametrize("variant", some(VARIANTS, "pendulum", "after each episode"))
def test_background_run_differs_from_loop_run_only_in_record_order(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(**VARIANTS[variant])
    train_in_pieces(config, tmp_path / "loop", [])
    monkeypatch.setattr(evaluations, "in_background", lambda device: True)
    train_in_pieces(config, tmp_path / "background", [])
    assert different(tmp_path / "loop", tmp_path / "background") == ["metrics"]
    first, second = records(tmp_path / "loop"), records(tmp_path / "background")
    for kind in ("train", "evaluation"):
        assert [r for r in first if r["kind"] == kind] == [r for r in second if r["kind"] == kind]


@pytest.mark.usefixtures("background")
def test_background_results_are_recorded_when_next_evaluation_starts(tmp_path: Path) -> None:
    train_in_pieces(tiny(), tmp_path / "run", [])
    order = [(record["kind"][0], record["step"]) for record in records(tmp_path / "run")]
    assert order == [
        ("t", 70),
        ("t", 140),
        ("e", 0),
        ("t", 210),
        ("t", 280),
        ("e", 150),
        ("t", 350),
        ("t", 420),
        ("e", 300),
        ("t", 490),
        ("t", 560),
        ("e", 450),
        ("e", 600),
    ]


@pytest.mark.usefixtures("background")
def test_checkpoint_during_evaluation_does_not_wait_and_saves_it(tmp_path: Path) -> None:
    """The evaluator hangs in its first step; a checkpoint is still written."""
    task = {"id": "stuck_task:Stuck-v0"}
    (tmp_path / "stuck_task.py").write_text(STUCK)
    sys.path.insert(0, str(tmp_path))
    config = tiny(environment=task, evaluation={"every": 5_000}, seeds=2)
    with open_training(config, create(config, tmp_path / "run"), None) as training:
        while training.step < 100:
            if training.step == 0:
                training.evaluate()
            training.advance()
        training.save()
    sys.path.remove(str(tmp_path))
    checkpoint = newest_checkpoint(tmp_path / "run", ReplayBuffer(400, seed=config.agent_seeds))
    assert checkpoint is not None
    assert checkpoint.facts["evaluating"] == 0
    held = {name for name in checkpoint.tensors if name.startswith("evaluation/")}
    assert len(held) == 2 * 6
    assert "evaluation/1.actor.layer_3.bias" in held
    assert records(tmp_path / "run") == []


@pytest.mark.usefixtures("background")
def test_evaluator_that_hangs_ends_the_run_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stuck_task.py").write_text(STUCK)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = tiny(environment={"id": "stuck_task:Stuck-v0", "patience": 0.4})
    with open_training(config, create(config, tmp_path / "run"), None) as training:
        training.evaluate()
        (link,) = training.evaluations.links  # type: ignore[attr-defined]
        rescue = threading.Timer(20, link.process.kill)  # so that a failure does not wait for ever
        rescue.start()
        with pytest.raises(RunStopped) as caught:
            training.record_evaluations()
        rescue.cancel()
        assert link.process.wait(5) == -9
        expected = (
            "Evaluator 0 has not answered for 0.4 s; if a step may take that long, raise environ"
        )
        assert str(caught.value).startswith(expected)


@pytest.mark.usefixtures("background")
def test_evaluator_that_is_slow_but_works_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The episode takes longer than the timeout; each step is faster."""
    slow = STUCK.replace("while", "if").replace("0.01", "0.05")
    (tmp_path / "slow_task.py").write_text(slow.replace("stuck", "slow").replace("Stuck", "Slow"))
    monkeypatch.syspath_prepend(str(tmp_path))
    task = {"id": "slow_task:Slow-v0", "patience": 1.5}
    config = tiny(environment=task, evaluation={"max_steps": 80})
    with open_training(config, create(config, tmp_path / "run"), None) as training:
        training.evaluate()
        training.record_evaluations()
    assert [r["lengths"] for r in records(tmp_path / "run")] == [[80]]


STUCK = """
import time
import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv
import sys


class Stuck(PendulumEnv):
    def step(self, action):
        while "td3.training.evaluator" in sys.orig_argv:
            time.sleep(0.01)
        return super().step(action)


gym.register("Stuck-v0", entry_point="stuck_task:Stuck")
"""


@pytest.mark.usefixtures("background")
def test_finished_run_has_no_evaluation_in_progress(tmp_path: Path) -> None:
    train_in_pieces(tiny(loop={"steps": 220}), tmp_path / "run", [])
    checkpoint = newest_checkpoint(tmp_path / "run", ReplayBuffer(400, seed=0))
    assert checkpoint is not None
    assert checkpoint.facts["evaluating"] is None
    assert not any(name.startswith("evaluation/") for name in checkpoint.tensors)
    assert [r["step"] for r in records(tmp_path / "run") if r["kind"] == "evaluation"] == [
        0,
        150,
        220,
    ]


def test_resume_from_background_to_loop_loses_no_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is started on a GPU and resumed without one: no pending evaluation is lost."""
    config = tiny(seeds=3)
    train_in_pieces(config, tmp_path / "loop", [])
    create(config, tmp_path / "moved")
    for piece, (stop, elsewhere) in enumerate([(170, True), (250, False), (601, False)]):
        monkeypatch.setattr(evaluations, "in_background", lambda device, here=elsewhere: here)
        request = StopAt(stop)
        with open_training(config, tmp_path / "moved", None) as training:
            training.on_step = request
            if piece:
                assert training.restore() == []
                in_progress = (training.step, training.evaluations.step)
                assert in_progress == ((170, 150), (250, None))[piece - 1]
            training.loop(request)
    assert different(tmp_path / "loop", tmp_path / "moved") == ["metrics"]
    first, second = records(tmp_path / "loop"), records(tmp_path / "moved")
    key = lambda record: (record["step"], record["kind"], record["agent"])  # noqa: E731
    assert sorted(first, key=key) == sorted(second, key=key)


@pytest.mark.usefixtures("background")
def test_stop_saves_and_does_not_wait_for_results(tmp_path: Path) -> None:
    config = tiny()
    request = StopAt(170)
    with open_training(config, create(config, tmp_path / "run"), None) as training:
        training.on_step = request
        training.loop(request)
    recorded = [r["step"] for r in records(tmp_path / "run") if r["kind"] == "evaluation"]
    assert recorded in ([0], [0, 150])  # whether the episodes were over when the run stopped
    checkpoint = newest_checkpoint(tmp_path / "run", ReplayBuffer(400, seed=0))
    assert checkpoint is not None
    assert (checkpoint.step, checkpoint.facts["evaluating"]) == (170, 150)
    metrics = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    assert b'"step": 150' not in metrics[: checkpoint.facts["metrics_bytes"]]


@pytest.mark.usefixtures("background")
def test_killed_evaluator_ends_the_run_and_resume_continues(tmp_path: Path) -> None:
    config = tiny()
    train_in_pieces(config, tmp_path / "whole", [])
    with open_training(config, create(config, tmp_path / "killed"), None) as training:
        background = training.evaluations
        assert isinstance(background, evaluations.BackgroundEvaluation)

        def kill(step: int) -> None:
            if step == 290:
                os.kill(background.links[0].process.pid, signal.SIGKILL)

        training.on_step = kill
        with pytest.raises(RunStopped, match=r"^Evaluator 0 was killed by signal 9$"):
            training.loop(StopRequest())
        assert training.step in (300, 450)  # whether or not the evaluation of step 150 had finished
    with open_training(config, tmp_path / "killed", None) as training:
        assert training.restore() == []
        training.loop(StopRequest())
    assert different(tmp_path / "whole", tmp_path / "killed") == []


def begun(*words: str) -> "subprocess.Popen[bytes]":
    """A command with evaluations in the background, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", ELSEWHERE, *words, "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def wait_for_checkpoint(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    limit = time.monotonic() + 60
    while not list((folder / "checkpoints").glob("[0-9]*")):
        assert time.monotonic() < limit
        assert process.poll() is None
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_to_process_group_ends_run_and_evaluators(number: int, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    config = tiny(loop={"steps": 500_000}, evaluation={"every": 100_000, "episodes": 10}, seeds=3)
    process = begun("train", *flags(config), "--run", str(folder))
    wait_for_checkpoint(folder, process)
    listed = Path(f"/proc/{process.pid}/task").glob("*/children")
    children = [int(word) for path in listed for word in path.read_text().split()]
    os.killpg(process.pid, number)
    _, problem = process.communicate(timeout=60)
    assert process.returncode == 128 + number, problem.decode()
    assert b"Traceback" not in problem
    assert len(children) >= 1
    assert not any(Path(f"/proc/{child}").exists() for child in children)
