"""Lesson 3: twin critics."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from td3.algorithm.networks import Critic
from td3.lessons.checking import NOT_FILLED, Wrong, call, run, same

STATE_DIM, ACTION_DIM, BATCH = 3, 2, 20

HINTS = (
    "Six nn.Linear layers: three for each critic. The first takes state_dim + action_dim numbers, "
    "the last returns 1. ReLU between them.",
    "Join the inputs with torch.cat([state, action], dim=1). Give it to the first three layers for "
    "one value and to the other three for the other.",
    "Q1 is the first half of forward: the same three layers, nothing else.",
)


def examine(attempt: Any) -> None:
    torch.manual_seed(0)
    critic = run(attempt, STATE_DIM, ACTION_DIM)
    if not isinstance(critic, nn.Module):
        raise Wrong("The class must be an nn.Module: class MyCritic(nn.Module).")
    if not list(critic.parameters()):
        raise Wrong("The hole in __init__ is not filled yet: it makes no layers.")
    state, action = torch.randn(BATCH, STATE_DIM), torch.randn(BATCH, ACTION_DIM)
    values = call(critic, state, action)
    check_shapes(values, Critic(STATE_DIM, ACTION_DIM)(state, action))
    first, second = values
    if same(first, second):
        raise Wrong(
            "Both critics return the same values. They must have layers of their own with "
            "different random weights; the minimum of two copies does not help."
        )
    check_inputs(critic, state, action)
    check_shared(critic, first, second)
    check_hidden(critic, state, action)
    check_q1(critic, state, action, first, second)


def check_shapes(values: Any, expected: tuple[Tensor, ...]) -> None:
    if isinstance(values, Tensor) or not isinstance(values, tuple | list) or len(values) != 2:
        raise Wrong("forward must return two tensors: return first, second.")
    for value, right in zip(values, expected, strict=True):
        if value is None or value is Ellipsis:
            raise Wrong(NOT_FILLED.format(name="forward"))
        if value.shape == (BATCH, ACTION_DIM):
            raise Wrong(
                f"A value has {ACTION_DIM} numbers, one for each number of the action. Q(s, a) is "
                "one number: the last layer has 1 output."
            )
        if value.shape != right.shape:
            shapes = f"{tuple(right.shape)}, got {tuple(value.shape)}"
            raise Wrong(f"A value must have the shape (batch, 1), here {shapes}.")


def check_inputs(critic: Any, state: Tensor, action: Tensor) -> None:
    """Both critics look at the state and at the action."""
    first, second = call(critic, state, action)
    for name, other in (
        ("state", call(critic, state + 1, action)),
        ("action", call(critic, state, action + 1)),
    ):
        if same(first, other[0]) or same(second, other[1]):
            raise Wrong(f"A critic ignores the {name}. Join both: torch.cat([state, action], 1).")


def check_shared(critic: Any, first: Tensor, second: Tensor) -> None:
    """No parameter gets a gradient from both critics, and none from neither."""
    named = dict(critic.named_parameters())
    for value in (first, second):
        if not value.requires_grad:
            raise Wrong("The values carry no gradient; leave out detach and no_grad.")
    owners = [
        torch.autograd.grad(v.sum(), list(named.values()), allow_unused=True, retain_graph=True)
        for v in (first, second)
    ]
    for name, one, two in zip(named, *owners, strict=True):
        if one is not None and two is not None:
            raise Wrong(f"Both critics use {name}. They must share nothing, or they err together.")
        if one is None and two is None:
            raise Wrong(f"No critic uses {name}.")


def check_hidden(critic: Any, state: Tensor, action: Tensor) -> None:
    """Without ReLU a network is a straight line: its slope is the same everywhere."""
    steps = [call(critic, k * state, k * action) for k in (0.0, 1.0, 2.0)]
    for which, (a, b, c) in enumerate(zip(*steps, strict=True), start=1):
        if same(b - a, c - b):
            raise Wrong(f"Critic {which} is a straight line. Put a ReLU after each hidden layer.")


def check_q1(critic: Any, state: Tensor, action: Tensor, first: Tensor, second: Tensor) -> None:
    if not inspect.ismethod(getattr(critic, "Q1", None)):
        raise Wrong("The method Q1 is missing.")
    alone = call(critic.Q1, state, action)
    if isinstance(alone, tuple):
        raise Wrong("Q1 must return the first value alone, not both.")
    if same(alone, second):
        raise Wrong("Q1 returns the value of the second critic.")
    if not same(alone, first):
        raise Wrong("Q1 must return the same numbers as the first value of forward.")
