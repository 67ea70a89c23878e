"""Overestimation: what the critics promise, and what the policy then gets.

The value of a state is the discounted return of an endless episode: a time limit does not stop
bootstrapping. So episodes are played beyond their time limit, and only states count whose rest is
so long that what is missing at the end has less than 1 % of its weight.
"""

import dataclasses
import math
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from td3.environments.environment import Environment
from td3.errors import UserError
from td3.microscope.specimen import Specimen
from td3.microscope.update import critic_values
from td3.policy.evaluation import episode_seeds

Array = NDArray[Any]
SEED = 1_000_000
WINDOW = 200  # steps of an episode whose states count
MISSING = 0.01  # weight of what comes after the last step that is played
LONGEST = 2000  # steps of the rest


class Returns(NamedTuple):
    """Predicted and achieved values of the states that a policy visits."""

    predicted: Array
    """The first critic's value of the actor's action, (states,)."""
    smallest: Array
    """The smallest value of all critics, (states,)."""
    achieved: Array
    """The discounted sum of rewards from there on, (states,)."""
    episodes: Array
    """The episode of each state, (states,)."""
    missing: float
    """Weight of what comes after the last step that was played."""

    @property
    def error(self) -> float:
        """How much the critic promises too much, as a mean over all states."""
        return float((self.predicted - self.achieved).mean())


def measure_returns(specimen: Specimen, episodes: int = 3, seed: int = SEED) -> Returns:
    """Play episodes without noise, and compare the critics with the returns.

    Args:
        specimen: Agent and task.
        episodes: Number of episodes.
        seed: Seed of the episodes.

    Raises:
        UserError: The discount is 1, or the task cannot be played.
    """
    discount = specimen.config.agent.discount
    if discount >= 1:
        raise UserError("With discount 1 an endless episode has no return to compare with.")
    if not 1 <= episodes <= 100:
        raise UserError(f"Episodes must be from 1 to 100, not {episodes}.")
    rest = math.ceil(math.log(MISSING) / math.log(discount)) if discount else 1
    rest = min(rest, LONGEST)
    played = [
        play(specimen, own, WINDOW + rest, rest, discount) for own in episode_seeds(seed, episodes)
    ]
    states, achieved = (np.concatenate([own[k] for own in played]) for k in (0, 1))
    with torch.no_grad():
        agent = specimen.agent
        seen = agent.observe(torch.from_numpy(states)[None].to(agent.device, agent.dtype))
        values = critic_values(agent, agent.critic, seen, agent.actor(seen))
    table = torch.stack(values)[:, 0, :, 0].cpu().numpy()
    owners = np.repeat(np.arange(episodes), [len(own[1]) for own in played])
    return Returns(table[0], table.min(axis=0), achieved, owners, discount**rest)


def play(
    specimen: Specimen, seed: int, steps: int, rest: int, discount: float
) -> tuple[Array, Array]:
    """The states of one episode and their returns."""
    own = specimen.config.environment
    limit = max(steps * own.action_repeat, own.max_episode_steps)
    states, rewards, terminated = [], [], False
    with closing(Environment(dataclasses.replace(own, max_episode_steps=limit))) as environment:
        state = environment.reset(seed=seed)
        for _ in range(steps):
            states.append(state)
            given = torch.from_numpy(state)[None, None]
            action = specimen.agent.act(given.to(specimen.agent.device, specimen.agent.dtype))
            state, reward, terminated, truncated = environment.step(action[0, 0].cpu().numpy())
            rewards.append(reward * own.reward_scale)
            if terminated or truncated:
                break
    returns, later = np.zeros(len(rewards)), 0.0
    for k in range(len(rewards) - 1, -1, -1):
        returns[k] = later = rewards[k] + discount * later
    count = len(rewards) if terminated else max(1, len(rewards) - rest)
    return np.stack(states[:count]), returns[:count]
