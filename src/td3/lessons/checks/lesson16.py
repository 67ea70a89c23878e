"""Lesson 16: overestimation."""

from typing import Any

import torch
from torch import Tensor

from td3.lessons.checking import Wrong, call, compare

DISCOUNT, STEPS = 0.9, 6

HINTS = (
    "First the discounted return of each episode: reward k counts discount**k, from k = 0 on.",
    "discount ** torch.arange(steps) has all factors. rewards @ factors adds up each episode.",
    "Then the mean of promised minus return.",
)


def examine(attempt: Any) -> None:
    torch.manual_seed(0)
    promised, rewards = torch.randn(8), torch.randn(8, STEPS) + 0.5
    right = promised.mean() - returns_of(rewards).mean()
    found = call(attempt, promised, rewards, DISCOUNT)
    if isinstance(found, float):
        found = torch.tensor(found)
    if isinstance(found, Tensor) and found.numel() > 1:
        raise Wrong("The result must be one number: the mean over the episodes.")
    mistakes = mistakes_of(promised, rewards)
    compare(found, right, mistakes, "The result differs from promised minus discounted return.")


def returns_of(rewards: Tensor) -> Tensor:
    """The return of each episode, computed backwards like the Bellman target of step 9."""
    total = torch.zeros(len(rewards))
    for reward in reversed(rewards.unbind(1)):
        total = reward + DISCOUNT * total
    return total


def mistakes_of(promised: Tensor, rewards: Tensor) -> dict[str, Tensor]:
    """What typical mistakes return."""
    returns = returns_of(rewards)
    factors = DISCOUNT ** torch.arange(STEPS)
    return {
        "The sign is wrong: positive must mean that the critics promise too much.": (
            returns - promised
        ).mean(),
        "The rewards are not discounted. Q is a discounted sum.": (
            promised - rewards.sum(dim=1)
        ).mean(),
        "The first reward is discounted already. It counts in full: begin with discount**0.": (
            promised - DISCOUNT * returns
        ).mean(),
        "The rewards are discounted from the wrong end: the first one counts most.": (
            promised - rewards @ factors.flip(0)
        ).mean(),
        "The return is a sum over the steps, not a mean.": (
            promised - (rewards * factors).mean(dim=1)
        ).mean(),
        "These are absolute differences. The direction of the error is the question.": (
            promised - returns
        )
        .abs()
        .mean(),
        "These are squared differences. The direction of the error is the question.": (
            promised - returns
        )
        .square()
        .mean(),
        "This is what the critics promise. Subtract the return.": promised.mean(),
        "This is the return. Subtract it from what the critics promise.": returns.mean(),
        "This is the sum over the episodes. Take the mean.": (promised - returns).sum(),
    }
