"""Save a training as a checkpoint, and continue from one."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from td3.config import to_dict
from td3.errors import UserError, first_line
from td3.files import last_step
from td3.run.checkpoint import Checkpoint, forget_after, newest_checkpoint, save_checkpoint
from td3.run.manifest import Invalid
from td3.run.places import seen_from_here
from td3.run.segments import forget_damaged
from td3.seeding import Stream, restore_stream, stream_state
from td3.training.divergence import freeze_diverged
from td3.training.recovery import check_policies, restore_metrics
from td3.training.resume_rules import check_settings
from td3.training.state import TrainingState
from td3.training.stored_tensors import check_tensors, group_tensors


def save_training(state: TrainingState) -> None:
    """Write a checkpoint; never one with a number that is not finite."""
    freeze_diverged(state)
    warn_of_added(state)
    state.recorder.run.write_rest()
    facts = {
        "step": state.step,
        "best": [float(b) if np.isfinite(b) else None for b in state.best],
        "frozen": np.flatnonzero(state.population.frozen).tolist(),
        "evaluating": state.evaluations.step,
        "metrics_bytes": state.recorder.metrics.length(),
        "metrics_sha256": state.recorder.metrics.checksum.hexdigest(),
        "config": to_dict(state.config),
        "config_file": state.recorder.run.config_text(),
        "streams": {name: stream_state(s) for name, s in used_streams(state).items()},
    }
    if plain := state.learner.plain_parts():
        facts["plain"] = plain
    facts |= state.own_facts()
    state.segments = save_checkpoint(
        state.recorder.run.folder,
        state.step,
        all_tensors(state),
        facts,
        state.replay,
        state.segments,
    )
    state.saved_at = state.step


def warn_of_added(state: TrainingState) -> None:
    """Report once if updates add tensors: a new agent lacks them, so no checkpoint fits it."""
    added = state.agent.tensors().keys() - state.first_names
    added = {name for name in added if ".state." not in name}  # of optimizers: see lazy_state.py
    if added and not state.warned_of_added:
        state.warned_of_added = True
        path = min(added).removeprefix("own.")
        message = f"This run cannot be resumed: updates add the tensor self.{path}"
        state.recorder.warn(state.step, f"{message}; make it in __init__, or delete it after use.")


def all_tensors(state: TrainingState) -> dict[str, Tensor]:
    """Every tensor of the training, by the name `part/key`."""
    parts = {
        "agent": state.agent.tensors(),
        "interval": state.interval.tensors(),
        "collector": {k: torch.from_numpy(v) for k, v in state.collector.snapshot().items()},
        "evaluation": state.evaluations.tensors(),
        "replay": state.replay.tensors(),
        "random": torch_random_state(state),
    }
    return {f"{part}/{key}": t for part, group in parts.items() for key, t in group.items()}


def torch_random_state(state: TrainingState) -> dict[str, Tensor]:
    """The state of PyTorch's own generators; only a variant may draw from them."""
    if not state.config.variant.name:
        return {}
    found = {"cpu": torch.get_rng_state()}
    if state.agent.device.type == "cuda":
        found["cuda"] = torch.cuda.get_rng_state(state.agent.device)
    return found


def restore_torch_random_state(state: TrainingState, found: dict[str, Tensor]) -> None:
    if "cpu" in found:
        torch.set_rng_state(found["cpu"])
    if "cuda" in found and state.agent.device.type == "cuda":
        torch.cuda.set_rng_state(found["cuda"], state.agent.device)


def used_streams(state: TrainingState) -> dict[str, Stream]:
    """Every random stream that training draws from, by name."""
    return number_streams(
        state.learner.streams()
        | {
            "explore": [streams.explore for streams in state.streams],
            "env": [streams.env for streams in state.streams],
        }
    )


def number_streams(groups: Mapping[str, Sequence[Stream]]) -> dict[str, Stream]:
    """The streams of all agents by the names that a checkpoint has for them."""
    return {f"{name}.{k}": s for name, group in groups.items() for k, s in enumerate(group)}


def restore_training(state: TrainingState) -> list[str]:
    """Continue from the newest valid checkpoint, or from the start if none was written yet.

    Returns remarks for the user, for example why the result will not be exact.
    """
    checkpoint = find_checkpoint(state)
    if checkpoint is None:
        state.recorder.metrics.truncate(0)
        return []
    facts, folder = checkpoint.facts, state.recorder.run.folder
    remarks = [*checkpoint.rejected, *check_settings(state.config, facts["config"], folder)]
    groups = group_tensors(checkpoint.tensors)
    state.agent.restore(groups["agent"])
    state.restore_own(facts)
    state.learner.resume(facts.get("plain", []))
    state.interval.restore(groups["interval"])
    # Environments draw seeds when they restart, so their streams are restored first.
    for name, stream in used_streams(state).items():
        restore_stream(stream, facts["streams"][name])
    try:
        problem = state.collector.restore({k: t.numpy() for k, t in groups["collector"].items()})
    except (KeyError, TypeError, ValueError) as error:  # exploration has arrays of its own
        raise UserError(f"{folder} does not fit its exploration: {first_line(error)}.") from error
    restore_torch_random_state(state, groups["random"])
    state.best = [-np.inf if b is None else b for b in facts["best"]]
    for agent in facts.get("frozen", []):
        state.population.frozen[agent] = True
        state.replay.erase(agent)  # older replay files contain its transitions
    state.evaluations.restore(facts.get("evaluating"), groups["evaluation"])
    try:
        state.segments = forget_damaged(state.replay, checkpoint.segments, checkpoint.damaged)
    except ValueError as error:
        raise UserError(f"{', '.join(checkpoint.damaged)} in {folder}: {error}.") from error
    if checkpoint.damaged:
        names = ", ".join(checkpoint.damaged)
        remarks.append(f"not exact: the transitions in replay/{names} are lost")
    remarks += restore_metrics(state.recorder, facts)
    remarks += check_policies(state)
    state.step = state.saved_at = checkpoint.step
    state.recorder.restart_clock(state.step)
    forget_after(folder, state.step)
    return remarks + ([f"not exact: {problem}"] if problem else [])


def check_content(
    state: TrainingState, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Check that a checkpoint is of this training. Raises Invalid, so that another one is tried.

    Raises UserError if the environment has other spaces now, which all checkpoints share.
    """
    facts, task, folder = content["facts"], state.environments.task, state.recorder.run.folder
    if len(facts["best"]) != state.agent.agents:
        raise Invalid(f"it is of {len(facts['best'])} agents, not {state.agent.agents}")
    if missing := used_streams(state).keys() - facts["streams"].keys():
        raise Invalid(f"it has no random stream {min(missing)}")
    groups, spaces = group_tensors(tensors), [task.state_dim, task.action_dim]
    try:
        state.agent.check_shapes(groups["agent"])
    except ValueError as error:
        if all(segment["dims"] == spaces for segment in content["segments"]):
            raise Invalid(str(error)) from error
        raise UserError(f"{folder} does not fit {task.id}: {error}.") from error
    for segment in content["segments"]:
        if segment["dims"] != spaces:
            raise Invalid(
                f"{segment['file']} has states and actions of {segment['dims']} numbers, "
                f"not {spaces}"
            )
    check_tensors(state, groups)


def find_checkpoint(state: TrainingState) -> Checkpoint | None:
    """The newest valid checkpoint; None if the run stopped before its first one.

    Raises UserError if the run cannot be continued.
    """
    config, run = state.config, state.recorder.run

    def accept(content: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        check_settings(config, content["facts"]["config"], run.folder)
        check_content(state, content, tensors)

    checkpoint = newest_checkpoint(run.folder, state.replay, accept)
    if checkpoint is None:
        latest = config.checkpoint.every + state.collector.count - 1  # of the first checkpoint
        if run.finished or last_step(run.metrics) > latest:
            name = seen_from_here(run.folder)
            raise UserError(f"{name} has no checkpoints; it cannot be continued.")
        return None
    steps = config.loop.steps
    same = steps == checkpoint.facts["config"]["loop"]["steps"]
    if checkpoint.step >= steps and (run.finished or not same):
        name, more = seen_from_here(run.folder), 2 * checkpoint.step
        raise UserError(
            f"{name} is finished ({checkpoint.step:,} steps). To train longer: "
            f"td3 resume {shlex.quote(str(name))} --steps {more}"
        )
    return checkpoint
