"""Lesson 10: the current values of the stored action."""

from typing import Any

import torch

from td3.lessons.checking import Wrong, call, compare
from td3.lessons.checks.lesson05 import random_agent, random_batch
from td3.lessons.checks.lesson07 import pair

HINTS = (
    "Both inputs are in the batch. The network is the one that the optimizer will change.",
    "One line: call agent.critic with batch.state and batch.action.",
)


def examine(attempt: Any) -> None:
    agent, batch = random_agent(), random_batch()
    right = torch.cat(agent.critic(batch.state, batch.action), dim=1)
    found = pair(call(attempt, agent, batch))
    own, following = agent.actor(batch.state), agent.actor_target(batch.next_state)
    pairs = {
        "These are the target critics. The optimizer changes the online ones: agent.critic.": (
            agent.critic_target(batch.state, batch.action)
        ),
        "The actor chose this action now. The reward belongs to the stored one: batch.action.": (
            agent.critic(batch.state, own)
        ),
        "The critics value batch.next_state. The stored action was taken in batch.state.": (
            agent.critic(batch.next_state, batch.action)
        ),
        "This is the value of the next state. That was step 7.": (
            agent.critic_target(batch.next_state, following)
        ),
        "The two values are in the wrong order.": agent.critic(batch.state, batch.action)[::-1],
        "Both values come from the first critic. Return what both say.": (
            agent.critic.Q1(batch.state, batch.action),
        )
        * 2,
    }
    mistakes = {sentence: torch.cat(values, dim=1) for sentence, values in pairs.items()}
    otherwise = "The result differs from agent.critic(batch.state, batch.action)."
    compare(found, right, mistakes, otherwise)
    if not found.requires_grad:
        raise Wrong(
            "The numbers are right, but no gradient flows through them. Leave out detach and "
            "no_grad, or step 12 cannot change the critics."
        )
