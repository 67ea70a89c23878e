"""A run that is stopped at any moment and resumed has the same numbers."""

import dataclasses
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from support.long import some
from support.run_tools import (
    RecordingDisplay,
    begin,
    command,
    different,
    flags,
    resume,
    tiny,
    train_in_pieces,
    wait_for_event,
)
from support.simulated_device import simulate_device

from td3.execution.gpu.learner import GpuLearner
from td3.launch.session import open_training
from td3.report.summary import read_run
from td3.run.folder import create
from td3.signals import StopRequest

WALKER = {"environment": {"id": "BipedalWalker-v3"}}
VARIANTS: dict[str, dict[str, Any]] = {
    "pendulum": {},
    "four agents": {"seeds": 4},
    "after each episode": {"loop": {"update": "episode"}, "seeds": 2},
    "three environments": {"environment": {"count": 3}},
    "normalised, rewards scaled": {
        "environment": {"normalize_observations": True, "reward_scale": 0.1}
    },
    "cheetah": {"environment": {"id": "HalfCheetah-v5"}, "loop": {"steps": 400}},
    "walker, whose used object differs": WALKER,
    "ring never full": {"loop": {"replay_size": 10_000}},
    "pictures and numbers": {
        "environment": {"id": "support.find:Find-v0", "frame_stack": 2, "count": 2},
        "agent": {"channels": [4, 4], "features": 8, "random_shift": 1, "n_step": 2},
        "seeds": 2,
    },
    "pendulum from pixels": {
        "environment": {"pixels": True, "resize": 16, "grey": True, "frame_stack": 3},
        "agent": {"channels": [4, 4], "features": 8},
        "loop": {"steps": 400},
    },
    "prioritized replay": {"variant": "lap", "seeds": 2},
    "random subsets of critics": {"variant": "ensemble", "seeds": 2},
    "flash, noise held": {
        "variant": {"name": "flash", "critic_width": 8, "actor_width": 8, "bins": 11},
        "agent": {"learning_rate_schedule": "cosine"},
        "loop": {"exploration": "zeta"},
        "seeds": 2,
    },
    "lean, limits of a grid": {
        "variant": {"name": "lean", "bins": 11},
        "environment": {"normalize_observations": True, "count": 3},
        "loop": {"exploration": "zeta"},
        "grid": {"variant.limit": [2.0, 5.0]},
    },
    "grid over a setting of the variant": {
        "variant": "huber",
        "grid": {"variant.delta": [0.5, 1.0], "agent.tau": [0.01, 0.1]},
    },
    "class of a module, numbers from info": {
        "environment": {
            "id": "support.worker_tasks:Counting",
            "info": ["is_success", "pull", "absent"],
            "count": 2,
        },
        "loop": {"log_every": 64},
    },
    "stacked numbers, three steps ahead": {
        "environment": {"frame_stack": 3},
        "agent": {"n_step": 3},
        "loop": {"replay_size": 90},
    },
}


QUICK = [
    "four agents",
    "after each episode",
    "normalised, rewards scaled",
    "walker, whose used object differs",
    "pictures and numbers",
    "prioritized replay",
    "grid over a setting of the variant",
    "stacked numbers, three steps ahead",
]


@pytest.mark.parametrize("variant", some(VARIANTS, *QUICK))
def test_run_in_pieces_equals_run_in_one(variant: str, tmp_path: Path) -> None:
    config = tiny(**VARIANTS[variant])
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert train_in_pieces(config, whole, []) == []
    assert train_in_pieces(config, pieces, [37, 100, 163, 165, 330]) == []
    assert different(whole, pieces) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    ("variant", "precision"),
    [
        ("pendulum", "tf32"),
        ("four agents", "tf32"),
        ("after each episode", "tf32"),
        ("three environments", "tf32"),
        ("normalised, rewards scaled", "tf32"),
        ("pictures and numbers", "tf32"),
        ("pendulum from pixels", "tf32"),
        ("pendulum from pixels", "bf16"),
    ],
)
def test_run_in_pieces_on_gpu_equals_run_in_one(
    variant: str, precision: str, tmp_path: Path
) -> None:
    config = tiny(**VARIANTS[variant], device="cuda", precision=precision)
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert train_in_pieces(config, whole, []) == []
    assert train_in_pieces(config, pieces, [163, 330]) == []
    assert different(whole, pieces) == []


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    _, output = process.communicate()
    return process.returncode, output


def test_resume_after_kill_before_first_checkpoint_starts_again(tmp_path: Path) -> None:
    """Three environments step over a multiple: the record before the checkpoint has step 102."""
    config = tiny(environment={"count": 3}, evaluation={"every": 100})
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert train_in_pieces(config, whole, []) == []
    with open_training(config, create(config, killed), None) as training:
        training.save = lambda: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            training.loop(StopRequest())
    assert '"step": 102' in (killed / "metrics.jsonl").read_text()
    assert ended(resume(killed)) == (0, b"")
    assert different(whole, killed) == []


def test_resume_after_kill_before_finish_event_writes_it(tmp_path: Path) -> None:
    folder, config = tmp_path / "run", tiny()
    assert ended(begin(config, folder)) == (0, b"")
    events = folder / "events.jsonl"
    whole, metrics = events.read_text().splitlines(), (folder / "metrics.jsonl").read_bytes()
    events.write_text("\n".join(whole[:-1]) + "\n")
    assert read_run(folder).status == "unfinished"
    assert ended(resume(folder)) == (0, b"")
    assert read_run(folder).status == "finished"
    assert (folder / "metrics.jsonl").read_bytes() == metrics
    code, output = ended(resume(folder))
    assert code == 2
    assert b"is finished" in output


def test_run_with_another_seed_differs(tmp_path: Path) -> None:
    train_in_pieces(tiny(), tmp_path / "one", [])
    train_in_pieces(tiny(seed=1), tmp_path / "other", [])
    assert "agent/actor.layer_1.weight" in different(tmp_path / "one", tmp_path / "other")


def test_run_with_the_same_seed_is_identical(tmp_path: Path) -> None:
    train_in_pieces(tiny(), tmp_path / "one", [])
    train_in_pieces(tiny(), tmp_path / "again", [])
    assert different(tmp_path / "one", tmp_path / "again") == []


def test_resume_with_more_steps_equals_longer_run(tmp_path: Path) -> None:
    """300 steps continued to 600 equal a run of 600, except for the evaluation at step 300."""
    train_in_pieces(tiny(), tmp_path / "long", [])
    train_in_pieces(tiny(loop={"steps": 300}), tmp_path / "short", [])
    subprocess.run(
        command("resume", str(tmp_path / "short"), "--steps", "600", "--quiet"), check=True
    )
    assert different(tmp_path / "long", tmp_path / "short") == []


def test_ctrl_c_saves_and_exits_130(tmp_path: Path) -> None:
    config = tiny(loop={"steps": 50_000}, checkpoint={"every": 100_000})
    process = begin(config, tmp_path / "run")
    wait_for_event(tmp_path / "run", "progress", process)
    process.send_signal(signal.SIGINT)
    _, problem = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in problem
    folders = list((tmp_path / "run" / "checkpoints").iterdir())
    assert len(folders) == 1
    assert 0 < int(folders[0].name) < 50_000
    assert not list(tmp_path.rglob(".writing-*"))


def test_ctrl_c_twice_exits_at_once_and_loses_nothing(tmp_path: Path) -> None:
    config = tiny(loop={"steps": 50_000}, checkpoint={"every": 100})
    process = begin(config, tmp_path / "run")
    wait_for_event(tmp_path / "run", "progress", process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    after = resume(tmp_path / "run")
    wait_for_event(tmp_path / "run", "resume", after)
    after.kill()
    after.communicate()


def test_second_process_in_run_folder_is_refused(tmp_path: Path) -> None:
    process = begin(tiny(loop={"steps": 50_000}), tmp_path / "run")
    wait_for_event(tmp_path / "run", "progress", process)
    second = subprocess.run(
        command("resume", str(tmp_path / "run")), capture_output=True, text=True, check=False
    )
    process.kill()
    process.communicate()
    assert second.returncode == 2
    assert f"is in use by process {process.pid}" in second.stderr
    assert second.stderr.count("\n") == 1


def test_read_only_folder_is_refused(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = subprocess.run(
        command("train", *flags(tiny()), "--run", str(blocked / "run")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("td3: Cannot write to")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "variant",
    [
        "pendulum",
        "four agents",
        "after each episode",
        "three environments",
        "normalised, rewards scaled",
        "ring never full",
        "flash, noise held",
        "lean, limits of a grid",
    ],
)
def test_gpu_learner_in_pieces_gives_the_same_numbers(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Graphs are simulated by calls, so this covers everything except the device."""
    config = tiny(**VARIANTS[variant])
    train_in_pieces(dataclasses.replace(config, execution="eager"), tmp_path / "plain", [])
    simulate_device(monkeypatch)

    def captured(*given: Any, **options: Any) -> GpuLearner:
        return GpuLearner(*given[:4], compiled=False, fused=False, **options)

    monkeypatch.setattr("td3.launch.assembly.make_learner", captured)
    assert train_in_pieces(config, tmp_path / "whole", []) == []
    assert different(tmp_path / "whole", tmp_path / "plain") == []
    assert train_in_pieces(config, tmp_path / "pieces", [37, 205, 206, 431]) == []
    assert different(tmp_path / "whole", tmp_path / "pieces") == []


def test_images_on_disk_give_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {**VARIANTS["pictures and numbers"], "loop": {"steps": 300, "replay_size": 20_000}}
    config = tiny(**own)
    held, filed = tmp_path / "held", tmp_path / "filed"
    train_in_pieces(config, held, [])
    monkeypatch.setattr("td3.run.memory.available_bytes", lambda: 8_000_000)
    train_in_pieces(config, filed, [120])
    assert not (filed / "replay.images").exists()
    assert different(held, filed) == []
    display = RecordingDisplay()
    with open_training(config, filed, display) as training:
        assert training.replay.file == filed / "replay.images"  # type: ignore[attr-defined]
    assert any("on disk" in message for message in display.messages)
    monkeypatch.undo()
    (filed / "replay.images").write_bytes(b"left by a run that was killed")
    with open_training(config, filed, display):
        assert not (filed / "replay.images").exists()
