"""Lesson 9: the Bellman target."""

from typing import Any

import torch

from td3.algorithm.settings import UpdateSettings
from td3.lessons.checking import Wrong, call, compare
from td3.lessons.checks.lesson05 import random_agent, random_batch

DISCOUNT = 0.9

HINTS = (
    "Reward plus discount times next_q; the second part only where something follows.",
    "Only terminated stops it: (1 - terminated). A truncated episode would go on.",
    "next_q.detach() has the same numbers and no gradient.",
)


def examine(attempt: Any) -> None:
    agent, batch = random_agent(), random_batch(24)
    settings, noise = UpdateSettings(discount=DISCOUNT), torch.randn(1, 24, 2)
    with torch.no_grad():
        # Steps 5 to 9 of td3, and its value of step 8.
        right = agent.target_q(type(batch)(*(part[None] for part in batch)), noise, settings)[0]
        action = agent.target_action(batch.next_state[None], noise, settings)
        next_q = agent.combine(agent.critic_target(batch.next_state[None], action), noise)[0]
    next_q.requires_grad_()
    truncated = (torch.arange(24).reshape(24, 1) % 4 == 1).float()
    found = call(attempt, batch.reward, batch.done, truncated, next_q, DISCOUNT)
    mistakes = mistakes_of(batch.reward, batch.done, truncated, next_q.detach())
    compare(found, right, mistakes, "The result differs from reward + (1 - done) · discount · q.")
    if found.requires_grad:
        raise Wrong(
            "The numbers are right, but the target carries a gradient: you forgot detach. The "
            "target must be a constant, or the loss falls from the wrong side."
        )


def mistakes_of(
    reward: torch.Tensor, done: torch.Tensor, truncated: torch.Tensor, q: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What typical mistakes return."""
    both = torch.maximum(done, truncated)
    return {
        "A truncated episode counts as done. The clock ran out, but the world goes on: only "
        "terminated stops the return.": reward + (1 - both) * DISCOUNT * q,
        "truncated stops the return and terminated does not. It is the other way round.": (
            reward + (1 - truncated) * DISCOUNT * q
        ),
        "The value counts after a terminal state too. Nothing follows there: multiply by "
        "(1 - terminated).": reward + DISCOUNT * q,
        "The value counts only *after* a terminal state. Multiply by (1 - terminated), not by "
        "terminated.": reward + done * DISCOUNT * q,
        "The reward of the last step is lost: (1 - terminated) belongs to the value alone.": (
            (1 - done) * (reward + DISCOUNT * q)
        ),
        "discount is missing.": reward + (1 - done) * q,
        "discount multiplies the reward too. The reward comes now.": (
            DISCOUNT * (reward + (1 - done) * q)
        ),
        "reward is missing.": (1 - done) * DISCOUNT * q,
        "This is the reward alone.": reward,
        "The value is subtracted. Add it.": reward - (1 - done) * DISCOUNT * q,
    }
