"""Lesson 15: both targets follow, with the delay."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.settings import UpdateSettings
from td3.lessons.checking import Wrong, compare, run, same
from td3.lessons.checks.lesson05 import random_agent

TAU, UPDATES, POLICY_FREQ = 0.1, 8, 3

HINTS = (
    "First the question: is update divisible by policy_freq? If not, do nothing.",
    "Then twice the same: follow(agent.actor, agent.actor_target, tau), and for the critics.",
)


def examine(attempt: Any) -> None:
    agent, reference = random_agent(), random_agent()
    start = targets(agent)
    settings = UpdateSettings(tau=TAU, policy_freq=POLICY_FREQ)
    for update in range(UPDATES):
        learn(agent)
        learn(reference)
        run(attempt, agent, update, TAU, POLICY_FREQ)
        reference.updates[:] = update
        if reference.due(settings.policy_freq):
            for name in ("actor", "critic"):
                reference.move_target(reference.trained[name], settings)
    if same(targets(agent), start):
        raise Wrong("The hole is not filled yet: no target moves.")
    online = torch.cat([network.online.flat.ravel() for network in agent.trained.values()])
    if not same(online, online_of(reference)):
        raise Wrong("An online network changed. Only the targets may change.")
    mistakes = {sentence: result_of(wrong) for sentence, wrong in MISTAKES.items()}
    otherwise = "The targets differ from those of steps 14 and 15."
    compare(targets(agent), targets(reference), mistakes, otherwise)


def targets(agent: TD3) -> Tensor:
    """All numbers of both targets."""
    return torch.cat([network.target.flat.ravel().clone() for network in agent.trained.values()])


def online_of(agent: TD3) -> Tensor:
    return torch.cat([network.online.flat.ravel() for network in agent.trained.values()])


def learn(agent: TD3) -> None:
    """Move the online networks, so that it matters on which updates the targets follow."""
    for network in agent.trained.values():
        network.online.flat.data += 0.1


def result_of(wrong: Callable[[TD3, int], None]) -> Tensor:
    agent = random_agent()
    for update in range(UPDATES):
        learn(agent)
        wrong(agent, update)
    return targets(agent)


def move(agent: TD3, due: bool, tau: float = TAU, *names: str) -> None:
    for name in names or ("actor", "critic"):
        if due:
            agent.trained[name].move_target(tau)


def mix_critics(agent: TD3, update: int) -> None:
    """Both critic targets follow the first critic."""
    move(agent, update % POLICY_FREQ == 0, TAU, "actor")
    if update % POLICY_FREQ == 0:
        critic = agent.trained["critic"]
        with torch.no_grad():
            critic.target.flat.lerp_(critic.online.flat[:, :1].expand_as(critic.target.flat), TAU)


MISTAKES: dict[str, Callable[[TD3, int], None]] = {
    "The targets move on every update. They move when update is divisible by policy_freq.": (
        lambda agent, update: move(agent, True)
    ),
    "Update 0 is due too: 0, policy_freq, 2 · policy_freq, …": (
        lambda agent, update: move(agent, update > 0 and update % POLICY_FREQ == 0)
    ),
    "The moves come on the wrong updates. The first is on update 0: update % policy_freq == 0.": (
        lambda agent, update: move(agent, (update + 1) % POLICY_FREQ == 0)
    ),
    "The targets move when they should rest, and rest when they should move.": (
        lambda agent, update: move(agent, update % POLICY_FREQ != 0)
    ),
    "The critic targets do not move.": (
        lambda agent, update: move(agent, update % POLICY_FREQ == 0, TAU, "actor")
    ),
    "The actor target does not move.": (
        lambda agent, update: move(agent, update % POLICY_FREQ == 0, TAU, "critic")
    ),
    "The targets are copies of their networks. Move them by the share tau only.": (
        lambda agent, update: move(agent, update % POLICY_FREQ == 0, 1.0)
    ),
    "tau and 1 - tau are exchanged.": (
        lambda agent, update: move(agent, update % POLICY_FREQ == 0, 1 - TAU)
    ),
    "Both critic targets follow the first critic. Each follows its own.": mix_critics,
}
