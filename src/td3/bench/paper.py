"""The tasks of the TD3 paper, trained again: what `td3 bench paper` does.

Each task is a run of its own, all seeds at once, in a process of its own. Stopped or killed, the
next call goes on from there. What is worth keeping of a finished run is stored in small files.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from td3.bench.stored import store_run
from td3.config import Config, changes, load_recipe, to_dict
from td3.config.checks import check
from td3.environments.environment import import_module_of
from td3.errors import RunStopped, UserError, first_line
from td3.files import make_writable
from td3.machine import usable_cores
from td3.policy.file import save_policy
from td3.policy.load import load_policy, policies_of
from td3.policy.policy import Policy
from td3.report.intervals import mean_interval
from td3.report.summary import read_run
from td3.run.folder import folder_name, read_config
from td3.signals import StopRequest

TASKS = (
    "HalfCheetah-v5",
    "Hopper-v5",
    "Walker2d-v5",
    "Ant-v5",
    "Reacher-v5",
    "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
)
BEYOND = ("Humanoid-v5", "Swimmer-v5")  # which others report
TEST_EPISODES, TEST_SEED = 100, 2_000_000  # other ones than td3 evaluate plays
CHOICE_EPISODES, CHOICE_SEED = 20, 3_000_000  # to choose among the seeds
EVALUATION_EVERY = 20_000  # unless a tenth of all steps is less
POLL_SECONDS = 0.5
# Where and by whom a run is computed; each machine finds its own.
NOT_ASKED = (
    "device",
    "threads",
    "environment.id",
    "environment.vectorization",
    "environment.workers",
    "recipe",
)
# What a run needs again to go on, but its results do not depend on.
NOT_KEPT = ("checkpoint.every", "loop.log_every", "environment.patience", "track")
TRAIN_ONE = """
import sys
from td3.bench.paper import leave_with_parent
leave_with_parent()
from td3.cli import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Plan:
    """What to train, and where it goes."""

    tasks: Sequence[str]
    config: Config
    """Of all tasks, but for the task itself."""
    recipe: str
    """What the configuration was made from: a recipe's name or its file."""
    runs: Path
    """Run folders, with checkpoints and replay."""
    results: Path
    """What is kept of them."""
    at_once: int = 1
    """Tasks that are trained at the same time, each on its share of the cores."""

    def __post_init__(self) -> None:
        if self.config.grid:
            raise UserError("The tasks are trained with several seeds, not with a grid.")
        if self.at_once < 1:
            raise UserError(f"at-once must be 1 or more, not {self.at_once}.")
        if self.at_once > usable_cores():
            raise UserError(f"There are {usable_cores()} cores for {self.at_once} tasks at once.")
        for task in self.tasks:
            check(self.config_of(task))
            self.check_folders(task)
        for folder in (self.runs, self.results):
            make_writable(folder)

    def config_of(self, task: str) -> Config:
        environment = dataclasses.replace(self.config.environment, id=task)
        return dataclasses.replace(self.config, environment=environment)

    def run_of(self, task: str) -> Path:
        return self.runs / folder_name(task)

    def result_of(self, task: str) -> Path:
        return self.results / folder_name(task)

    def policy_of(self, task: str) -> Path:
        return self.results / "policies" / f"{folder_name(task)}.safetensors"

    def begun(self, task: str) -> bool:
        return (self.run_of(task) / "config.toml").is_file()

    def finished(self, task: str) -> bool:
        return self.begun(task) and read_run(self.run_of(task)).status == "finished"

    def check_folders(self, task: str) -> None:
        """Refuse to go on with a run, or to replace results, of something else than is asked."""
        free = {self.run_of(task): NOT_ASKED, self.result_of(task): NOT_ASKED + NOT_KEPT}
        for folder, unasked in free.items():
            if not (folder / "config.toml").is_file():
                continue
            before, _ = read_config(folder)
            for name, (old, new) in changes(to_dict(before), to_dict(self.config)).items():
                if name not in unasked:
                    raise UserError(
                        f"{folder} has {name} {old}, not {new}; ask for the same again, or name "
                        "other folders with --runs and --results."
                    )

    def command(self, task: str) -> list[str]:
        """What trains a task, or goes on with it."""
        device = [] if self.config.device == "auto" else ["--device", self.config.device]
        if self.begun(task):
            return ["resume", str(self.run_of(task)), *device, "--quiet"]
        config = self.config
        asked = {
            "recipe": self.recipe,
            "seeds": config.seeds,
            "run": self.run_of(task),
            "loop.steps": config.loop.steps,
            "evaluation.every": config.evaluation.every,
            "checkpoint.every": config.checkpoint.every,
        }
        flags = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
        return ["train", task, *flags, *device, "--quiet"]


def planned(
    tasks: Sequence[str],
    recipe: str,
    seeds: int,
    steps: int,
    evaluation_every: int | None,
    checkpoint_every: int,
    device: str,
    **more: Any,
) -> Plan:
    """A plan for a recipe with some of its numbers changed."""
    config = load_recipe(recipe)
    if evaluation_every is None:
        evaluation_every = min(EVALUATION_EVERY, max(1, steps // 10))
    config = dataclasses.replace(
        config,
        seeds=seeds,
        device=device,
        loop=dataclasses.replace(config.loop, steps=steps),
        evaluation=dataclasses.replace(config.evaluation, every=evaluation_every),
        checkpoint=dataclasses.replace(config.checkpoint, every=checkpoint_every),
    )
    return Plan(tuple(dict.fromkeys(tasks or TASKS + BEYOND)), config, recipe, **more)


@dataclass
class Progress:
    """How far the tasks are."""

    steps: dict[str, int] = field(default_factory=dict)
    """Of those that are being trained or were."""
    finished: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """What a task said when it failed; it can be tried again."""
    earned: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the best policy of each finished task earns."""
    stopped: int = 0
    """The exit code, if a signal ended it."""


def train_tasks(plan: Plan, tell: Callable[[Progress], None] = lambda progress: None) -> Progress:
    """Train what is not finished yet, keep what is, and try the best policies out."""
    progress, tests = Progress(), dict[str, Future[dict[str, Any]]]()
    waiting, shares = list(plan.tasks), cores_for(plan.at_once)
    running: dict[str, tuple[subprocess.Popen[bytes], set[int]]] = {}
    with ThreadPoolExecutor(1) as tester, StopRequest() as stop:
        try:
            while running or tests or (waiting and not stop.requested):
                while waiting and shares and not stop.requested:
                    task = waiting.pop(0)
                    if plan.finished(task):
                        progress.finished.append(task)
                        tests[task] = tester.submit(keep, plan, task)
                    else:
                        running[task] = begin(plan, task, shares[-1]), shares.pop()
                if stop.requested and not progress.stopped:
                    progress.stopped = stop.exit_code
                    terminate(running)
                time.sleep(POLL_SECONDS)
                for task, (process, share) in list(running.items()):
                    progress.steps[task] = last_step(plan.run_of(task))
                    if process.poll() is None:
                        continue
                    running.pop(task)
                    shares.append(share)
                    if process.returncode == 0:
                        progress.finished.append(task)
                        tests[task] = tester.submit(keep, plan, task)
                    elif not stop.requested:
                        progress.failed[task] = last_words(plan, task, process.returncode)
                for task in [task for task, found in tests.items() if found.done()]:
                    take_in(progress, task, tests.pop(task))
                tell(progress)
        finally:
            terminate(running)
        progress.stopped = stop.exit_code
    return progress


def take_in(progress: Progress, task: str, found: "Future[dict[str, Any]]") -> None:
    """What came of keeping a finished task."""
    try:
        progress.earned[task] = found.result()
    except (OSError, RunStopped, UserError) as error:
        progress.failed[task] = f"it is trained, but cannot be kept: {first_line(error)}"


def terminate(running: dict[str, tuple[subprocess.Popen[bytes], set[int]]]) -> None:
    """Ask all to save and leave."""
    for process, _ in running.values():
        process.send_signal(signal.SIGTERM)


def log_of(plan: Plan, task: str) -> Path:
    return plan.run_of(task).with_suffix(".log")


def begin(plan: Plan, task: str, cores: set[int]) -> "subprocess.Popen[bytes]":
    """In a session of its own: a Ctrl-C is for us, and we pass it on once."""
    command = [sys.executable, "-c", TRAIN_ONE]
    with log_of(plan, task).open("ab") as log:
        process = subprocess.Popen(
            [*command, *plan.command(task)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    if cores:
        os.sched_setaffinity(process.pid, cores)
    return process


def leave_with_parent() -> None:
    """In the process of one task: save and leave when the first process is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def last_words(plan: Plan, task: str, code: int) -> str:
    """Why a task failed."""
    if code < 0:
        return f"it was killed by {signal.Signals(-code).name}"
    lines = log_of(plan, task).read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if line.strip()]
    return said[-1].removeprefix("td3: ") if said else f"it ended with exit code {code}"


def cores_for(parts: int) -> list[set[int]]:
    """The usable cores in equal shares; empty ones where a process cannot be bound to cores."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
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


def keep(plan: Plan, task: str) -> dict[str, Any]:
    """Store a finished run, and its best policy with what that earns; returns the latter."""
    store_run(plan.run_of(task), plan.result_of(task))
    policies, target = policies_of(plan.run_of(task)), plan.policy_of(task)
    if target.exists():
        known = load_policy(target).card
        if "tested" in known and known["sha256"] in [own.card["sha256"] for own in policies]:
            return dict(known["tested"])
    import_module_of(task)  # the user named it; the card of a policy alone is not enough
    policy = best_of(policies)
    found = {"tested": earnings(policy), "chosen_from": origin(plan)}
    save_policy(policy.tensors, policy.card | found, target)
    return found["tested"]


def origin(plan: Plan) -> dict[str, Any]:
    """What a policy is the best of, for its card."""
    config = plan.config
    return {"recipe": config.recipe, "seeds": config.seeds, "steps": config.loop.steps}


def best_of(policies: Sequence[Policy]) -> Policy:
    """Of all seeds, on the same starts: each seed's evaluations had their own."""
    if len(policies) == 1:
        return policies[0]
    return max(policies, key=lambda policy: returns_of(policy, CHOICE_SEED, CHOICE_EPISODES).mean())


def earnings(policy: Policy) -> dict[str, Any]:
    """What a policy earns on episodes that neither trained nor chose it."""
    returns = returns_of(policy, TEST_SEED, TEST_EPISODES)
    low, high = mean_interval(returns)
    return {
        "episodes": TEST_EPISODES,
        "seed": TEST_SEED,
        "mean_return": float(returns.mean()),
        "std_return": float(returns.std()),
        "mean_return_low": float(low),
        "mean_return_high": float(high),
    }


def returns_of(policy: Policy, seed: int, episodes: int) -> NDArray[np.float64]:
    torch.set_num_threads(1)
    return policy.evaluate(episodes, seed).returns
