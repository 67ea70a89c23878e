"""SBX: Stable-Baselines3's interface, with JAX inside."""

import jax
from sbx import TD3

from td3.bench.peers.stable_baselines import Learner, keywords
from td3.config import Config


def start(config: Config) -> Learner:
    wanted = "gpu" if config.device.startswith("cuda") else "cpu"
    if jax.default_backend() != wanted:
        raise RuntimeError(f"JAX has no {wanted} backend here: pip install 'jax[cuda12]'")
    # Its replay buffer is NumPy's; JAX moves the batches, so `device` is JAX's own choice.
    return Learner(TD3(**keywords(config), qf_learning_rate=config.agent.critic_learning_rate))
