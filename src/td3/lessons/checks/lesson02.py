"""Lesson 2: the actor."""

from typing import Any

import torch
from torch import Tensor, nn

from td3.algorithm.networks import Actor
from td3.lessons.checking import Wrong, call, compare, run, same

LIMIT = 2.0
STATE_DIM, ACTION_DIM = 3, 2

HINTS = (
    "Three layers one after the other. torch.relu after the first and after the second.",
    "After the third layer: torch.tanh, which is between -1 and 1, times self.max_action.",
)


def examine(attempt: Any) -> None:
    torch.manual_seed(0)
    actor = run(attempt, STATE_DIM, ACTION_DIM, LIMIT)
    if not isinstance(actor, nn.Module):
        raise Wrong("The class must be an nn.Module: class MyActor(nn.Module).")
    state = torch.randn(50, STATE_DIM)
    check_gradients(actor, call(actor, state))
    used = [layer for layer in actor.modules() if isinstance(layer, nn.Linear)]
    with torch.no_grad():
        used[-1].weight.mul_(30)  # so that some actions reach the limit
        outputs = outputs_of(actor, used, state)
        check_hidden(actor, used, state)
        last = outputs[-1]
        mistakes = {
            "Nothing keeps the action in its range. Put torch.tanh on the last layer.": last,
            "The action stays within 1, but max_action is 2. Multiply by self.max_action.": (
                torch.tanh(last)
            ),
            "A clamp has no slope outside of the range, so the actor could not come back. Use "
            "torch.tanh.": last.clamp(-LIMIT, LIMIT),
            "The action is never negative. There must be no ReLU after the last layer.": (
                LIMIT * torch.tanh(last).relu()
            ),
            "max_action is inside of tanh; multiply what tanh returns.": torch.tanh(LIMIT * last),
        }
        otherwise = "The action must be max_action * torch.tanh(what the last layer returns)."
        compare(call(actor, state), reference_of(used)(state), mistakes, otherwise)


def check_gradients(actor: nn.Module, action: Any) -> None:
    """Every layer is used, and learns."""
    if not isinstance(action, Tensor) or action.shape != (50, ACTION_DIM):
        shape = tuple(getattr(action, "shape", ()))
        raise Wrong(f"50 states must give actions of the shape (50, {ACTION_DIM}), got {shape}.")
    if not action.requires_grad:
        raise Wrong("The action carries no gradient; leave out detach and no_grad.")
    action.square().sum().backward()
    for name, weights in actor.named_parameters():
        if weights.grad is None:
            raise Wrong(f"{name} gets no gradient: does forward use every layer, without detach?")


def outputs_of(actor: nn.Module, layers: list[nn.Linear], state: Tensor) -> list[Tensor]:
    """What each layer returns inside of the student's forward."""
    found: list[Tensor] = []
    hooks = [one.register_forward_hook(lambda *given: found.append(given[-1])) for one in layers]
    call(actor, state)
    for hook in hooks:
        hook.remove()
    return found


def check_hidden(actor: nn.Module, layers: list[nn.Linear], state: Tensor) -> None:
    """Each layer but the first gets what the ReLU after the one before returns."""
    inputs: list[Tensor] = []
    hooks = [
        one.register_forward_pre_hook(lambda _, given: inputs.append(given[0])) for one in layers
    ]
    outputs = outputs_of(actor, layers, state)
    for hook in hooks:
        hook.remove()
    for number, (before, given) in enumerate(zip(outputs, inputs[1:], strict=False), start=1):
        if same(given, before):
            raise Wrong(
                f"There is no ReLU after layer {number}. Without it, two layers in a row can do "
                "no more than one."
            )


def reference_of(layers: list[nn.Linear]) -> Actor:
    """The actor of td3 with the student's weights."""
    actor = Actor(STATE_DIM, ACTION_DIM, LIMIT, [one.out_features for one in layers[:-1]])
    for (weight, bias), own in zip(actor.layers(actor.flat.data), layers, strict=True):
        weight.copy_(own.weight.T)
        bias.copy_(own.bias)
    return actor
