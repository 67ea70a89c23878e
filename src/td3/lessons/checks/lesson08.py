"""Lesson 8: the smaller value."""

from typing import Any

import torch
from torch import Tensor

from td3.lessons.checking import Wrong, call, compare
from td3.lessons.checks.lesson05 import random_agent

HINTS = (
    "Compare row by row: each transition gets the smaller of its own two values.",
    "torch.minimum takes two tensors of the same shape.",
)


def examine(attempt: Any) -> None:
    torch.manual_seed(0)
    first, second = torch.randn(2, 20, 1)
    second += 0.3  # one critic is smaller on average
    right = random_agent().combine((first, second), None)
    found = call(attempt, first.clone(), second.clone())
    if isinstance(found, tuple):
        raise Wrong(
            "This is a tuple. torch.min with dim returns values and places; use "
            "torch.minimum(first, second)."
        )
    if isinstance(found, Tensor) and found.numel() == 1:
        raise Wrong(
            "This is one number for the whole batch. Each transition gets the smaller of its own "
            "two values."
        )
    mistakes = {
        "This is the larger value. It makes overestimation worse.": torch.maximum(first, second),
        "This is the mean. It reduces the errors, but the best of several means is still too "
        "high.": (first + second) / 2,
        "This is the first critic's value. The second one is not used.": first,
        "This is always the critic that is smaller on average, or always the second. Decide row by "
        "row.": second,
        "This is the sum of both values.": first + second,
        "The values are compared without their signs. A value may be negative.": torch.where(
            first.abs() < second.abs(), first, second
        ),
    }
    compare(found, right, mistakes, "The result differs from the smaller value of each row.")
