"""The critics' values over actions, and clouds of smoothed actions, for one transition."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.errors import UserError
from td3.microscope.update import RecordedUpdate, critic_values

Array = NDArray[Any]
POINTS = 41
MOST_POINTS = 201
CLOUD = 300


@dataclass(frozen=True, eq=False)
class Landscape:
    """Values of all critics over one or two numbers of the action; the others stay fixed."""

    dims: tuple[int, ...]
    """Which numbers of the action vary: the axes, first the last one of `values`."""
    axes: tuple[Array, ...]
    """The values of each of them."""
    values: Array
    """(critics, points) or (critics, points of the second axis, points of the first)."""

    @property
    def smaller(self) -> Array:
        """Step 8: the smallest value at each point."""
        lowest: Array = self.values.min(axis=0)
        return lowest


def target_landscape(
    update: RecordedUpdate, sample: int, dims: tuple[int, ...] = (), points: int = POINTS
) -> Landscape:
    """Step 7: the target critics around the next action of a transition.

    Args:
        update: What `td3.record_update` returned.
        sample: Number of the transition in the batch.
        dims: One or two numbers of the action to vary. Default: the first two.
        points: Points of each axis.
    """
    check_sample(update, sample)
    seen, network = update.next_seen[:, sample : sample + 1], update.before.critic_target
    return values_over_actions(update, network, seen, update.next_action[sample], dims, points)


def critic_landscape(
    update: RecordedUpdate,
    sample: int,
    dims: tuple[int, ...] = (),
    points: int = POINTS,
    *,
    after: bool = True,
) -> Landscape:
    """Step 13: the critics around the actor's action in the state of a transition.

    Args:
        update: What `td3.record_update` returned.
        sample: Number of the transition in the batch.
        dims: One or two numbers of the action to vary. Default: the first two.
        points: Points of each axis.
        after: The critics after step 12, which the actor climbs; otherwise those before.
    """
    check_sample(update, sample)
    agent = update.after if after else update.before
    seen, action = update.seen[:, sample : sample + 1], update.actor_action[sample]
    return values_over_actions(update, agent.critic, seen, action, dims, points)


@torch.no_grad()
def values_over_actions(
    update: RecordedUpdate,
    network: Any,
    seen: Tensor,
    action: Array,
    dims: tuple[int, ...],
    points: int,
) -> Landscape:
    agent = update.before
    dims = check_dims(dims or tuple(range(min(2, agent.action_dim))), agent.action_dim)
    if not 2 <= points <= MOST_POINTS:
        raise UserError(f"A landscape has from 2 to {MOST_POINTS} points, not {points}.")
    limits = agent.actor.max_action[0, 0]
    axes = [
        torch.linspace(-1, 1, points, dtype=agent.dtype, device=agent.device) * limits[dim]
        for dim in dims
    ]
    grid = torch.meshgrid(*axes[::-1], indexing="ij")[::-1]  # the first axis varies fastest
    actions = torch.as_tensor(action, device=agent.device).expand(grid[0].numel(), -1).clone()
    for dim, own in zip(dims, grid, strict=True):
        actions[:, dim] = own.flatten()
    states = seen.expand(-1, len(actions), -1)
    values = critic_values(agent, network, states, actions[None])
    shaped = np.stack([value.view(grid[0].shape).cpu().numpy() for value in values])
    return Landscape(dims, tuple(axis.cpu().numpy() for axis in axes), shaped)


@torch.no_grad()
def smoothed_cloud(update: RecordedUpdate, sample: int, count: int = CLOUD) -> Array:
    """Step 6: `count` smoothed actions for one transition, (count, action_dim).

    The agent's own method smooths; the noise continues its random stream on a copy.
    """
    check_sample(update, sample)
    if not 1 <= count <= 10_000:
        raise UserError(f"A cloud has from 1 to 10,000 actions, not {count}.")
    agent = copy.deepcopy(update.before)
    states = update.next_seen[:, sample : sample + 1].expand(-1, count, -1)
    with update.specimen.own_random_state():
        noise = agent.draw_noise(count)
        found = agent.target_action(states, noise, update.specimen.settings)
    cloud: Array = found[0].cpu().numpy()
    return cloud


def check_sample(update: RecordedUpdate, sample: int) -> None:
    count = len(update.reward)
    if not 0 <= sample < count:
        raise UserError(f"The batch has the transitions 0 to {count - 1}, not {sample}.")


def check_dims(dims: tuple[int, ...], action_dim: int) -> tuple[int, ...]:
    wrong = [dim for dim in dims if not 0 <= dim < action_dim]
    if wrong or len(dims) not in (1, 2) or len(set(dims)) != len(dims):
        numbers = "only the number 0" if action_dim == 1 else f"the numbers 0 to {action_dim - 1}"
        raise UserError(f"Choose one or two different numbers of the action; it has {numbers}.")
    return dims
