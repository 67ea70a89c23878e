"""Lesson 7: both target critics."""

from typing import Any

import torch
from torch import Tensor

from td3.lessons.checking import Wrong, call, compare
from td3.lessons.checks.lesson05 import random_agent, random_batch

HINTS = (
    "The network is agent.critic_target. It returns the values of both critics at once.",
    "It takes a state and an action: batch.next_state and next_action.",
)


def examine(attempt: Any) -> None:
    agent, batch = random_agent(), random_batch()
    with torch.no_grad():
        action = agent.actor_target(batch.next_state) + 0.1
        right = agent.critic_target(batch.next_state, action)
        found = pair(call(attempt, agent, batch, action))
        pairs = {
            "These are the online critics. Use agent.critic_target.": (
                agent.critic(batch.next_state, action)
            ),
            "The critics value batch.state. What follows is in batch.next_state.": (
                agent.critic_target(batch.state, action)
            ),
            "The stored action belongs to batch.state. Use next_action.": (
                agent.critic_target(batch.next_state, batch.action)
            ),
            "Those are the stored state and action: that is step 10.": (
                agent.critic_target(batch.state, batch.action)
            ),
            "The action is computed again, without the noise of step 6. Use next_action.": (
                agent.critic_target(batch.next_state, agent.actor_target(batch.next_state))
            ),
            "The two values are in the wrong order.": (right[1], right[0]),
            "Both values come from the first critic. Return what both say.": (right[0], right[0]),
        }
    mistakes = {sentence: torch.cat(values, dim=1) for sentence, values in pairs.items()}
    otherwise = "The result differs from agent.critic_target(batch.next_state, next_action)."
    compare(found, torch.cat(right, dim=1), mistakes, otherwise)


def pair(values: Any) -> Tensor:
    """The student's two values as one tensor."""
    if isinstance(values, Tensor):
        raise Wrong("Return the values of both critics, not one tensor. Step 8 compares them.")
    if not isinstance(values, tuple | list) or len(values) != 2:
        raise Wrong("Return two tensors, one for each target critic.")
    if not all(isinstance(value, Tensor) and value.shape == (12, 1) for value in values):
        shapes = [tuple(getattr(value, "shape", ())) for value in values]
        raise Wrong(f"Each value must have the shape (batch, 1), here (12, 1), got {shapes}.")
    return torch.cat(list(values), dim=1)
