"""Lesson 19: values that no return can reach."""

from typing import Any

import torch
from torch import Tensor

from td3.lessons.checking import Wrong, call, require_shape

DISCOUNT = 0.9

HINTS = (
    "The best return: the best reward forever, high / (1 - discount). The worst likewise.",
    "If the episode can end, a return may be a single reward: the lower limit is then the smaller "
    "of low and low / (1 - discount).",
    "(q < lower) | (q > upper)",
)
TASKS = ((-16.0, 0.0), (-1.0, 2.0), (1.0, 3.0), (-3.0, -1.0))


def examine(attempt: Any) -> None:
    for low, high in TASKS:
        for terminates in (False, True):
            lower, upper = limits(low, high, terminates)
            near = [end + step for end in (lower, upper) for step in (-0.01, 0.01)]
            q = torch.cat([torch.tensor(near), torch.linspace(-200, 60, 996)]).reshape(-1, 1)
            found = call(attempt, q.clone(), low, high, DISCOUNT, terminates)
            right = outside(q, lower, upper)
            require_shape(found, right)
            if found.dtype != torch.bool:
                raise Wrong(f"The result must be a tensor of booleans, got {found.dtype}.")
            if not found.equal(right):
                ends = "can" if terminates else "cannot"
                raise Wrong(
                    f"Rewards from {low:g} to {high:g}, discount {DISCOUNT}, the episode {ends} "
                    f"end: {sentence_of(found, q, low, high, terminates)}"
                )


def outside(q: Tensor, lower: float, upper: float) -> Tensor:
    return (q < lower) | (q > upper)


def limits(low: float, high: float, terminates: bool) -> tuple[float, float]:
    """The smallest and largest return, by adding up rewards as the Bellman equation does."""
    lower, upper = low, high
    for _ in range(1000):
        lower, upper = low + DISCOUNT * lower, high + DISCOUNT * upper
    return (min(lower, low), max(upper, high)) if terminates else (lower, upper)


def sentence_of(found: Tensor, q: Tensor, low: float, high: float, terminates: bool) -> str:
    """The mistake that gives `found`; otherwise the first value that is judged wrongly."""
    lower, upper = limits(low, high, terminates)
    right, other = outside(q, lower, upper), limits(low, high, not terminates)
    horizon = "every reward counts, forever: divide by (1 - discount)."
    mistakes = {
        "the answer is the opposite; true must mean impossible.": ~right,
        "only the upper limit is checked. A value may be too low as well.": q > upper,
        "only the lower limit is checked. A value may be too high as well.": q < lower,
        horizon: outside(q, low, high),
        f"{horizon} You multiply.": outside(q, low * (1 - DISCOUNT), high * (1 - DISCOUNT)),
        (
            "it may end after one step, so a return may be a single reward."
            if terminates
            else "it always gets all of its rewards; a single reward is not a return."
        ): outside(q, *other),
    }
    for sentence, wrong in mistakes.items():
        if found.equal(wrong):
            return sentence
    place = int((found != right).flatten().nonzero()[0])
    verdict = "impossible" if right[place] else "possible"
    return f"a value of {q[place].item():.2f} is {verdict}."
