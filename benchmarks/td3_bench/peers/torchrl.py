"""TorchRL: collector, `TD3Loss` and `SoftUpdate`, as in its TD3 example."""

from typing import Any

from tensordict.nn import TensorDictModule, TensorDictSequential
from torch.nn import ReLU
from torch.optim import Adam
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import DoubleToFloat, GymWrapper, TransformedEnv
from torchrl.modules import MLP, AdditiveGaussianModule, TanhModule, ValueOperator
from torchrl.objectives import SoftUpdate, TD3Loss

from benchmarks.td3_bench.peers import make_environment, train_in_pieces
from td3.config import Config

FRAMES = 50  # collected, followed by as many updates; the example uses 1,000


class TorchRLTrainer:
    def __init__(self, config: Config) -> None:
        self.config = config
        env = TransformedEnv(GymWrapper(make_environment(config)), DoubleToFloat())
        spec = env.action_spec_unbatched.to(config.device)
        hidden = {"num_cells": list(config.agent.hidden_sizes), "device": config.device}
        states, actions = env.observation_spec["observation"].shape[-1], spec.shape[-1]
        actor = TensorDictSequential(
            TensorDictModule(
                MLP(in_features=states, out_features=actions, activation_class=ReLU, **hidden),
                in_keys=["observation"],
                out_keys=["param"],
            ),
            TanhModule(in_keys=["param"], out_keys=["action"], spec=spec),
        )
        critic = ValueOperator(
            MLP(in_features=states + actions, out_features=1, activation_class=ReLU, **hidden),
            in_keys=["action", "observation"],
        )
        self.make_loss(actor, critic, spec)
        noise = AdditiveGaussianModule(
            sigma_init=1, sigma_end=1, std=config.loop.exploration_noise, spec=spec
        )
        self.collector = Collector(
            env,
            TensorDictSequential(actor, noise.to(config.device)),
            frames_per_batch=FRAMES,
            total_frames=-1,
            init_random_frames=config.loop.random_steps,
            policy_device=config.device,
            env_device="cpu",
            storing_device="cpu",
        )
        self.frames = iter(self.collector)
        self.replay = TensorDictReplayBuffer(
            storage=LazyTensorStorage(config.loop.replay_size, device=config.device),
            batch_size=config.agent.batch_size,
        )
        self.updates = 0

    def make_loss(self, actor: Any, critic: Any, spec: Any) -> None:
        agent = self.config.agent
        self.loss = TD3Loss(
            actor_network=actor,
            qvalue_network=critic,
            num_qvalue_nets=2,
            loss_function="l2",
            delay_actor=True,
            delay_qvalue=True,
            action_spec=spec,
            policy_noise=agent.policy_noise,
            noise_clip=agent.noise_clip,
        )
        self.loss.make_value_estimator(gamma=agent.discount)
        self.targets = SoftUpdate(self.loss, eps=1 - agent.tau)
        actors = list(self.loss.actor_network_params.flatten_keys().values())
        critics = list(self.loss.qvalue_network_params.flatten_keys().values())
        self.actor_optimizer = Adam(actors, lr=agent.actor_learning_rate)
        self.critic_optimizer = Adam(critics, lr=agent.critic_learning_rate)

    def collect_and_update(self) -> int:
        self.collector.update_policy_weights_()
        frames = next(self.frames).reshape(-1)
        self.replay.extend(frames)
        for _ in range(FRAMES):
            self.update(self.replay.sample().to(self.config.device))
        return int(frames.numel())

    def update(self, batch: Any) -> None:
        loss, *_ = self.loss.value_loss(batch)
        loss.backward()
        self.critic_optimizer.step()
        self.critic_optimizer.zero_grad(set_to_none=True)
        self.updates += 1
        if self.updates % self.config.agent.policy_freq == 0:
            loss, *_ = self.loss.actor_loss(batch)
            loss.backward()
            self.actor_optimizer.step()
            self.actor_optimizer.zero_grad(set_to_none=True)
            self.targets.step()

    def train(self, seconds: float) -> tuple[int, float]:
        return train_in_pieces(self.collect_and_update, seconds)


def start(config: Config) -> TorchRLTrainer:
    return TorchRLTrainer(config)
