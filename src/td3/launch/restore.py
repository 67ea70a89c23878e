"""Read the agents and the replay buffer of a run from its newest checkpoint.

Needs neither environments nor the run's lock, and writes nothing into the folder.
"""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay_base import Replay
from td3.config import Config
from td3.environments.task import Task
from td3.errors import UserError
from td3.launch.assembly import make_agent, make_replay
from td3.launch.setup import choose_device
from td3.policy.file import read_bounds, read_policy_file
from td3.run.checkpoint import Checkpoint, newest_checkpoint
from td3.run.folder import read_config
from td3.run.manifest import Invalid, by_step
from td3.run.memory import IMAGES_FILE, check_memory
from td3.run.segments import forget_damaged
from td3.seeding import Stream, restore_stream
from td3.training.population import Population
from td3.training.resume_rules import check_settings
from td3.training.snapshot import number_streams
from td3.training.stored_tensors import check_finite, group_tensors

ATTEMPTS = 10  # to read a checkpoint of a run that is going on


def restore_agent(folder: Path, device: str = "cpu") -> TD3:
    """All agents of a run as one `TD3`. Raises UserError if the run has no checkpoint."""
    config, population, task = read_shapes(folder, device)
    checkpoint = read_newest(folder, config)
    agent = make_agent(config, population, task)
    agent.restore(group_tensors(checkpoint.tensors)["agent"])
    restore_streams("smooth", agent.smooth, checkpoint)
    return agent


def restore_replay(folder: Path, device: str = "cpu") -> Replay:
    """The replay buffers of a run, filled. Raises UserError if the run has no checkpoint."""
    config, _, task = read_shapes(folder, device)
    replay, checkpoint = fill_replay(folder, config, task)
    restore_streams("replay", replay.streams, checkpoint)
    return replay


def fill_replay(
    folder: Path, config: Config, task: Task, step: int | None = None
) -> tuple[Replay, Checkpoint]:
    """The replay buffers of the newest checkpoint, or of that of this step, and this checkpoint."""
    place, population = check_memory(config, task), Population(config, torch.device(config.device))
    # A file for images that exceed the memory. The buffer keeps its content when it is removed.
    with tempfile.TemporaryDirectory() as elsewhere:
        replay = make_replay(config, population, task, place, Path(elsewhere) / IMAGES_FILE)
        checkpoint = read_newest(folder, config, replay, step)
    replay.restore(group_tensors(checkpoint.tensors)["replay"])
    for agent in checkpoint.facts.get("frozen", []):
        replay.erase(agent)  # older replay files contain its transitions
    forget_damaged(replay, checkpoint.segments, checkpoint.damaged)
    return replay, checkpoint


def read_shapes(folder: Path, device: str) -> tuple[Config, Population, Task]:
    """The settings of a run on this device, its agents, and the task that they were trained on."""
    config, _ = read_config(folder)
    if not by_step(folder):
        raise UserError(
            f"{folder} has no checkpoint, so its agent and its replay buffer cannot be loaded; "
            "its policies can, with td3.load_policy."
        )
    chosen = choose_device(device)
    config = dataclasses.replace(config, device=str(chosen))
    return config, Population(config, chosen), read_task(folder, config)


def read_task(folder: Path, config: Config) -> Task:
    """The task as the card of a policy describes it; making it could run code and take long."""
    files = sorted((folder / "policy").glob("agent-*.safetensors"))
    if not files:
        raise UserError(
            f"{folder} has no policy, which describes the observations of its task; copy the "
            "folder with its policy folder."
        )
    card, _ = read_policy_file(files[0])
    return Task(config.environment.id, read_bounds(card), card["observation"])


def read_newest(
    folder: Path, config: Config, replay: Replay | None = None, step: int | None = None
) -> Checkpoint:
    """The newest valid checkpoint, or that of this step; fills `replay`, if any, from it."""

    def accept(content: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        if step not in (None, content["step"]):
            raise Invalid(f"it is not of step {step:,}")
        check_settings(config, content["facts"]["config"], folder)
        group_tensors(tensors)
        for name, tensor in tensors.items():
            check_finite(name, tensor)

    for _ in range(ATTEMPTS):
        found = by_step(folder)
        try:
            checkpoint = newest_checkpoint(folder, replay, accept)
        except UserError:
            if by_step(folder) == found:
                raise
            continue  # the run is going on and removed them while they were read
        if checkpoint is not None:
            return checkpoint
    raise UserError(f"{folder} writes checkpoints faster than they can be read; try again later.")


def restore_streams(name: str, streams: list[Stream], checkpoint: Checkpoint) -> None:
    """Set the random streams of this name to where the checkpoint has them."""
    for key, stream in number_streams({name: streams}).items():
        restore_stream(stream, checkpoint.facts["streams"][key])
