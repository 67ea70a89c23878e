"""`td3.record_update`: everything that one update computes, as arrays."""

import copy
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.stacked import StackedParameters
from td3.errors import UserError
from td3.microscope.episodes import Episodes, find_episodes, has_episodes
from td3.microscope.recorder import Recording, record
from td3.microscope.specimen import Specimen, read_specimen

Array = NDArray[Any]
MOST_AHEAD = 100


@dataclass(frozen=True, eq=False)
class RecordedUpdate:
    """One update of one agent. Arrays of transitions have the batch as first axis.

    Values are in the unit of the returns that the critics learn, also if a variant's critics give
    distributions or scaled numbers. What a variant's own `update` does not do through the methods
    that it may override is asked from its networks instead, and named in `asked`.
    """

    run: str
    """The run folder."""
    step: int
    """Environment step of the checkpoint."""
    agent: int
    """Number of the agent."""
    number: int
    """How many updates the agent had before this one."""
    settings: dict[str, float]
    """discount, tau, policy_noise, noise_clip, policy_freq and batch_size."""
    state: Array
    """Step 4, (batch, state_dim): the states, as stored."""
    action: Array
    """Step 4, (batch, action_dim)."""
    reward: Array
    """Step 4, (batch,): the part of `target_q` that is the reward."""
    next_state: Array
    """Step 4, (batch, state_dim)."""
    done: Array
    """Step 4, (batch,): 1 if the episode terminated."""
    next_action: Array
    """Step 5, (batch, action_dim): what the target actor proposes."""
    smoothed_action: Array
    """Step 6, (batch, action_dim)."""
    next_values: Array
    """Step 7, (critics, batch): what the target critics say."""
    kept_value: Array
    """Step 8, (batch,): the smaller value, or what a variant keeps."""
    target_q: Array
    """Step 9, (batch,): the Bellman target."""
    values: Array
    """Step 10, (critics, batch): what the critics say about the stored actions."""
    values_before: Array
    """Step 12, (critics, batch): what the critics say when they are asked before the step.

    Equal to `values`, unless a variant's critics work in another way during an update."""
    values_after: Array
    """Step 12, (critics, batch): what they say after the step."""
    critic_loss: float
    """Step 11."""
    actor_loss: float | None
    """Step 13; None if this update leaves out steps 13 to 15."""
    gradients: dict[str, dict[str, Array]]
    """Steps 12 and 13: network → layer → norm of its gradient, one for each critic."""
    changes: dict[str, dict[str, Array]]
    """Steps 12 and 13: network → layer → norm of its change, relative to its norm."""
    actor_action: Array
    """Step 13, (batch, action_dim): the actor's action for each state before the update."""
    actor_action_after: Array
    """Step 13, (batch, action_dim): after the update."""
    slope: Array
    """Step 13, (batch, action_dim): the gradient of Q1 at the actor's action."""
    distances: dict[str, tuple[float, float]]
    """Steps 14 and 15: network → distance of its target from it before and after the step."""
    asked: tuple[str, ...]
    """Names of the fields that the update did not show."""
    before: TD3
    """A copy of the agent before the update."""
    after: TD3
    """A copy of the agent after the update."""
    seen: Tensor
    """What the networks see of the states, (1, batch, inputs)."""
    next_seen: Tensor
    """What the targets see of the next states."""
    specimen: Specimen
    chosen: Any
    """What `draw` of the replay buffer chose."""
    recording: Recording

    @property
    def is_due(self) -> bool:
        """Whether this update has the delayed steps 13 to 15."""
        return self.actor_loss is not None

    @property
    def bootstrap(self) -> Array:
        """Step 9, (batch,): the part of `target_q` that is not the reward."""
        return self.target_q - self.reward

    @cached_property
    def episodes(self) -> Episodes | None:
        """The episode of each transition; None if the replay buffer cannot tell."""
        if not has_episodes(self.specimen.replay) or self.chosen.ndim < 2:
            return None
        count = self.specimen.config.environment.count
        return find_episodes(self.specimen.replay, self.chosen, count)

    def __repr__(self) -> str:
        return (
            f"RecordedUpdate({self.run}, agent {self.agent}, step {self.step:,}, "
            f"update {self.number:,})"
        )


def record_update(
    run: str | os.PathLike[str], agent: int = 0, step: int | None = None, *, ahead: int = 0
) -> RecordedUpdate:
    """Execute the update that comes next after a checkpoint, and return what each step computed.

    The agent, its replay buffer and its random streams are read from the checkpoint. The batch is
    the one that the run draws next. The agent's own `update` runs on a copy, with the methods of
    its class, so this works for variants too. Nothing in the run folder changes.

    Args:
        run: A `Run` or a run folder, also one whose training is going on.
        agent: Number of the agent.
        step: Step of the checkpoint: the newest two, or one that `checkpoint.keep_every` kept.
            Default: the newest.
        ahead: Execute this many updates before the one that is returned, at most 100.

    Returns:
        The arrays of all steps.

    Raises:
        UserError: There is no such checkpoint or agent, or the agent diverged.

    Example:
        update = td3.record_update("runs/my-run")
        error = update.values[0] - update.target_q
    """
    return record_specimen(read_specimen(run, agent, step), ahead)


def record_specimen(specimen: Specimen, ahead: int = 0) -> RecordedUpdate:
    """The update of a specimen, which stays as it is."""
    if not 0 <= ahead <= MOST_AHEAD:
        raise UserError(f"ahead must be from 0 to {MOST_AHEAD}, got {ahead}.")
    agent, replay = copy.deepcopy(specimen.agent), specimen.replay.reading_copy()
    agent.execution = "eager"
    settings = specimen.settings
    with specimen.own_random_state():
        agent.train(replay, ahead, specimen.batch_size, **vars(settings))
        before = copy.deepcopy(agent)
        chosen = replay.draw(specimen.batch_size)
        batch, noise = replay.gather(chosen, agent.device), agent.draw_noise(specimen.batch_size)
        recording = record(agent, batch, noise, settings)
        with torch.no_grad():
            return Reading(specimen, recording, before, agent, batch, chosen).update()


class Reading:
    """Reads the arrays of an update from its recording."""

    def __init__(
        self,
        specimen: Specimen,
        recording: Recording,
        before: TD3,
        after: TD3,
        batch: Any,
        chosen: Any,
    ) -> None:
        self.specimen, self.recording, self.chosen = specimen, recording, chosen
        self.before, self.after, self.batch = before, after, batch
        self.asked: list[str] = []
        self.seen, self.next_seen = (
            call.result if (call := recording.last(name)) else getattr(before, name)(state)
            for name, state in (
                ("observe", batch.state),
                ("observe_target", batch.next_state),
            )
        )

    def update(self) -> RecordedUpdate:
        batch, before, after, recording = self.batch, self.before, self.after, self.recording
        smoothed, proposed = self.next_actions()
        next_values, kept = self.next_values(smoothed)
        target, values = self.target_and_values()
        reward, target, kept = self.split(target, kept)
        seen_after = after.observe(batch.state) if after.encoder else self.seen
        found = recording.diagnostics
        assert found is not None
        action = before.actor(self.seen)
        numbers = {name: float(value) for name, value in vars(self.specimen.settings).items()}
        return RecordedUpdate(
            run=str(self.specimen.folder),
            step=self.specimen.step,
            agent=self.specimen.number,
            number=int(before.updates[0]),
            settings={**numbers, "batch_size": self.specimen.batch_size},
            state=rows(batch.state),
            action=rows(batch.action),
            reward=column(reward),
            next_state=rows(batch.next_state),
            done=column(batch.done),
            next_action=rows(proposed),
            smoothed_action=rows(smoothed),
            next_values=columns(next_values),
            kept_value=column(kept),
            target_q=column(target),
            values=columns(values),
            values_before=columns(critic_values(before, before.critic, self.seen, batch.action)),
            values_after=columns(critic_values(after, after.critic, seen_after, batch.action)),
            critic_loss=float(found.critic_loss[0]),
            actor_loss=None if found.actor_loss is None else float(found.actor_loss[0]),
            gradients={
                name: norms(after.trained[name].online, step.gradient)
                for name, step in recording.steps.items()
                if name in after.trained
            },
            changes={
                name: relative_changes(after.trained[name].online, step.before, step.after)
                for name, step in recording.steps.items()
                if name in after.trained
            },
            actor_action=rows(action),
            actor_action_after=rows(after.actor(seen_after)),
            slope=rows(slope(after, self.seen, action)),
            distances={name: self.distance(name) for name in after.trained},
            asked=tuple(self.asked),
            before=before,
            after=after,
            seen=self.seen,
            next_seen=self.next_seen,
            specimen=self.specimen,
            chosen=self.chosen,
            recording=recording,
        )

    def next_actions(self) -> tuple[Tensor, Tensor]:
        """Steps 6 and 5."""
        outputs = self.recording.outputs.get("actor_target", [])
        proposed = outputs[-1] if outputs else self.before.actor_target(self.next_seen)
        if not outputs:
            self.asked.append("next_action")
        call = self.recording.last("target_action")
        if call is None:
            self.asked.append("smoothed_action")
            return proposed, proposed
        return call.result, proposed

    def next_values(self, action: Tensor) -> tuple[list[Tensor], Tensor | None]:
        """Step 7, and step 8 if the update did it in `combine`."""
        if call := self.recording.last("combine"):
            given = [self.before.target_value(value) for value in first(call.given)]
            return given, self.before.target_value(call.result)
        if outputs := self.recording.outputs.get("critic_target"):
            return [self.before.as_value(value) for value in outputs[-1]], None
        self.asked.append("next_values")
        return critic_values(self.before, self.before.critic_target, self.next_seen, action), None

    def target_and_values(self) -> tuple[Tensor, list[Tensor]]:
        """Steps 9 and 10."""
        if call := self.recording.last("critic_loss"):
            values, target = list(call.given.values())[:2]
            return self.before.target_value(target), [self.before.as_value(v) for v in values]
        values = critic_values(self.before, self.before.critic, self.seen, self.batch.action)
        self.asked.append("values")
        if call := self.recording.last("target_q"):
            return self.before.target_value(call.result), values
        self.asked.append("target_q")
        return torch.full_like(self.batch.reward, torch.nan), values

    def split(self, target: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The reward inside the target, the target, and the value that step 8 kept.

        A variant may change rewards in `prepare`. Then either its critics learn changed returns, or
        `as_value` changes them back, and the stored reward is the part of the target.
        """
        call = self.recording.last("prepare")
        rewards = [self.batch.reward] + ([call.result.reward] if call else [])
        weight = (1 - self.batch.done) * float(self.specimen.settings.discount)
        if kept is None:
            self.asked.append("kept_value")
            kept = torch.where(weight > 0, (target - rewards[-1]) / weight, torch.nan)
            return rewards[-1], target, kept
        reward = min(rewards, key=lambda own: float((target - own - weight * kept).square().sum()))
        return reward, target, kept

    def distance(self, name: str) -> tuple[float, float]:
        """How far a target is from its network before and after steps 14 and 15."""
        online = self.after.trained[name].online.flat
        now = self.after.trained[name].target.flat
        before, after = self.recording.moves.get(name, (now, now))
        return float((online - before).norm()), float((online - after).norm())


def critic_values(agent: TD3, critic: Any, seen: Tensor, action: Tensor) -> list[Tensor]:
    """What each critic says, as returns, (1, n, 1) each."""
    return [agent.as_value(output) for output in critic(seen, action)]


def slope(agent: TD3, seen: Tensor, action: Tensor) -> Tensor:
    """The gradient of the first critic's value with respect to the action."""
    with torch.enable_grad():
        action = action.detach().clone().requires_grad_()
        value = critic_values(agent, agent.critic, seen.detach(), action)[0]
        (gradient,) = torch.autograd.grad(value.sum(), action)
    return gradient


def first(given: dict[str, Any]) -> Any:
    return next(iter(given.values()))


def rows(tensor: Tensor) -> Array:
    """(1, batch, width) → (batch, width)."""
    found: Array = tensor[0].detach().cpu().numpy()
    return found


def column(tensor: Tensor) -> Array:
    """(1, batch, 1) → (batch,)."""
    return rows(tensor)[:, 0]


def columns(tensors: list[Tensor]) -> Array:
    """One (1, batch, 1) for each critic → (critics, batch)."""
    return np.stack([column(tensor) for tensor in tensors])


def norms(network: StackedParameters, flat: Tensor) -> dict[str, Array]:
    """The norm of each layer, weights and biases together, one for each network of the agent."""
    found: dict[str, Tensor] = {}
    depth = len(network.leading)
    for name, part in network.named_layers(flat).items():
        layer = name.rpartition(".")[0] or name
        square = part.flatten(depth).square().sum(dim=-1) if part.dim() > depth else part.square()
        found[layer] = found.get(layer, torch.zeros_like(square)) + square
    return {name: square.sqrt()[0].reshape(-1).cpu().numpy() for name, square in found.items()}


def relative_changes(network: StackedParameters, before: Tensor, after: Tensor) -> dict[str, Array]:
    changed, whole = norms(network, after - before), norms(network, before)
    return {name: changed[name] / np.maximum(whole[name], 1e-12) for name in changed}
