"""Lesson 11: the critic loss."""

from typing import Any

import torch
from torch import Tensor

from td3.lessons.checking import Wrong, call, compare
from td3.lessons.checks.lesson05 import random_agent

HINTS = (
    "For each critic: the error is its value minus the target. Square it, take the mean.",
    "torch.nn.functional.mse_loss(value, target_q) does both. Add those of the two critics.",
)


def examine(attempt: Any) -> None:
    torch.manual_seed(0)
    first, second, target = (torch.randn(20, 1) for _ in range(3))
    values = first.requires_grad_(), second.requires_grad_()
    right = random_agent().critic_loss([value[None] for value in values], target[None])[0]
    found = call(attempt, first, second, target)
    if isinstance(found, Tensor) and found.numel() > 1:
        raise Wrong("The loss must be one number. Take the mean over the batch.")
    mistakes = mistakes_of(first, second, target)
    otherwise = "The result differs from mse(first, target_q) + mse(second, target_q)."
    compare(found, right, mistakes, otherwise)
    if not found.requires_grad:
        raise Wrong("The number is right, but it carries no gradient. Leave out detach and item.")
    slopes = torch.autograd.grad(found, values, allow_unused=True)
    if any(slope is None for slope in slopes):
        raise Wrong("No gradient reaches one of the critics. Leave out detach.")


def mistakes_of(first: Tensor, second: Tensor, target: Tensor) -> dict[str, Tensor]:
    """What typical mistakes return."""
    errors = first - target, second - target
    one, two = (error.square().mean() for error in errors)
    lower = torch.minimum(first, second) - target
    return {
        "This is the loss of the first critic alone. The second one would never learn.": one,
        "This is the loss of the second critic alone. The first one would never learn.": two,
        "This is the mean of both losses. TD3 adds them; a half would slow both down.": (
            (one + two) / 2
        ),
        "This is the sum over the batch. Take the mean, so that the batch size does not matter.": (
            20 * (one + two)
        ),
        "The errors are not squared: positive and negative ones cancel.": (
            errors[0].mean() + errors[1].mean()
        ),
        "These are absolute errors. They would lead to the median of the targets; square them.": (
            errors[0].abs().mean() + errors[1].abs().mean()
        ),
        "This is the root of the squared errors. Leave the root out.": one.sqrt() + two.sqrt(),
        "The two errors are added before they are squared, so they can cancel.": (
            (errors[0] + errors[1]).square().mean()
        ),
        "The minimum belongs to the target. Here each critic is compared with it alone.": (
            lower.square().mean()
        ),
        "This compares the critics with each other. Compare each with target_q.": (
            (first - second).square().mean()
        ),
        "The mean is squared. Square each error first, then take the mean.": (
            errors[0].mean().square() + errors[1].mean().square()
        ),
        "Only the sign is wrong: the optimizer makes this small, so it must grow with the "
        "errors.": -(one + two),
    }
