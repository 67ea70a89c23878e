"""`td3.evaluate`: play a policy, a run or any function without noise."""

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from td3.config import EnvironmentConfig, EvaluationConfig
from td3.environments.environment import Environment
from td3.environments.factories import name_environment
from td3.environments.simulators import resolve_version
from td3.errors import UserError
from td3.policy import evaluation
from td3.policy.evaluation import Evaluation, episode_seeds
from td3.policy.load import load_policy
from td3.policy.policy import Policy

Act = Callable[[Any], Any]
Env = gym.Env[Any, Any]


def evaluate(
    policy: Policy | str | os.PathLike[str] | Act,
    environment: str | Env | Callable[[], Env] | None = None,
    episodes: int = 10,
    *,
    seed: int = 1_000_000,
    max_steps: int | None = None,
    seeds: Sequence[int] | None = None,
) -> Evaluation:
    """Play noise-free episodes and return their returns and lengths.

    Args:
        policy: A policy, a `Run`, the path of a run or of a policy file, or any function from an
            observation of the environment to an action of the environment.
        environment: A Gymnasium id, a function or class that makes an environment, or an
            environment, which stays open. Default: the task of the policy.
        episodes: Number of episodes.
        seed: Seed of the episodes, as in `td3 evaluate`.
        max_steps: Longest episode. Default: as in the evaluations of training.
        seeds: Deprecated: one seed for each episode, for a function from a flat state to an
            action in [-1, 1].

    Returns:
        The returns and lengths, with mean, standard deviation and 95 % interval.

    Raises:
        UserError: There is no such policy or task, or they do not fit; or a function returned an
            action of another shape, or one that is not finite.

    Example:
        found = td3.evaluate(run, episodes=100)
        found.mean, found.interval
    """
    if seeds is not None:
        return evaluate_flat(policy, environment, seeds, max_steps)
    if isinstance(policy, str | os.PathLike):
        policy = load_policy(policy)
    if isinstance(policy, Policy):
        max_steps = max_steps or policy.max_steps
        if not isinstance(environment, gym.Env):
            policy.task_to_play(environment or "", 'td3.evaluate(…, "{task}")')
            return policy.evaluate(
                episodes, seed, environment=environment or "", max_steps=max_steps
            )
    if not callable(policy):
        raise UserError(f"policy must be a policy, a run, a path or a function, not {policy!r}.")
    env = open_environment(environment)
    try:
        return play(policy, env, episode_seeds(seed, episodes), max_steps)
    finally:
        if env is not environment:
            env.close()


def open_environment(environment: Any) -> Env:
    """The environment that the user gave or named."""
    if isinstance(environment, gym.Env):
        return environment
    if not environment or not (isinstance(environment, str) or callable(environment)):
        raise UserError(
            "environment must be an id such as 'Pendulum-v1', a function that makes an "
            f"environment, or an environment, not {environment!r}."
        )
    name, kwargs = name_environment(environment)
    return Environment(EnvironmentConfig(id=resolve_version(name), kwargs=kwargs)).env


def play(act: Act, env: Env, seeds: Sequence[int], max_steps: int | None) -> Evaluation:
    """Play one episode for each seed with the environment's own observations and actions."""
    limit = max_steps or EvaluationConfig.max_steps
    returns, lengths = np.zeros(len(seeds)), np.zeros(len(seeds), dtype=np.int64)
    for episode, seed in enumerate(seeds):
        (observation, _), over = env.reset(seed=seed), False
        while not over:
            action = act(observation)
            check_action(action, env)
            observation, reward, terminated, truncated, _ = env.step(action)
            returns[episode] += float(reward)
            lengths[episode] += 1
            over = terminated or truncated or bool(lengths[episode] == limit)
    return Evaluation(returns, lengths)


def check_action(action: Any, env: Env) -> None:
    """Refuse an action of another shape, and one that is not finite."""
    if not isinstance(env.action_space, gym.spaces.Box):
        return
    if np.shape(action) != env.action_space.shape:
        raise UserError(
            f"The policy must return an action of the shape {env.action_space.shape}, "
            f"got {action!r}."
        )
    if not np.isfinite(action).all():
        raise UserError(f"The policy returned an action that is not finite: {action!r}.")


def evaluate_flat(act: Any, config: Any, seeds: Sequence[int], max_steps: int | None) -> Evaluation:
    """`td3.evaluate` as it was before it took policies."""
    warnings.warn(
        "td3.evaluate(act, config, seeds=…) is deprecated; use td3.evaluate(policy, environment, "
        "episodes, seed=…), where a function maps an observation to an action of the environment.",
        DeprecationWarning,
        stacklevel=3,
    )
    limit = max_steps or EvaluationConfig.max_steps
    return evaluation.evaluate(act, config, seeds, limit)
