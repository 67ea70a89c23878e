"""Tianshou 2: `OffPolicyTrainer`, as in its MuJoCo TD3 example."""

from typing import Any

from tianshou.algorithm import TD3
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.trainer import OffPolicyTrainer, OffPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorDeterministic, ContinuousCritic

from benchmarks.td3_bench.peers import make_environment, train_in_pieces
from td3.config import Config

EPOCH = 50  # steps; the trainer can stop only between epochs


class TianshouTrainer:
    def __init__(self, trainer: OffPolicyTrainer) -> None:
        self.trainer = trainer
        trainer.reset()

    def epoch(self) -> int:
        self.trainer.execute_epoch()
        return EPOCH

    def train(self, seconds: float) -> tuple[int, float]:
        return train_in_pieces(self.epoch, seconds)


def start(config: Config) -> TianshouTrainer:
    envs = DummyVectorEnv([lambda: make_environment(config)])
    algorithm = make_algorithm(config, envs)
    buffer = VectorReplayBuffer(config.loop.replay_size, 1)
    collector: Any = Collector(algorithm, envs, buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=config.loop.random_steps, random=True)
    params = OffPolicyTrainerParams(
        training_collector=collector,
        epoch_num_steps=EPOCH,
        collection_step_num_env_steps=1,
        update_step_num_gradient_steps_per_sample=1,
        batch_size=config.agent.batch_size,
        show_progress=False,
        verbose=False,
    )
    return TianshouTrainer(OffPolicyTrainer(algorithm, params))


def make_algorithm(config: Config, envs: DummyVectorEnv) -> TD3:
    agent = config.agent
    observation_space, action_space = envs.observation_space[0], envs.action_space[0]
    actor = ContinuousActorDeterministic(
        preprocess_net=Net(
            state_shape=observation_space.shape, hidden_sizes=list(agent.hidden_sizes)
        ),
        action_shape=action_space.shape,
    )
    policy = ContinuousDeterministicPolicy(
        actor=actor.to(config.device),
        exploration_noise=GaussianNoise(sigma=config.loop.exploration_noise),
        action_space=action_space,
    )
    critics = [
        ContinuousCritic(
            preprocess_net=Net(
                state_shape=observation_space.shape,
                action_shape=action_space.shape,
                hidden_sizes=list(agent.hidden_sizes),
                concat=True,
            )
        ).to(config.device)
        for _ in range(2)
    ]
    return TD3(
        policy=policy,
        policy_optim=AdamOptimizerFactory(lr=agent.actor_learning_rate),
        critic=critics[0],
        critic2=critics[1],
        critic_optim=AdamOptimizerFactory(lr=agent.critic_learning_rate),
        tau=agent.tau,
        gamma=agent.discount,
        policy_noise=agent.policy_noise,
        noise_clip=agent.noise_clip,
        update_actor_freq=agent.policy_freq,
    )
