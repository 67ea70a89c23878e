"""Lesson 13: the actor's loss."""

from typing import Any

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.lessons.checking import Wrong, call, compare
from td3.lessons.checks.lesson05 import random_agent, random_batch

HINTS = (
    "Which action does the actor choose in batch.state now? What does Q1 say about it?",
    "The optimizer goes down, the actor must go up: a minus. And one number: the mean.",
    "-agent.critic.Q1(batch.state, …).mean()",
)


def examine(attempt: Any) -> None:
    agent, batch = random_agent(), random_batch(64)
    agent.critic.flat.data[:, 0] *= 3  # so that neither critic is always the smaller one
    right = agent.actor_loss(batch.state[None])[0]
    found = call(attempt, agent, batch)
    if isinstance(found, Tensor) and found.numel() > 1:
        raise Wrong("The loss must be one number. Take the mean over the batch.")
    otherwise = "The result differs from -agent.critic.Q1(batch.state, the actor's action).mean()."
    compare(found, right, mistakes_of(agent, batch), otherwise)
    if not found.requires_grad:
        raise Wrong("The number is right, but it carries no gradient. Leave out detach and item.")
    (slope,) = torch.autograd.grad(found, agent.actor.flat, allow_unused=True)
    if slope is None:
        raise Wrong(
            "The number is right, but no gradient reaches the actor: its action is detached."
        )


def mistakes_of(agent: TD3, batch: Batch) -> dict[str, Tensor]:
    """What typical mistakes return."""
    state, critic = batch.state, agent.critic
    action = agent.actor(state)
    value = critic.Q1(state, action)
    return {
        "The sign is wrong: this actor would look for the worst action.": value.mean(),
        "This values the stored action. No weight of the actor is in it, so the actor would learn "
        "nothing. Ask agent.actor.": -critic.Q1(state, batch.action).mean(),
        "This values the action of agent.actor_target. The optimizer moves agent.actor.": (
            -critic.Q1(state, agent.actor_target(state)).mean()
        ),
        "The target critic judges here. Use agent.critic.": (
            -agent.critic_target.Q1(state, action).mean()
        ),
        "The actor is asked about batch.next_state. This step is about batch.state.": (
            -critic.Q1(batch.next_state, agent.actor(batch.next_state)).mean()
        ),
        "The action was chosen in another state than the one it is valued in.": (
            -critic.Q1(state, agent.actor(batch.next_state)).mean()
        ),
        "This is the smaller value of both critics. The actor climbs Q1 alone.": (
            -torch.minimum(*critic(state, action)).mean()
        ),
        "This is the mean of both critics. The actor climbs Q1 alone.": (
            -torch.stack(critic(state, action)).mean()
        ),
        "This is the second critic. The actor climbs the first.": -critic(state, action)[1].mean(),
        "This is the sum over the batch. Take the mean.": -value.sum(),
    }
