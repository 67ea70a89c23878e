"""skrl: its TD3 agent with `StepTrainer`, and models as in its documentation."""

from typing import Any

import torch
from skrl.agents.torch.td3 import TD3
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, Model
from skrl.resources.noises.torch import GaussianNoise
from skrl.trainers.torch import StepTrainer
from torch import Tensor, nn

from benchmarks.td3_bench.peers import make_environment, train_in_pieces
from td3.config import Config


class SkrlNetwork(DeterministicMixin, Model):
    """An actor, or with `takes_actions` a critic."""

    def __init__(self, env: Any, config: Config, takes_actions: bool) -> None:
        spaces = {
            "observation_space": env.observation_space,
            "action_space": env.action_space,
            "device": config.device,
        }
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.takes_actions = takes_actions
        inputs = self.num_observations + (self.num_actions if takes_actions else 0)
        layers: list[nn.Module] = []
        for width in config.agent.hidden_sizes:
            layers += [nn.Linear(inputs, width), nn.ReLU()]
            inputs = width
        layers += (
            [nn.Linear(inputs, 1)]
            if takes_actions
            else [nn.Linear(inputs, self.num_actions), nn.Tanh()]
        )
        self.layers = nn.Sequential(*layers)

    def compute(self, inputs: dict[str, Tensor], role: str = "") -> tuple[Tensor, dict[str, Any]]:
        x = inputs["observations"]
        if self.takes_actions:
            x = torch.cat([x, inputs["taken_actions"]], dim=1)
        return self.layers(x), {}


class SkrlTrainer:
    def __init__(self, trainer: StepTrainer) -> None:
        self.trainer = trainer

    def step(self) -> int:
        self.trainer.train()
        return 1

    def train(self, seconds: float) -> tuple[int, float]:
        return train_in_pieces(self.step, seconds)


def start(config: Config) -> SkrlTrainer:
    device, agent, loop = config.device, config.agent, config.loop
    env = wrap_env(make_environment(config), wrapper="gymnasium", verbose=False)
    names = ("policy", "target_policy", "critic_1", "critic_2", "target_critic_1")
    models = {
        name: SkrlNetwork(env, config, "critic" in name) for name in (*names, "target_critic_2")
    }
    for model in models.values():
        model.to(device)
    cfg = {
        "gradient_steps": 1,
        "batch_size": agent.batch_size,
        "discount_factor": agent.discount,
        "polyak": agent.tau,
        "learning_rate": (agent.actor_learning_rate, agent.critic_learning_rate),
        "random_timesteps": loop.random_steps,
        "learning_starts": loop.random_steps,
        "exploration_noise": GaussianNoise,
        "exploration_noise_kwargs": {"mean": 0, "std": loop.exploration_noise, "device": device},
        "policy_delay": agent.policy_freq,
        "smooth_regularization_noise": GaussianNoise,
        "smooth_regularization_noise_kwargs": {
            "mean": 0,
            "std": agent.policy_noise,
            "device": device,
        },
        "smooth_regularization_clip": agent.noise_clip,
        "experiment": {"write_interval": 0, "checkpoint_interval": 0},
    }
    learner = TD3(
        models=models,
        memory=RandomMemory(memory_size=loop.replay_size, num_envs=1, device=device),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=device,
        cfg=cfg,
    )
    trainer_cfg = {"timesteps": 10**9, "headless": True, "disable_progressbar": True}
    return SkrlTrainer(StepTrainer(env=env, agents=learner, cfg=trainer_cfg))
