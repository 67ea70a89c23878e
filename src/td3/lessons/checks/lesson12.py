"""Lesson 12: one optimizer step of the critics."""

import copy
from typing import Any

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.lessons.checking import Wrong, run, same
from td3.lessons.checks.lesson05 import random_agent, random_batch

HINTS = (
    "Three calls: forget the old gradients, compute new ones, move the weights.",
    "optimizer.zero_grad(), loss.backward(), optimizer.step(), in this order.",
)
CALLS = ("optimizer.zero_grad()", "loss.backward()", "optimizer.step()")
ZERO, BACKWARD, STEP = CALLS


class Watched(torch.optim.Adam):
    """Adam that writes down what is called."""

    def __init__(self, weights: Tensor) -> None:
        self.calls: list[str] = []
        super().__init__([weights], 1e-3)
        weights.register_hook(lambda _: self.calls.append(BACKWARD))

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.calls.append(ZERO)
        super().zero_grad(set_to_none)

    def step(self, closure: Any = None) -> Any:
        self.calls.append(STEP)
        return super().step(closure)


def examine(attempt: Any) -> None:
    agent = random_agent()
    reference = copy.deepcopy(agent)
    optimizer = Watched(agent.critic.flat)
    for seed in range(3):
        loss = loss_of(agent, seed)
        optimizer.calls.clear()
        run(attempt, optimizer, loss.sum())
        check_calls(optimizer.calls)
        reference.minimize(loss_of(reference, seed), reference.trained["critic"])
        if not same(agent.critic.flat, reference.critic.flat):
            raise Wrong(
                "The calls are right, but the weights move elsewhere: loss.backward() must use the "
                "loss as it is, without a sign or a factor."
            )


def loss_of(agent: TD3, seed: int) -> Tensor:
    """The critic loss of a batch, (1,)."""
    batch = random_batch(seed=seed)
    values = agent.critic(batch.state[None], batch.action[None])
    return agent.critic_loss(values, batch.reward[None])


def check_calls(calls: list[str]) -> None:
    """The three calls happened once each, in an order that works."""
    if not calls:
        raise Wrong("The hole is not filled yet: nothing happens to the optimizer and the loss.")
    explained = {
        ZERO: "The gradients of all steps add up: call optimizer.zero_grad() first.",
        BACKWARD: "No gradient is computed: loss.backward() is missing.",
        STEP: "The gradients are computed, but no weight moves: optimizer.step() is missing.",
    }
    for name, sentence in explained.items():
        if name not in calls:
            raise Wrong(sentence)
    for name in CALLS:
        if calls.count(name) > 1:
            raise Wrong(f"{name} is called {calls.count(name)} times. Once is one step.")
    if calls.index(STEP) < calls.index(BACKWARD):
        raise Wrong("The weights move before the gradient of this loss is known: step comes last.")
    if calls == [BACKWARD, ZERO, STEP]:
        raise Wrong("zero_grad after backward deletes the new gradients, so no weight moves.")
