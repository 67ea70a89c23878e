"""SBX: the interface of Stable-Baselines3, implemented in JAX."""

import jax
from sbx import TD3

from benchmarks.td3_bench.peers.stable_baselines import StableBaselinesTrainer, keywords
from td3.config import Config


def start(config: Config) -> StableBaselinesTrainer:
    wanted = "gpu" if config.device.startswith("cuda") else "cpu"
    if jax.default_backend() != wanted:
        raise RuntimeError(f"JAX has no {wanted} backend here: pip install 'jax[cuda12]'")
    # The replay buffer is in NumPy, and JAX moves the batches, so JAX chooses the device.
    return StableBaselinesTrainer(
        TD3(**keywords(config), qf_learning_rate=config.agent.critic_learning_rate)
    )
