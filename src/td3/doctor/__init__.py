"""`td3 doctor`: checks of the machine and of an environment before training."""

import shlex
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym

from td3.config import WRAPPERS, Config, EnvironmentConfig
from td3.config.checks import check as check_config
from td3.doctor.check import Check, check_from_error
from td3.doctor.environment_checks import check_environment, check_spaces
from td3.doctor.machine_checks import check_machine
from td3.environments.simulators import (
    describe_outdated,
    make,
    resolve_version,
    silence_pybullet,
)
from td3.environments.task import Task
from td3.errors import UserError, first_line
from td3.layout import has_images


@dataclass(frozen=True)
class Diagnosis:
    """All checks, and the command to train with."""

    machine: list[Check]
    environment: list[Check] = field(default_factory=list)
    command: str = ""

    @property
    def checks(self) -> list[Check]:
        return [*self.machine, *self.environment]


def diagnose(config: EnvironmentConfig, steps: int = 2000) -> Diagnosis:
    """Check this machine and, if it has an id, an environment, with random actions.

    Raises:
        UserError: The environment does not exist or its arguments are wrong.
    """
    if steps < 1:
        raise UserError(f"--steps must be 1 or more, got {steps}.")
    if not config.id:
        return Diagnosis(check_machine())
    config = replace(config, id=resolve_version(config.id))
    check_config(Config(environment=config))
    env = make_or_explain(config)
    if isinstance(env, Check):
        return Diagnosis(check_machine(), [env])
    checks, task = check_spaces(env, config)
    renders = "rgb_array" in env.metadata.get("render_modes", [])
    limit = config.max_episode_steps or (env.spec.max_episode_steps if env.spec else None)
    env.close()
    if outdated := describe_outdated(config.id):
        checks.append(Check("version", "warning", outdated))
    if task is None:
        return Diagnosis(check_machine(), checks)
    checks += check_environment(config, limit, steps)
    machine = check_machine(task, config if renders else None)
    return Diagnosis(machine, checks, train_command(config, task))


def make_or_explain(config: EnvironmentConfig) -> "gym.Env[Any, Any] | Check":
    """The environment, or a failed check if its own code raises."""
    try:
        with warnings.catch_warnings(), silence_pybullet(config.id):
            warnings.simplefilter("ignore")  # the rollout reports them
            return make(config)
    except UserError as error:
        cause = error.__cause__
        if cause is None or isinstance(cause, TypeError | gym.error.UnregisteredEnv):
            raise
        if isinstance(cause, ImportError | gym.error.DependencyNotInstalled):
            return check_from_error("environment", error)
        problem = f"creating it raises {type(cause).__name__}: {first_line(cause)}"
        advice = "Fix the environment, or pass its arguments with --environment.kwargs."
        return Check("environment", "error", problem, advice)


def train_command(config: EnvironmentConfig, task: Task) -> str:
    """A command that trains on this task, with the recipe for images if it has any."""
    default = EnvironmentConfig()
    words = ["td3", "train", config.id]
    names = (*WRAPPERS, "max_episode_steps")
    given = {n: getattr(config, n) for n in names if getattr(config, n) != getattr(default, n)}
    if has_images(task.layout):
        words += ["--recipe", "pixels"]
        if not config.pixels:  # the task's own images may not be resizable
            given.setdefault("resize", 0)
    for name, value in given.items():
        flag = f"--environment.{name.replace('_', '-')}"
        words += [flag] if isinstance(value, bool) else [flag, str(value)]
    if config.kwargs:
        words += ["--environment.kwargs", *(str(w) for pair in config.kwargs.items() for w in pair)]
    return shlex.join(words)
