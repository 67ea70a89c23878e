"""What is decided and checked before a run starts: device, task, memory, threads."""

import dataclasses
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from td3.config import Config
from td3.config.checks import check
from td3.environments.environment import Environment
from td3.environments.source import describe_code
from td3.environments.task import Task
from td3.environments.watch import Watch
from td3.errors import UserError
from td3.layout import has_images
from td3.run.memory import check_environments, check_memory

MANY, SAMPLE = 500, 8  # environments; fewer than MANY fit everywhere


@dataclass(frozen=True)
class Setup:
    """A checked configuration and the facts that were found while checking it."""

    config: Config
    """With the device and the number of threads that will be used."""
    environment: Environment
    """The environment from which the task was read, not used yet; training takes it over."""
    replay_place: str
    """Where the replay buffers are kept: a device, or "disk" for images."""

    @property
    def task(self) -> Task:
        return self.environment.task

    @property
    def more_versions(self) -> dict[str, str]:
        """What a run records about the code of its environment."""
        return {"environment": found} if (found := describe_code(self.environment)) else {}


def set_up(config: Config) -> Setup:
    """Check a configuration before anything is written. Raises UserError if it cannot be used."""
    device = choose_device(check(config).device)
    config = dataclasses.replace(config, device=str(device))
    with Watch(config.environment.patience):
        environment = make_first_environment(config)
        try:
            check_environments(config, environment_bytes(config))
            place = check_memory(config, environment.task)
            threads = config.threads or choose_threads(config, environment.task)
        except BaseException:
            environment.close()
            raise
    return Setup(dataclasses.replace(config, threads=threads), environment, place)


def environment_bytes(config: Config) -> int:
    """The memory of one environment, measured if there will be so many that it matters."""
    if config.agents * config.environment.count < MANY:
        return 0
    before, made = resident_bytes(), [Environment(config.environment) for _ in range(SAMPLE)]
    for environment in made:
        environment.reset(seed=0)
    grown = resident_bytes() - before
    for environment in made:
        environment.close()
    return max(0, grown) // SAMPLE


def resident_bytes() -> int:
    """The memory that this process uses; 0 where the system does not tell."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def read_task(config: Config) -> Task:
    """Make one environment, read its spaces and close it."""
    environment = make_first_environment(config)
    environment.close()
    return environment.task


def make_first_environment(config: Config) -> Environment:
    """Make one environment; refuse what cannot be trained."""
    environment = Environment(config.environment)
    task = environment.task
    if config.environment.normalize_observations and has_images(task.layout):
        environment.close()
        raise UserError(
            f"{task.id} observes images, which need no environment.normalize_observations; "
            "turn it off."
        )
    return environment


def choose_device(name: str) -> torch.device:
    """The device of this name; "auto" is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("There is no CUDA device on this machine; use --device cpu or auto.")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"There is no device {name!r}; use cpu, cuda or auto.") from error
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise UserError(f"There is no {name}: this machine has {torch.cuda.device_count()} GPUs.")
    return device


def choose_threads(config: Config, task: Task) -> int:
    """The number of CPU threads that makes an update fastest, measured on this machine."""
    if config.device != "cpu":
        return 1
    from td3.execution.threads import fastest_threads, fastest_threads_for_images

    agent, agents = config.agent, config.agents
    if has_images(task.layout):
        return fastest_threads_for_images(
            task.layout, agent.channels, agent.features, agent.batch_size, agents
        )
    return fastest_threads(
        task.state_dim, task.action_dim, agent.hidden_sizes, agent.batch_size, agents
    )
