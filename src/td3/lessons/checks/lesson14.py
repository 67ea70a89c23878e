"""Lesson 14: Polyak averaging."""

from typing import Any

from torch import Tensor

from td3.algorithm.networks import Actor
from td3.lessons.checking import Wrong, compare, run, same
from td3.lessons.checks.lesson05 import random_agent

TAU, MOVES = 0.1, 3

HINTS = (
    "Go through both networks at once: zip(network.parameters(), target.parameters()).",
    "target_param.data.copy_(…) writes into the target; target_param = … would not.",
    "The new number is tau * param.data + (1 - tau) * target_param.data.",
)


def examine(attempt: Any) -> None:
    own, reference = random_agent().trained["actor"], random_agent().trained["actor"]
    start, online = own.target.flat.clone(), own.online.flat.detach().clone()
    for _ in range(MOVES):
        run(attempt, own.online, own.target, TAU)
        reference.move_target(TAU)
    check_network(own.online, online, start)
    if same(own.target.flat, start):
        raise Wrong(
            "The hole is not filled yet, or it changes nothing: the target is as before. "
            "`target_param = …` only makes a new name; write into it: target_param.data.copy_(…)."
        )
    otherwise = "The target differs from tau · network + (1 - tau) · target."
    mistakes = mistakes_of(start, online)
    compare(own.target.flat, reference.target.flat, mistakes, otherwise)
    if own.target.flat.requires_grad:
        raise Wrong("The numbers are right, but the target carries a gradient now. Use .data.")


def check_network(network: Actor, before: Tensor, target: Tensor) -> None:
    """The online network is only read."""
    if same(network.flat, before):
        return
    if same(network.flat, before + (1 - (1 - TAU) ** MOVES) * (target - before)):
        raise Wrong("The network follows the target. It is the other way round: write to target.")
    raise Wrong("The network's own numbers changed. Only the target may change.")


def mistakes_of(start: Tensor, online: Tensor) -> dict[str, Tensor]:
    """The target after three moves with typical mistakes."""

    def after(keep: float, add: float) -> Tensor:
        target = start
        for _ in range(MOVES):
            target = keep * target + add * online
        return target

    return {
        "tau and 1 - tau are exchanged: the target nearly jumps to the network.": (
            after(TAU, 1 - TAU)
        ),
        "The target is a copy of the network. Move it by the share tau only.": online,
        "The target loses nothing of its old numbers: multiply them by 1 - tau.": after(1, TAU),
        "The network's share is missing: add tau times its numbers.": after(1 - TAU, 0),
        "The network counts in full: multiply its numbers by tau.": after(1 - TAU, 1),
        "The target moves away from the network: the sign is wrong.": after(1 + TAU, -TAU),
        "The target is the mean of both. Use tau.": after(0.5, 0.5),
    }
