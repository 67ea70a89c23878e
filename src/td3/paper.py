"""The tasks of the TD3 paper, trained again: what `td3 bench paper` does.

Each task is a run of its own, all seeds at once, in a process of its own. Stopped or killed, the
next call goes on from there. What is worth keeping of a finished run is stored in small files.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from td3.cores import usable_cores
from td3.errors import UserError
from td3.evaluation import episode_seeds, evaluate
from td3.intervals import mean_interval
from td3.policy import Policy, load_policy, save_policy
from td3.pretrained import FOLDER
from td3.run import read_config
from td3.signals import StopRequest
from td3.stored import store_run
from td3.summary import read_run

TASKS = (
    "HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Reacher-v5", "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
)  # fmt: skip
BEYOND = ("Humanoid-v5", "Swimmer-v5")  # which others report
TEST_EPISODES, TEST_SEED = 100, 1_000_000
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Plan:
    """What to train, and where it goes."""

    tasks: Sequence[str] = TASKS + BEYOND
    recipe: str = "paper"
    seeds: int = 10
    steps: int = 1_000_000
    evaluation_every: int = 5_000
    checkpoint_every: int = 100_000
    device: str = "auto"
    at_once: int = 1
    """Tasks that are trained at the same time, each on its share of the cores."""
    runs: Path = Path("runs/paper")
    """Run folders, with checkpoints and replay."""
    results: Path = Path("benchmarks/results/paper")
    """What is kept of them."""
    policies: Path = FOLDER
    """Where the best policy of each task goes."""

    def __post_init__(self) -> None:
        if self.at_once < 1:
            raise UserError(f"at-once must be 1 or more, not {self.at_once}.")
        if self.at_once > usable_cores():
            raise UserError(f"There are {usable_cores()} cores for {self.at_once} tasks at once.")
        for task in self.tasks:
            self.check_run(task)

    def asked(self) -> dict[str, Any]:
        """The settings that a run of this plan has, by the names of its flags."""
        return {
            "recipe": self.recipe, "seeds": self.seeds, "loop.steps": self.steps,
            "evaluation.every": self.evaluation_every, "checkpoint.every": self.checkpoint_every,
        }  # fmt: skip

    def check_run(self, task: str) -> None:
        """Refuse to go on with a run that was asked for something else."""
        folder = self.runs / task
        if not folder.is_dir():
            return
        config, _ = read_config(folder)
        for name, value in self.asked().items():
            table, _, key = name.rpartition(".")
            found = getattr(getattr(config, table) if table else config, key)
            if found != (Path(value).stem if name == "recipe" else value):
                raise UserError(
                    f"{folder} was begun with {name} {found}, not {value}; ask for the same, or "
                    "name another folder with --runs."
                )

    def finished(self, task: str) -> bool:
        folder = self.runs / task
        return folder.is_dir() and read_run(folder).status == "finished"

    def command(self, task: str) -> list[str]:
        """What trains a task, or goes on with it."""
        folder = self.runs / task
        if folder.is_dir():
            words = ["resume", str(folder)]
        else:
            options = self.asked() | {"run": folder, "device": self.device}
            flags = [(f"--{k.replace('_', '-')}", str(v)) for k, v in options.items()]
            words = ["train", task, *(word for flag in flags for word in flag)]
        return [sys.executable, "-m", "td3", *words, "--quiet"]


@dataclass
class Progress:
    """How far the tasks are."""

    steps: dict[str, int] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """What a task said when it failed; it can be tried again."""
    stopped: int = 0
    """The exit code, if a signal ended it."""


def train_tasks(plan: Plan, tell: Callable[[Progress], None] = lambda progress: None) -> Progress:
    """Train what is not finished yet, and keep what is."""
    progress = Progress(finished=[task for task in plan.tasks if plan.finished(task)])
    waiting = [task for task in plan.tasks if task not in progress.finished]
    shares = cores_for(plan.at_once)
    running: dict[str, tuple[subprocess.Popen[str], set[int]]] = {}
    with StopRequest() as stop:
        while running or (waiting and not stop.requested):
            while waiting and shares and not stop.requested:
                task, share = waiting.pop(0), shares.pop()
                running[task] = begin(plan.command(task)), share
                os.sched_setaffinity(running[task][0].pid, share)
            if stop.requested and not progress.stopped:
                progress.stopped = stop.exit_code
                for process, _ in running.values():
                    process.send_signal(signal.SIGTERM)
            time.sleep(POLL_SECONDS)
            for task, (process, share) in list(running.items()):
                progress.steps[task] = last_step(plan.runs / task)
                if process.poll() is None:
                    continue
                running.pop(task)
                shares.append(share)
                said = process.communicate()[1].strip().splitlines()
                if process.returncode == 0:
                    progress.finished.append(task)
                elif not progress.stopped:
                    progress.failed[task] = said[-1] if said else f"exit code {process.returncode}"
            tell(progress)
    for task in progress.finished:
        store_run(plan.runs / task, plan.results / task)
    return progress


def begin(command: list[str]) -> subprocess.Popen[str]:
    """In a session of its own: a Ctrl-C is for us, and we pass it on once."""
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def cores_for(parts: int) -> list[set[int]]:
    """The usable cores in equal shares."""
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // parts
    return [set(cores[each * part : each * (part + 1)]) for part in range(parts)]


def last_step(run: Path) -> int:
    """The step of the last event, from the end of the file."""
    path = run / "events.jsonl"
    if not path.exists():
        return 0
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        lines = file.read().splitlines()
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0


def keep_policy(plan: Plan, task: str) -> dict[str, Any]:
    """Keep a finished run's best policy, with what it earns on other episodes; returns that."""
    policy, target = load_policy(plan.runs / task), plan.policies / f"{task}.safetensors"
    if target.exists():
        known = load_policy(target).card
        if known["sha256"] == policy.card["sha256"] and "tested" in known:
            return dict(known["tested"])
    found = earnings(policy)
    save_policy(policy.tensors, policy.card | {"tested": found}, target)
    return found


def earnings(policy: Policy) -> dict[str, Any]:
    """What a policy earns on episodes that neither trained nor chose it."""
    torch.set_num_threads(1)
    found = evaluate(policy.act, policy.environment, [episode_seeds(TEST_SEED, TEST_EPISODES)])
    (returns,) = found.returns
    low, high = mean_interval(returns)
    return {
        "episodes": TEST_EPISODES, "seed": TEST_SEED, "mean_return": float(returns.mean()),
        "std_return": float(returns.std()), "mean_return_low": float(low),
        "mean_return_high": float(high),
    }  # fmt: skip
