"""Lesson 6: clipped noise."""

from typing import Any

import torch

from td3.algorithm.settings import UpdateSettings
from td3.lessons.checking import call, compare
from td3.lessons.checks.lesson05 import random_agent

SIGMA, CLIP, LIMIT, BATCH = 0.4, 0.5, 2.0, 200

HINTS = (
    "Three things in this order: scale the noise, clip the noise, add it and clamp the action.",
    "smoothing = (policy_noise * noise).clamp(-noise_clip, noise_clip)",
    "policy_noise and noise_clip are shares of max_action: add max_action * smoothing, then clamp "
    "the sum to ±max_action.",
)


def examine(attempt: Any) -> None:
    agent = random_agent()
    torch.manual_seed(0)
    next_state, noise = 5 * torch.randn(BATCH, 3), torch.randn(BATCH, 2)
    settings = UpdateSettings(policy_noise=SIGMA, noise_clip=CLIP)
    with torch.no_grad():
        agent.actor_target.flat.mul_(3)  # so that some actions are near the limit
        action = agent.actor_target(next_state)
        right = agent.target_action(next_state[None], noise[None], settings)[0]
    found = call(attempt, action.clone(), noise.clone(), SIGMA, CLIP, LIMIT)
    otherwise = "The result differs from step 6. Scale, clip, add, clamp: in this order."
    compare(found, right, mistakes_of(action, noise), otherwise)


def mistakes_of(action: torch.Tensor, noise: torch.Tensor) -> dict[str, torch.Tensor]:
    """What typical mistakes return."""

    def result(smoothing: torch.Tensor, limit: float = LIMIT) -> torch.Tensor:
        return (action + smoothing).clamp(-limit, limit)

    right = (SIGMA * noise).clamp(-CLIP, CLIP)
    return {
        "The noise is not added: this is the next action as it was.": action,
        "The noise is not clipped. A rare large number would be a different action, not a similar "
        "one: clamp the noise to ±noise_clip.": result(LIMIT * SIGMA * noise),
        "The action leaves its range. After adding the noise, clamp to ±max_action.": (
            action + LIMIT * right
        ),
        "Neither the noise nor the action is clipped.": action + LIMIT * SIGMA * noise,
        "policy_noise and noise_clip are shares of max_action: multiply the clipped noise by "
        "max_action.": result(right),
        "policy_noise and noise_clip are shares of max_action (and the action must be clamped to "
        "±max_action).": action + right,
        "The noise is clipped before it is scaled. Multiply by policy_noise first, then "
        "clip.": result(LIMIT * SIGMA * noise.clamp(-CLIP, CLIP)),
        "The noise is scaled with max_action before the clip, but noise_clip is a share of "
        "max_action too.": result((LIMIT * SIGMA * noise).clamp(-CLIP, CLIP)),
        "policy_noise is missing: the noise has a standard deviation of 1.": (
            result(LIMIT * noise.clamp(-CLIP, CLIP))
        ),
        "One noise vector serves the whole batch. Every row needs noise of its own: use all of "
        "noise.": result(LIMIT * right[:1]),
        "One number of noise serves all numbers of an action.": result(LIMIT * right[:, :1]),
        "The action is clamped to ±1. Its limit is max_action.": result(LIMIT * right, 1.0),
        "The action is clamped to ±noise_clip. That is the limit of the noise.": (
            result(LIMIT * right, CLIP)
        ),
        "The noise is subtracted. Add it.": result(-LIMIT * right),
    }
