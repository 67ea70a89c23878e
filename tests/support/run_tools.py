"""Helpers to start, kill and compare runs."""

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from td3.config import Config, from_dict
from td3.environments.environment import Environment
from td3.launch.assembly import make_replay
from td3.launch.session import open_training
from td3.run.checkpoint import newest_checkpoint
from td3.run.folder import read_config
from td3.run.memory import IMAGES_FILE
from td3.signals import StopRequest
from td3.training.population import Population

TINY: dict[str, Any] = {
    "environment": {"id": "Pendulum-v1"},
    "agent": {"hidden_sizes": [16, 16], "batch_size": 16},
    "loop": {"steps": 600, "random_steps": 100, "replay_size": 400, "log_every": 70},
    "evaluation": {"every": 150, "episodes": 1},
    "checkpoint": {"every": 100},
    "device": "cpu",
}


ELSEWHERE = """
import sys
from td3.training import background_evaluation as evaluations
from td3.cli import main
evaluations.in_background = lambda device: True
sys.exit(main())
"""
"""`td3` with evaluations in the background, as on a GPU."""


def tiny(**tables: Any) -> Config:
    """A small run: TINY with these settings changed."""
    merged = {**TINY}
    for key, value in tables.items():
        merged[key] = {**TINY.get(key, {}), **value} if isinstance(value, dict) else value
    return from_dict(merged)


def flags(config: Config) -> list[str]:
    """The command-line flags for this configuration."""
    words = []
    for table in ("environment", "agent", "loop", "evaluation", "checkpoint"):
        for key, value in vars(getattr(config, table)).items():
            if key in ("id", "kwargs", "exploration_kwargs"):
                continue
            flag = f"--{table}.{key.replace('_', '-')}"
            if isinstance(value, bool):
                words += [flag] if value else []
            elif isinstance(value, tuple):
                words += [flag, *map(str, value)]
            else:
                words += [flag, str(value)]
    return [config.environment.id, *words, "--seeds", str(config.seeds), "--device", "cpu"]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "td3", *words]


def begin(config: Config, folder: Path) -> subprocess.Popen[bytes]:
    words = ["train", *flags(config), "--run", str(folder), "--quiet"]
    return subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def resume(folder: Path) -> subprocess.Popen[bytes]:
    words = ["resume", str(folder), "--quiet"]
    return subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class StopAt(StopRequest):
    """Requests a stop after this many steps, like Ctrl-C at that moment."""

    def __init__(self, done: int) -> None:
        super().__init__()
        self.done = done

    def __call__(self, step: int) -> None:
        if step >= self.done:
            self.signal = 2


def train_in_pieces(config: Config, folder: Path, stops: list[int]) -> list[str]:
    """Train in this process, stop and resume at each of `stops`; returns the remarks."""
    from td3.run.folder import create

    create(config, folder)
    remarks = []
    for piece, stop in enumerate([*stops, config.loop.steps + 1]):
        request = StopAt(stop)
        with open_training(config, folder, None) as training:
            training.on_step = request
            if piece:
                remarks += training.restore()
            training.loop(request)
    return remarks


def fingerprint(folder: Path) -> dict[str, str]:
    """Hashes of everything in a run: tensors, replay buffer, streams, metrics, policies."""
    config, _ = read_config(folder)
    environment = Environment(config.environment)
    environment.close()
    population = Population(config, torch.device("cpu"))
    replay = make_replay(config, population, environment.task, "cpu", folder / IMAGES_FILE)
    checkpoint = newest_checkpoint(folder, replay)
    assert checkpoint is not None
    own = {k.removeprefix("replay/"): t for k, t in checkpoint.tensors.items() if "replay/" in k}
    replay.restore(own)
    found = {name: hashed(t.numpy()) for name, t in checkpoint.tensors.items()}
    found |= {name: hashed(table.numpy()) for name, (table, _) in replay.tables.items()}
    found["added"] = str(replay.added.tolist())
    found["streams"] = hashlib.sha256(
        json.dumps(checkpoint.facts["streams"], sort_keys=True).encode()
    ).hexdigest()
    found["best"] = str(checkpoint.facts["best"])
    found["metrics"] = hashlib.sha256((folder / "metrics.jsonl").read_bytes()).hexdigest()
    for policy in sorted((folder / "policy").glob("*.safetensors")):
        found[policy.name] = hashlib.sha256(policy.read_bytes()).hexdigest()
    return found


def hashed(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def different(one: Path, other: Path) -> list[str]:
    """What differs between two finished runs; empty when they are identical."""
    a, b = fingerprint(one), fingerprint(other)
    return sorted(key for key in a.keys() | b.keys() if a.get(key) != b.get(key))


def wait_for(path: Path, process: "subprocess.Popen[bytes]", seconds: float = 60) -> None:
    """Until the path exists or the process ended."""
    deadline = time.monotonic() + seconds
    while not path.exists() and process.poll() is None:
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)


def wait_for_event(folder: Path, event: str, process: "subprocess.Popen[bytes]") -> None:
    """Until this process has noted the event (those of earlier processes do not count)."""
    events = folder / "events.jsonl"
    before = events.read_text().count(f'"{event}"') if events.exists() else 0
    deadline = time.monotonic() + 60
    while process.poll() is None:
        if events.exists() and events.read_text().count(f'"{event}"') > before:
            return
        assert time.monotonic() < deadline, f"no event {event}"
        time.sleep(0.02)


class RecordingDisplay:
    """A display that keeps its messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def write(self, record: dict[str, Any]) -> None:
        self.messages.append(str(record.get("message", "")))

    def step(self, step: int) -> None: ...
    def phase(self, doing: str) -> None: ...
    def stopping(self) -> bool:
        return False

    def close(self) -> None: ...
