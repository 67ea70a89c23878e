"""Start the agents of a new run from those of an earlier run, or from a policy (fine-tuning).

A run gives everything that its agents have learned: networks, targets, optimizer moments, and the
statistics of observations; on request its replay buffer too. A policy gives the actor only. The
first checkpoint, of step 0, contains the result, so the new run never needs its source again.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from td3.algorithm.replay_base import Replay
from td3.config import Config
from td3.config.variants import load_variant
from td3.errors import UserError
from td3.files import digest
from td3.launch.restore import fill_replay, read_newest
from td3.policy.file import read_policy_file
from td3.policy.pretrained import names, pretrained
from td3.policy.variants import acts_as_td3_does
from td3.run.checkpoint import Checkpoint
from td3.run.folder import read_config, read_facts, write_facts
from td3.run.manifest import by_step
from td3.training.loop import Training
from td3.training.snapshot import save_training
from td3.training.stored_tensors import group_tensors

OWN = ("max_action", "updates")
"""Tensors of an agent that a new run does not take over."""
ACTING = ("actor.", "encoder.", "normalizer.")
Facts = dict[str, Any]


def start_from(training: Training, folder: Path) -> None:
    """Load the source of a new run, record it in `folder`, and write the checkpoint of step 0.

    Raises:
        UserError: The source does not fit, is damaged, or is not the one that was recorded.
    """
    source, before = Path(training.config.start_from), read_facts(folder, "source")
    take = take_policy if source.is_file() else take_run
    facts = {"path": str(source), **take(training, source)}
    if before and before["sha256"] != facts["sha256"]:
        raise UserError(
            f"{folder} stopped before its first checkpoint, and {source} has changed since then; "
            "start a new run."
        )
    write_facts(folder, "source", facts)
    training.learner.agents_changed()
    save_training(training)
    training.recorder.show({"kind": "plan", "message": describe_source(facts)})


def find_source(name: str) -> Path:
    """The run or policy with this path; else the pretrained policy for the task of this name."""
    path = Path(name)
    return pretrained(name) if not path.exists() and name in names() else path.resolve()


def describe_source(facts: Facts) -> str:
    """One line about what a run starts from."""
    step = "" if facts["step"] is None else f" of step {facts['step']:,}"
    what = "Starts from the actor" if facts["kind"] == "policy" else "Starts from the networks"
    replay = " and the replay buffer" if facts.get("replay") else ""
    return f"{what}{replay}{step} in {facts['path']}"


def take_run(training: Training, source: Path) -> Facts:
    """Take over networks, moments and statistics of a run, and its replay buffer if asked for."""
    theirs, _ = read_config(source)
    if not by_step(source):
        raise UserError(
            f"{source} has no checkpoint to start from; name one of its policies instead, such as "
            f"{source}/policy/agent-0.safetensors, which starts the actor only."
        )
    config = training.config
    check_settings(source, run_settings(theirs), run_settings(config), training)
    check_settings(source, variant_settings(theirs), variant_settings(config), training)
    theirs = dataclasses.replace(theirs, device="cpu")
    if config.start_replay:
        check_settings(source, replay_settings(theirs), replay_settings(config), training)
        replay, checkpoint = fill_replay(source, theirs, training.environments.task)
        sources = choose_agents(checkpoint, config.agents, source)
        take_replay(training, replay, sources, source)
    else:
        checkpoint = read_newest(source, theirs)
        sources = choose_agents(checkpoint, config.agents, source)
    count = len(checkpoint.facts["best"])
    learned = {
        name: tensor[sources] if tensor.shape[:1] == (count,) else tensor
        for name, tensor in group_tensors(checkpoint.tensors)["agent"].items()
    }
    load(training, learned, source)
    return {
        "kind": "run",
        "step": checkpoint.step,
        "sha256": checkpoint.sha256,
        "agents": sources,
        "replay": config.start_replay,
    }


def choose_agents(checkpoint: Checkpoint, agents: int, source: Path) -> list[int]:
    """The agent of the source from which each agent starts.

    The same one if both runs have as many; otherwise the one with the highest evaluation.
    """
    best = [-np.inf if own is None else own for own in checkpoint.facts["best"]]
    frozen = checkpoint.facts.get("frozen", [])
    if len(best) != agents:
        for agent in frozen:
            best[agent] = -np.inf
        ranked = sorted(set(range(len(best))) - set(frozen), key=lambda agent: -best[agent])
        return [ranked[0]] * agents
    if frozen:
        raise UserError(
            f"Agent {frozen[0]} of {source} diverged, so no agent can start from it; start from "
            "a policy of another one."
        )
    return list(range(agents))


def take_replay(training: Training, replay: Replay, sources: Sequence[int], source: Path) -> None:
    """Copy the transitions of these agents into the replay buffer of the new run."""
    if type(replay) is not type(training.replay):
        raise UserError(f"The replay buffer of {source} is of another kind than that of this run.")
    training.replay.take_over(replay, sources)
    replay.close()


def take_policy(training: Training, source: Path) -> Facts:
    """Take over the actor of a policy, with the encoder of images and the statistics."""
    card, arrays = read_policy_file(source)
    if training.config.start_replay:
        raise UserError(f"{source} is a policy, which has no replay buffer; start from its run.")
    agent = training.agent
    given, own = policy_settings(card), run_settings(training.config)
    if "variant" not in card and acts_as_td3_does(agent):
        given["variant.name"] = own["variant.name"]
    check_settings(source, given, own, training)
    mine = agent.tensors()
    missing = {name for name in mine if name.startswith(ACTING)} - arrays.keys()
    learned = {name: tensor for name, tensor in mine.items() if name not in missing}
    for name, array in arrays.items():
        tensor = torch.from_numpy(array)
        if len(tensor) == 1:  # of one agent
            tensor = tensor.expand(agent.agents, *tensor.shape[1:])
        group, _, rest = name.partition(".")
        learned |= {own: tensor for own in (name, f"{group}_target.{rest}") if own in mine}
        learned.setdefault(name, tensor)  # which the agent does not have
    load(training, learned, source)
    return {"kind": "policy", "step": card.get("step"), "sha256": digest(source.read_bytes())}


def load(training: Training, learned: Mapping[str, Tensor], source: Path) -> None:
    """Give the agents these tensors, except what each run counts for itself."""
    mine = training.agent.tensors()
    kept = {name: mine[name].clone() for name in OWN}
    try:
        training.agent.restore({**learned, **kept})
    except ValueError as error:
        task = training.environments.task.id
        raise UserError(f"{source} does not fit {task}: {error}.") from error


def check_settings(source: Path, theirs: Facts, mine: Facts, training: Training) -> None:
    """Refuse a source that was trained with other settings of these names."""
    for key, value in mine.items():
        if key in ("agent.channels", "agent.features") and not training.agent.encoder:
            continue
        if theirs[key] != value:
            raise UserError(
                f"{source} was trained with {key} {show(theirs[key])}, and this run has "
                f"{show(value)}; they must be equal to start from it."
            )


def show(value: Any) -> str:
    """A setting in words."""
    if isinstance(value, tuple | list):
        return " ".join(map(str, value))
    return "none" if value in ("", None) else str(value)


def run_settings(config: Config) -> Facts:
    """The settings that the learned numbers depend on."""
    names = ("hidden_sizes", "channels", "features")
    return {
        "variant.name": config.variant.name,
        **{f"agent.{name}": getattr(config.agent, name) for name in names},
        "environment.normalize_observations": config.environment.normalize_observations,
    }


def variant_settings(config: Config) -> Facts:
    """The variant's own settings that the learned numbers depend on."""
    names = load_variant(config.variant.name).learned_with
    return {f"variant.{name}": getattr(config.variant, name) for name in names}


def replay_settings(config: Config) -> Facts:
    """The settings that the stored transitions depend on."""
    return {
        "loop.replay_size": config.loop.replay_size,
        "environment.count": config.environment.count,
        "environment.reward_scale": config.environment.reward_scale,
    }


def policy_settings(card: Mapping[str, Any]) -> Facts:
    """`run_settings` of a policy, from its card."""
    return {
        "variant.name": card.get("variant", {}).get("name", ""),
        "agent.hidden_sizes": tuple(card["hidden_sizes"]),
        "agent.channels": tuple(card.get("channels", ())),
        "agent.features": card.get("features"),
        "environment.normalize_observations": card["normalize_observations"],
    }
