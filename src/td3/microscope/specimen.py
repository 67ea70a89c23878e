"""One agent of a run as a checkpoint has it: networks, transitions and random streams."""

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay_base import Replay
from td3.algorithm.settings import UpdateSettings
from td3.config import Config
from td3.errors import UserError
from td3.launch.assembly import make_agent
from td3.launch.restore import fill_replay, read_shapes, restore_streams
from td3.run.copies import find_checkpoint
from td3.run.folder import read_config
from td3.training.collector import Collector
from td3.training.schedules import Schedules
from td3.training.stored_tensors import group_tensors


@dataclass
class Specimen:
    """One agent at one checkpoint. Using it changes nothing in the run folder."""

    folder: Path
    """The run folder."""
    step: int
    """Environment step of the checkpoint."""
    number: int
    """Number of the agent in the run."""
    config: Config
    """The settings of this agent as a separate run."""
    agent: TD3
    replay: Replay
    settings: UpdateSettings
    batch_size: int
    random: Tensor | None
    """State of PyTorch's own generator, from which only a variant may draw."""

    @contextmanager
    def own_random_state(self) -> Iterator[None]:
        """Draw PyTorch's random numbers as the run would; the caller's generator stays as it is."""
        with torch.random.fork_rng(devices=[]):
            if self.random is not None:
                torch.set_rng_state(self.random)
            yield


def read_specimen(run: str | os.PathLike[str], agent: int = 0, step: int | None = None) -> Specimen:
    """Read one agent from a checkpoint of a run, also while the run is going on.

    Args:
        run: The run folder.
        agent: Number of the agent.
        step: Step of the checkpoint, a regular or a kept one. Default: the newest.

    Raises:
        UserError: There is no such checkpoint or agent, or the agent diverged.
    """
    folder = Path(run)
    read_config(folder)  # refuse another folder with its own message
    source, step = find_checkpoint(folder, step)
    with torch.random.fork_rng(devices=[]):  # a variant may draw when it is made
        config, population, task = read_shapes(source, "cpu")
        if not 0 <= agent < config.agents:
            raise UserError(f"{folder} has no agent {agent}; it has 0 to {config.agents - 1}.")
        replay, checkpoint = fill_replay(source, config, task, step)
        facts = checkpoint.facts
        if agent in facts.get("frozen", []):
            raise UserError(f"Agent {agent} of {folder} diverged before step {step:,}.")
        if "refill" in facts:
            raise UserError(
                f"{folder} is a population of td3 tune whose agents were replaced; "
                "look at a run of td3 train."
            )
        if not replay.filled:
            raise UserError(f"{folder} has no transitions at step {step:,}; choose a later one.")
        agents = make_agent(config, population, task)
    groups = group_tensors(checkpoint.tensors)
    agents.restore(groups["agent"])
    restore_streams("smooth", agents.smooth, checkpoint)
    restore_streams("replay", replay.streams, checkpoint)
    own = population.hyperparameters_of(agent)
    batch_size = own.pop("batch_size")
    # The rates of the run's next step. Only the action noise needs the collector.
    collector = cast(Collector, SimpleNamespace(noise_factor=1.0))
    Schedules(config, agents, collector).apply(step + config.environment.count)
    member = config.member(agent)
    return Specimen(
        folder=folder,
        step=step,
        number=agent,
        config=dataclasses.replace(member, device="cpu"),
        agent=agents.member(agent),
        replay=replay.member(agent),
        settings=UpdateSettings(**own),
        batch_size=batch_size,
        random=groups["random"].get("cpu"),
    )
