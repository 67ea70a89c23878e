"""Run folders after errors: nothing is lost, and the message explains the error."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from support.run_tools import command, different, flags, tiny, train_in_pieces

from td3.api.train import train
from td3.errors import RunBusy, RunStopped, UserError
from td3.launch.resume import resume
from td3.launch.start import start
from td3.report.summary import read_runs
from td3.run import manifest


class Unpredictable(gym.Env[np.ndarray[Any, Any], np.ndarray[Any, Any]]):
    """Episodes have a random length in spite of the seed; a step after the end fails."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    chance = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.over = False
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        assert not self.over, "stepped after its end"
        self.over = bool(self.chance.random() < 0.05)
        return np.zeros(1, np.float32), 1.0, self.over, False, {}


class Raising(Unpredictable):
    def step(self, action: Any) -> Any:
        raise ZeroDivisionError("the simulator\nfell over")


class Verbose(Unpredictable):
    def step(self, action: Any) -> Any:
        raise ZeroDivisionError("x" * 2_000_000)


gym.register("Unpredictable-v0", entry_point=Unpredictable)
gym.register("Raising-v0", entry_point=Raising)
gym.register("Verbose-v0", entry_point=Verbose)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    train_in_pieces(tiny(loop={"steps": 300}), tmp_path / "run", [])
    return tmp_path / "run"


def test_resume_finished_run_without_checkpoint_is_refused(tmp_path: Path) -> None:
    loop = {"steps": 60, "random_steps": 20}
    folder = train("Pendulum-v1", "quick", run=tmp_path / "run", loop=loop, threads=1).folder
    metrics = (folder / "metrics.jsonl").read_bytes()
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(UserError, match="has no checkpoints; it cannot be continued"):
        resume(folder)
    assert (folder / "metrics.jsonl").read_bytes() == metrics


def test_resume_run_without_checkpoints_is_refused(run: Path) -> None:
    metrics = (run / "metrics.jsonl").read_bytes()
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(UserError, match="has no checkpoints; it cannot be continued"):
        resume(run, steps=400)
    assert (run / "metrics.jsonl").read_bytes() == metrics


def test_resume_before_first_checkpoint_starts_again(run: Path, tmp_path: Path) -> None:
    early = tmp_path / "early"
    shutil.copytree(run, early)
    shutil.rmtree(early / "checkpoints")
    shutil.rmtree(early / "replay")
    lines = (early / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (early / "metrics.jsonl").write_bytes(lines[0] + lines[1][:20])
    assert resume(early) == 0
    assert different(run, early) == []


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        ("hidden_sizes = [16, 16]", "hidden_sizes = [8, 8]", "agent.hidden_sizes"),
        ("seeds = 1", "seeds = 2", "seeds"),
        ("replay_size = 400", "replay_size = 100", "loop.replay_size"),
        ("log_every = 70", "log_every = 0", "loop.log_every"),
        ("reward_scale = 1.0", "reward_scale = 2.0", "environment.reward_scale"),
    ],
)
def test_resume_with_incompatible_setting_names_it(
    run: Path, before: str, after: str, key: str
) -> None:
    settings = run / "config.toml"
    assert before in settings.read_text()
    settings.write_text(settings.read_text().replace(before, after))
    with pytest.raises(UserError, match=key):
        resume(run, steps=400)


def test_resume_with_changed_setting_is_marked_not_exact(run: Path) -> None:
    settings = run / "config.toml"
    settings.write_text(settings.read_text().replace("tau = 0.005", "tau = 0.01"))
    assert resume(run, steps=400) == 0
    assert "not exact: agent.tau was 0.005, is 0.01" in (run / "events.jsonl").read_text()


def test_damaged_checkpoint_does_not_replace_a_good_one(run: Path) -> None:
    (run / "checkpoints/000000300/state.safetensors").write_bytes(b"")
    (run / "checkpoints/.writing-000000400").mkdir()
    assert resume(run, steps=350) == 0
    left = sorted(folder.name for folder in (run / "checkpoints").iterdir())
    assert left == ["000000300", "000000350"]
    for name in left:
        manifest.read_manifest(run / "checkpoints" / name)
        assert (run / "checkpoints" / name / "state.safetensors").stat().st_size > 1000


def test_environment_that_ends_at_another_step_is_reported(tmp_path: Path) -> None:
    config = tiny(environment={"id": "Unpredictable-v0"}, checkpoint={"every": 1000})
    remarks = train_in_pieces(config, tmp_path / "run", [333])
    assert len(remarks) == 1
    assert remarks[0].startswith("not exact: Unpredictable-v0 is not deterministic")


def test_simulator_that_raises_ends_the_run_with_one_line(tmp_path: Path) -> None:
    config = tiny(environment={"id": "Raising-v0"})
    with pytest.raises(RunStopped) as caught:
        start(config, tmp_path / "run")
    assert "raised ZeroDivisionError: the simulator (test_folder.py, line " in str(caught.value)
    events = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
    found = "\n".join(json.loads(events[-1])["traceback"])
    assert "in step" in found
    assert "test_folder.py" in found
    assert "\n" not in str(caught.value)


def test_simulator_with_an_endless_message_leaves_a_run_that_can_be_read(tmp_path: Path) -> None:
    config = tiny(environment={"id": "Verbose-v0"})
    with pytest.raises(RunStopped) as caught:
        start(config, tmp_path / "run")
    assert len(str(caught.value)) < 1000
    assert "Continue with: td3 resume" in str(caught.value)
    assert (tmp_path / "run/events.jsonl").stat().st_size < 20_000
    assert read_runs([tmp_path / "run"])


def test_ctrl_c_with_gymnasium_workers_saves_and_exits_130(tmp_path: Path) -> None:
    """A terminal sends Ctrl-C to the whole process group."""
    config = tiny(
        environment={"vectorization": "async", "count": 2},
        loop={"steps": 50_000},
        checkpoint={"every": 100_000},
    )
    process = subprocess.Popen(
        command("train", *flags(config), "--run", str(tmp_path / "run"), "--quiet"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    events = tmp_path / "run" / "events.jsonl"
    deadline = time.monotonic() + 60
    while not (events.exists() and "progress" in events.read_text()):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, problem = process.communicate(timeout=60)
    assert process.returncode == 130, problem.decode()
    assert b"Traceback" not in problem
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 1


def test_refused_resume_changes_nothing(run: Path) -> None:
    before = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(before + before[:100])
    with pytest.raises(UserError, match="already has 300 steps"):
        resume(run, steps=200)
    assert (run / "metrics.jsonl").read_bytes() == before + before[:100]


def test_start_in_locked_folder_leaves_it_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(folder: Path) -> None:
        raise RunBusy(f"{folder} is in use by process 1; stop that one first.")

    monkeypatch.setattr("td3.launch.session.lock_run", busy)
    with pytest.raises(RunBusy):
        start(tiny(), tmp_path / "run")
    assert (tmp_path / "run" / "config.toml").exists()


def test_tracker_that_cannot_start_leaves_no_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "WANDB_MODE": "online", "WANDB_API_KEY": "", "HOME": str(tmp_path)}
    done = subprocess.run(
        command("train", *flags(tiny()), "--run", str(tmp_path / "run"), "--track", "wandb"),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2, done.stderr
    assert "--track wandb could not start" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


class Breaking:
    """A sink that accepts a few records and then fails."""

    def __init__(self, records: int) -> None:
        self.left, self.seen = records, 0

    def write(self, record: dict[str, Any]) -> None:
        self.seen += 1
        self.left -= 1
        if self.left < 0:
            raise BrokenPipeError(32, "Broken pipe")

    def step(self, step: int) -> None:
        if self.left < 0:
            raise OSError("broken sink")

    def phase(self, doing: str) -> None:
        pass

    def stopping(self) -> bool:
        return False

    def close(self) -> None:
        raise RuntimeError("closed twice")


def warnings_of(folder: Path) -> list[str]:
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    return [event["message"] for event in events if event["event"] == "warning"]


def test_tracker_that_fails_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, shown = Breaking(3), Breaking(10_000)
    monkeypatch.setattr("td3.launch.session.make_tracker", lambda *given: broken)
    folder, code = start(tiny(track=["wandb"]), tmp_path / "run", display=shown)
    assert code == 0
    assert broken.seen == 4
    assert warnings_of(folder) == ["wandb failed and was disabled: [Errno 32] Broken pipe"]
    assert shown.seen > 10


@pytest.mark.parametrize("records", [0, 4])
def test_display_that_fails_does_not_end_the_run(records: int, tmp_path: Path) -> None:
    folder, code = start(tiny(), tmp_path / "run", display=Breaking(records))
    assert code == 0
    assert warnings_of(folder) == ["The display failed and was disabled: [Errno 32] Broken pipe"]


def test_closed_stderr_does_not_end_the_run(tmp_path: Path) -> None:
    words = command("train", *flags(tiny()), "--run", str(tmp_path / "run"))
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.stderr.close()
        process.wait(60)
    assert different(tmp_path / "run", whole_run(tmp_path)) == []
    assert len(warnings_of(tmp_path / "run")) == 1


def whole_run(tmp_path: Path) -> Path:
    train_in_pieces(tiny(), tmp_path / "whole", [])
    return tmp_path / "whole"
