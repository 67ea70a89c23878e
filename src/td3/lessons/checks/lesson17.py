"""Lesson 17: the mean of the target value over many draws of noise."""

from typing import Any

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.lessons.checking import call, compare
from td3.lessons.checks.lesson05 import random_agent, random_batch

DRAWS, SIZE = 5, 40

HINTS = (
    "For one draw: both target critics for batch.next_state and smoothed[0], then the smaller.",
    "Do it for every draw, e.g. in a list. torch.stack(list).mean(dim=0) is the mean.",
)


def examine(attempt: Any) -> None:
    agent, batch = random_agent(), random_batch(SIZE)
    with torch.no_grad():
        agent.critic_target.flat[:, 1] *= 3  # so that neither critic is always the smaller one
        smoothed = agent.actor_target(batch.next_state) + torch.randn(DRAWS, SIZE, 2)
        values = [agent.critic_target(batch.next_state, action) for action in smoothed]
        right = torch.stack([agent.combine(pair, None) for pair in values]).mean(dim=0)
        found = call(attempt, agent, batch, smoothed.clone())
        mistakes = mistakes_of(agent, batch, smoothed)
    otherwise = "The result differs from the mean over the draws of the smaller target value."
    compare(found, right, mistakes, otherwise)


def mistakes_of(agent: TD3, batch: Batch, smoothed: Tensor) -> dict[str, Tensor]:
    """What typical mistakes return."""

    def smaller(critic: Any, state: Tensor) -> Tensor:
        return torch.stack([torch.minimum(*critic(state, action)) for action in smoothed])

    target = agent.critic_target
    both = torch.stack([torch.stack(target(batch.next_state, action)) for action in smoothed])
    values = smaller(target, batch.next_state)
    return {
        "The actions are averaged. That leaves one action without noise; average the values.": (
            torch.minimum(*target(batch.next_state, smoothed.mean(dim=0)))
        ),
        "The mean comes before the minimum. Take the smaller value of each draw first.": (
            both.mean(dim=0).amin(dim=0)
        ),
        "This is one draw only. Use all of smoothed.": values[0],
        "This is the smallest value of all draws. Take their mean.": values.amin(dim=0),
        "This is the largest value of all draws. Take their mean.": values.amax(dim=0),
        "This is the sum over the draws. Take the mean.": values.sum(dim=0),
        "These are the online critics. Use agent.critic_target.": (
            smaller(agent.critic, batch.next_state).mean(dim=0)
        ),
        "The critics value batch.state. What follows is in batch.next_state.": (
            smaller(target, batch.state).mean(dim=0)
        ),
        "This is the mean of both critics. Take the smaller value of each draw.": (
            both.mean(dim=(0, 1))
        ),
        "This is the first critic alone. Take the smaller value of each draw.": (
            both[:, 0].mean(dim=0)
        ),
    }
