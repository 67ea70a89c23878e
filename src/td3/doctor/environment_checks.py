"""Checks of an environment: does td3 accept it, and can an agent learn from it?"""

import math
import re
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from td3.config import EnvironmentConfig
from td3.doctor.check import Check, check_from_error
from td3.doctor.random_rollout import Rollout, random_rollout
from td3.environments.observations import flattened_images, observation_layout
from td3.environments.task import Task, action_bounds
from td3.errors import UserError
from td3.layout import describe_layout
from td3.text import count, number

SCALE_RATIO = 100  # a network hardly uses inputs that are this much smaller than others
TYPICAL_REWARD = (1e-3, 100.0)
LARGEST_FACTOR = 1e5  # smaller rewards are more likely rare than badly scaled
SHORTEST_LIMIT = 10  # steps; shorter episodes often end by themselves
OPTION = "Add this option to td3 train:"


def check_spaces(
    env: gym.Env[Any, Any], config: EnvironmentConfig
) -> tuple[list[Check], Task | None]:
    """Checks of both spaces, and the task if td3 accepts them."""
    failed = []
    for name, read, space in (
        ("actions", action_bounds, env.action_space),
        ("observations", observation_layout, env.observation_space),
    ):
        try:
            read(space, config.id)
        except UserError as error:
            failed.append(check_from_error(name, error))
    if failed:
        return failed, None
    task = Task.of(config.id, env.observation_space, env.action_space, config.frame_stack)
    return [check_actions(task), check_observations(task, env.observation_space)], task


def check_actions(task: Task) -> Check:
    low, high = task.bounds.low, task.bounds.high
    message = f"{count(task.action_dim, 'number')} in [{low.min():g}, {high.max():g}]"
    fixed = np.flatnonzero(low == high)
    if not fixed.size:
        return Check("actions", "ok", message)
    message += f"; low equals high in dimension {fixed[0]}"
    return Check("actions", "warning", message, "Remove it from the action space.")


def check_observations(task: Task, space: spaces.Space[Any]) -> Check:
    if flattened := flattened_images(space):
        message = (
            f"{describe_layout(task.layout)}; the array {flattened[0]} is read as single numbers"
        )
        advice = "If it is an image, declare it as uint8, or as float from 0 to 1."
        return Check("observations", "warning", message, advice)
    return Check("observations", "ok", describe_layout(task.layout))


def check_environment(config: EnvironmentConfig, limit: int | None, steps: int) -> list[Check]:
    """Run random actions and check what training depends on."""
    rollout = random_rollout(config, steps)
    checks = [check_stepping(rollout)]
    if rollout.steps:
        checks += [check_determinism(rollout), check_images(rollout), check_numbers(rollout)]
        checks += [check_rewards(rollout), check_episodes(rollout, limit)]
    # Gymnasium's logger adds colours and a prefix.
    texts = [re.sub(r"\x1b\[[0-9;]*m|WARN: ", "", text).strip() for text in rollout.warnings]
    advice = "This warning comes from the environment."
    checks += [Check("warning", "warning", text, advice) for text in dict.fromkeys(texts)]
    return [check for check in checks if check.message]


def check_stepping(rollout: Rollout) -> Check:
    if rollout.error:
        advice = "Fix the environment; training would stop here."
        return Check("stepping", "error", rollout.error, advice)
    speed = rollout.steps / max(rollout.seconds, 1e-9)
    message = f"{rollout.steps:,} random steps, {speed:,.0f} per second; all numbers are finite"
    return Check("stepping", "ok", message)


def check_determinism(rollout: Rollout) -> Check:
    if not rollout.difference:
        message = "equal seed and actions give equal results; resume is exact"
        return Check("determinism", "ok", message)
    message = f"two copies with equal seed and actions differ {rollout.difference}"
    advice = (
        "Draw all random numbers from self.np_random, which reset(seed=…) sets. Until then runs "
        "cannot be repeated or resumed exactly."
    )
    return Check("determinism", "warning", message, advice)


def check_images(rollout: Rollout) -> Check:
    if not rollout.has_image:
        return Check("images", "ok", "")
    if rollout.image_changed:
        return Check("images", "ok", "they change with the actions")
    return Check("images", "warning", "the image never changed", "Check the camera.")


def check_numbers(rollout: Rollout) -> Check:
    """Sizes of the observed numbers, and those that never change."""
    numbers = np.asarray(rollout.numbers, dtype=np.float64)
    if not numbers.size:
        return Check("numbers", "ok", "")
    moving = np.ptp(numbers, axis=0) > 0
    if moving.sum() < moving.size / 2:
        message = f"{(~moving).sum()} of {moving.size} never changed"
        return Check("numbers", "warning", message, "Check that observations show the state.")
    scales = np.sqrt(np.square(numbers[:, moving]).mean(axis=0))
    dimensions = np.array(rollout.dimensions)[moving]
    least, most = (dimensions[i] for i in (scales.argmin(), scales.argmax()))
    message = f"typical size {number(scales.min())} in {least}"
    if least != most:
        message += f" to {number(scales.max())} in {most}"
    if scales.max() <= SCALE_RATIO * scales.min():
        return Check("numbers", "ok", message)
    if rollout.has_image:  # training refuses to normalise images
        return Check("numbers", "warning", message, "Scale them in the environment.")
    return Check("numbers", "warning", message, OPTION, "--environment.normalize-observations")


def check_rewards(rollout: Rollout) -> Check:
    sizes = np.abs(rollout.rewards)
    if not sizes.any():
        message = f"always 0 in {count(rollout.steps, 'random step')}"
        return Check("reward", "warning", message, "TD3 needs rewards to learn from; shape them.")
    typical = float(np.median(sizes[sizes > 0]))
    lowest, highest = number(min(rollout.rewards)), number(max(rollout.rewards))
    message = f"{lowest} to {highest}, typical size {number(typical)}"
    if (share := (sizes > 0).mean()) < 0.5:
        message += f", not 0 in {share:.1%} of steps"
    if TYPICAL_REWARD[0] <= typical <= TYPICAL_REWARD[1]:
        return Check("reward", "ok", message)
    factor = 10.0 ** -round(math.log10(typical))
    if factor > LARGEST_FACTOR:
        return Check("reward", "warning", message, "Shape the reward if learning does not start.")
    return Check("reward", "warning", message, OPTION, f"--environment.reward-scale {factor:g}")


def check_episodes(rollout: Rollout, limit: int | None) -> Check:
    stated = f"time limit {limit:,} steps" if limit else "no time limit"
    if not rollout.episodes:
        message = f"{stated}; none ended in {count(rollout.steps, 'step')}"
        advice = "Give it a time limit, e.g. --environment.max-episode-steps 1000."
        return Check("episodes", "ok" if limit else "warning", message, "" if limit else advice)
    returns, lengths, terminated = map(list, zip(*rollout.episodes, strict=True))
    message = (
        f"{stated}; {len(lengths)} ended, {sum(terminated)} of them terminated; mean length "
        f"{np.mean(lengths):,.0f}, mean random return {np.mean(returns):,.1f}"
    )
    if len(lengths) > 2 and len(set(lengths)) == 1 and all(terminated):
        message += f"; each terminated after exactly {lengths[0]} steps"
        advice = (
            "If that is a time limit, return truncated instead: after terminated, TD3 learns that "
            "no rewards follow."
        )
        if lengths[0] >= SHORTEST_LIMIT:
            return Check("episodes", "warning", message, advice)
    return Check("episodes", "ok", message)
