"""What `python -m benchmarks paper` trains, and where the results go."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from td3.config import Config, changes, load_recipe, to_dict
from td3.config.checks import check
from td3.errors import UserError
from td3.files import make_writable
from td3.machine import usable_cores
from td3.report.summary import read_run
from td3.run.folder import folder_name, read_config

PAPER_TASKS = (
    "HalfCheetah-v5",
    "Hopper-v5",
    "Walker2d-v5",
    "Ant-v5",
    "Reacher-v5",
    "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
)
OTHER_TASKS = ("Humanoid-v5", "Swimmer-v5")  # not in the paper, but other libraries report them
EVALUATION_EVERY = 20_000  # or a tenth of all steps if that is less
# Settings that depend on the machine.
MACHINE_SETTINGS = (
    "device",
    "threads",
    "environment.id",
    "environment.vectorization",
    "environment.workers",
    "recipe",
)
# Settings that matter for resuming a run, but not for its results.
RUN_SETTINGS = ("checkpoint.every", "loop.log_every", "environment.patience", "track")


@dataclass(frozen=True)
class Plan:
    """Tasks, their configuration, and folders."""

    tasks: Sequence[str]
    config: Config
    """Configuration of all tasks; only the task itself differs."""
    recipe: str
    """Name or file of the recipe behind the configuration."""
    runs: Path
    """Run folders, with checkpoints and replay buffers."""
    results: Path
    """Small files that are kept."""
    at_once: int = 1
    """Number of tasks trained at the same time, each on its share of the cores."""

    def __post_init__(self) -> None:
        if self.config.grid:
            raise UserError("The recipe has a grid; these tasks are trained with several seeds.")
        if self.at_once < 1:
            raise UserError(f"at-once must be 1 or more, got {self.at_once}.")
        if self.at_once > usable_cores():
            raise UserError(
                f"{self.at_once} tasks at once need as many cores; this machine has "
                f"{usable_cores()}."
            )
        for task in self.tasks:
            check(self.config_of(task))
            self.check_folders(task)
        for folder in (self.runs, self.results):
            make_writable(folder)

    def config_of(self, task: str) -> Config:
        environment = dataclasses.replace(self.config.environment, id=task)
        return dataclasses.replace(self.config, environment=environment)

    def run_folder(self, task: str) -> Path:
        return self.runs / folder_name(task)

    def result_folder(self, task: str) -> Path:
        return self.results / folder_name(task)

    def policy_file(self, task: str) -> Path:
        return self.results / "policies" / f"{folder_name(task)}.safetensors"

    def has_started(self, task: str) -> bool:
        return (self.run_folder(task) / "config.toml").is_file()

    def is_finished(self, task: str) -> bool:
        return self.has_started(task) and read_run(self.run_folder(task)).status == "finished"

    def check_folders(self, task: str) -> None:
        """Refuse to continue a run, or to replace results, with different settings."""
        ignored = {
            self.run_folder(task): MACHINE_SETTINGS,
            self.result_folder(task): MACHINE_SETTINGS + RUN_SETTINGS,
        }
        for folder, names in ignored.items():
            if not (folder / "config.toml").is_file():
                continue
            before, _ = read_config(folder)
            for name, (old, new) in changes(to_dict(before), to_dict(self.config)).items():
                if name not in names:
                    raise UserError(
                        f"{folder} has {name} {old}, not {new}. Use the same settings, or other "
                        "folders with --runs and --results."
                    )

    def command(self, task: str) -> list[str]:
        """Return the arguments of `td3` that train a task or resume it."""
        device = [] if self.config.device == "auto" else ["--device", self.config.device]
        if self.has_started(task):
            return ["resume", str(self.run_folder(task)), *device, "--quiet"]
        config = self.config
        settings = {
            "recipe": self.recipe,
            "seeds": config.seeds,
            "run": self.run_folder(task),
            "loop.steps": config.loop.steps,
            "evaluation.every": config.evaluation.every,
            "checkpoint.every": config.checkpoint.every,
        }
        flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        return ["train", task, *flags, *device, "--quiet"]


def make_plan(
    tasks: Sequence[str],
    recipe: str,
    seeds: int,
    steps: int,
    evaluation_every: int | None,
    checkpoint_every: int,
    device: str,
    **more: Any,
) -> Plan:
    """Make a plan from a recipe and some changes."""
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
    return Plan(tuple(dict.fromkeys(tasks or PAPER_TASKS + OTHER_TASKS)), config, recipe, **more)
