"""Stable-Baselines3: `TD3("MlpPolicy", env).learn(…)`."""

import time
from typing import Any

import numpy as np
from stable_baselines3 import TD3
from stable_baselines3.common.noise import NormalActionNoise

from benchmarks.td3_bench.peers import make_environment
from td3.config import Config


class StableBaselinesTrainer:
    """A model of Stable-Baselines3, or one with the same interface."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def train(self, seconds: float) -> tuple[int, float]:
        first, start = self.model.num_timesteps, time.perf_counter()
        self.model.learn(
            total_timesteps=10**9,
            callback=lambda *_: time.perf_counter() - start < seconds,
            log_interval=None,
            reset_num_timesteps=False,
        )
        return self.model.num_timesteps - first, time.perf_counter() - start


def start(config: Config) -> StableBaselinesTrainer:
    return StableBaselinesTrainer(TD3(**keywords(config), device=config.device))


def keywords(config: Config) -> dict[str, Any]:
    """Return the arguments of TD3, here and in SBX."""
    env = make_environment(config)
    shape = env.action_space.shape
    assert shape is not None
    agent, loop = config.agent, config.loop
    deviation = np.full(shape, loop.exploration_noise)
    return {
        "policy": "MlpPolicy",
        "env": env,
        "learning_rate": agent.actor_learning_rate,
        "buffer_size": loop.replay_size,
        "learning_starts": loop.random_steps,
        "batch_size": agent.batch_size,
        "tau": agent.tau,
        "gamma": agent.discount,
        "train_freq": 1,
        "gradient_steps": 1,
        "action_noise": NormalActionNoise(np.zeros(shape), deviation),
        "policy_delay": agent.policy_freq,
        "target_policy_noise": agent.policy_noise,
        "target_noise_clip": agent.noise_clip,
        "policy_kwargs": {"net_arch": list(agent.hidden_sizes)},
        "seed": config.seed,
    }
