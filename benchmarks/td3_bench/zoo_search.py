"""Search with RL Zoo over td3's space. Executed by the Python that has rl_zoo3, as a script.

Arguments: those of `rl_zoo3.train`. RL Zoo's own space has networks and batches that differ from
trial to trial; here both programs train networks of 64-64 on batches of 128.
"""

import sys
from typing import Any

import numpy as np
from rl_zoo3 import hyperparams_opt, train
from stable_baselines3.common.noise import NormalActionNoise


def sample(trial: Any, n_actions: int, n_envs: int, additional: dict[str, Any]) -> dict[str, Any]:
    """The settings of td3's default space that Stable-Baselines3 has as numbers."""
    noise = trial.suggest_float("noise", 0.03, 0.5, log=True) * np.ones(n_actions)
    return {
        "learning_rate": trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True),
        "gamma": 1 - trial.suggest_float("one_minus_gamma", 1e-3, 0.1, log=True),
        "tau": trial.suggest_float("tau", 1e-3, 0.05, log=True),
        "target_policy_noise": trial.suggest_float("policy_noise", 0.05, 0.5, log=True),
        "target_noise_clip": trial.suggest_float("noise_clip", 0.1, 1.0, log=True),
        "action_noise": NormalActionNoise(np.zeros(n_actions), noise),
        "policy_kwargs": {"net_arch": [64, 64]},
        "batch_size": 128,
    }


if __name__ == "__main__":
    hyperparams_opt.HYPERPARAMS_SAMPLER["td3"] = sample
    sys.argv[0] = "train"
    train.train()
