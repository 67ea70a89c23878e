"""Suggestions for misspelt settings, and for the names that other libraries use."""

import difflib

from td3.config.fields import declared_settings
from td3.config.schema import Config

# Names of these settings in other implementations.
ELSEWHERE = {
    "gamma": "agent.discount",
    "lr": "agent.actor_learning_rate",
    "learning_rate": "agent.actor_learning_rate",
    "actor_lr": "agent.actor_learning_rate",
    "critic_lr": "agent.critic_learning_rate",
    "policy_delay": "agent.policy_freq",
    "policy_frequency": "agent.policy_freq",
    "target_policy_noise": "agent.policy_noise",
    "target_noise_clip": "agent.noise_clip",
    "max_timesteps": "loop.steps",
    "total_timesteps": "loop.steps",
    "start_timesteps": "loop.random_steps",
    "learning_starts": "loop.random_steps",
    "expl_noise": "loop.exploration_noise",
    "buffer_size": "loop.replay_size",
    "eval_freq": "evaluation.every",
    "eval_episodes": "evaluation.episodes",
    "envs": "environment.count",
    "num_envs": "environment.count",
    "env": "environment.id",
    "env_id": "environment.id",
    "env_name": "environment.id",
    "environment": "environment.id",
    "environment_id": "environment.id",
    "keep_every": "evaluation.keep_every",
    "snapshots": "evaluation.keep_every",
    "snapshot_every": "evaluation.keep_every",
    "cuda": "device",
}


def setting_near(name: str) -> str:
    """The setting that is probably meant, with or without its table; empty if none is near."""
    names = list(declared_settings(Config))
    known = {own.rpartition(".")[2]: own for own in names} | ELSEWHERE
    table, _, word = name.replace("-", "_").lower().rpartition(".")
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.75)
    if not near:
        return ""
    inside = f"{table}.{near[0]}"
    return inside if inside in names else known[near[0]]
