"""A fused kernel replaces built-in code only; a subclass keeps its own."""

import dataclasses

import torch
from support.learners import act_and_learn, assert_same, config, parts
from torch import Tensor

from td3.algorithm.adam import Adam
from td3.algorithm.agent import TD3
from td3.algorithm.networks import Actor, Critic
from td3.execution import CpuLearner
from td3.execution.cpu.learner import fuse_adam
from td3.execution.replaceable import is_fusible, is_plain_adam
from td3.training.learner import Learner


class OtherActor(Actor):
    def compute(self, x: Tensor, flat: Tensor) -> Tensor:
        return super().compute(x, flat).sin()


class OtherCritic(Critic):
    def compute(self, x: Tensor, flat: Tensor) -> Tensor:
        return 2 * super().compute(x, flat)


class OtherLayers(Critic):
    def layers(self, flat: Tensor | None = None) -> list[tuple[Tensor, Tensor]]:
        return [(weight.tanh(), bias) for weight, bias in super().layers(flat)]


class GradientDescent(Adam):
    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        (parameter,) = self.param_groups[0]["params"]
        parameter -= 0.01 * parameter.grad


def test_is_fusible_with_built_in_networks_is_true() -> None:
    assert is_fusible(Actor(3, 2, hidden_sizes=(256, 256)))
    assert is_fusible(Critic(3, 2, hidden_sizes=(256, 256)))


def test_is_fusible_with_overridden_methods_is_false() -> None:
    assert not is_fusible(OtherActor(3, 2, hidden_sizes=(256, 256)))
    assert not is_fusible(OtherCritic(3, 2, hidden_sizes=(256, 256)))
    assert not is_fusible(OtherLayers(3, 2, hidden_sizes=(256, 256)))


def test_is_fusible_with_unsupported_sizes_is_false() -> None:
    for states, actions, hidden in (
        (3, 2, (256,)),
        (3, 2, (16, 16, 16)),
        (3, 2, (400, 300)),
        (128, 2, (16, 16)),
        (3, 33, (16, 16)),
    ):
        assert not is_fusible(Actor(states, actions, hidden_sizes=hidden))
    assert not is_fusible(Actor(3, 2, hidden_sizes=(16, 16), dtype=torch.float64))


def test_fuse_adam_with_a_subclass_keeps_its_step() -> None:
    agent = TD3(3, 2, hidden_sizes=(16, 16), seed=0)
    agent.trained["critic"].optimizer = GradientDescent(agent.critic)
    assert is_plain_adam(agent.actor_optimizer)
    fuse_adam(agent)
    assert "step" in agent.actor_optimizer.__dict__
    assert not is_plain_adam(agent.critic_optimizer)
    assert "step" not in agent.critic_optimizer.__dict__


def test_cpu_plan_of_stock_agent_takes_fused_adam_steps() -> None:
    assert count_fused_steps(CpuLearner(*parts(config(2)))) == 2  # one for each network


def test_cpu_plan_with_rates_of_their_own_takes_a_fused_step_for_each_agent() -> None:
    grid = dataclasses.replace(config(1), grid={"agent.critic_learning_rate": [1e-3, 1e-4]})
    assert count_fused_steps(CpuLearner(*parts(grid))) == 3  # actors together, two critics


def count_fused_steps(learner: CpuLearner) -> int:
    learner.replay.allocate(learner.agent.state_dim, learner.agent.action_dim)
    learner.replay.added[:] = 1
    learner.learn(1)
    traced = learner.updates[None].traced[True].graph
    return sum("_fused_adam_" in str(node.target) for node in traced.graph.nodes)


def test_cpu_learner_with_subclasses_matches_eager_learner() -> None:
    learners = []
    for make in (Learner, CpuLearner):
        agent, *others = parts(config(2), torch.float64)
        for network in (agent.actor, agent.actor_target):
            network.__class__ = OtherActor
        for network in (agent.critic, agent.critic_target):
            network.__class__ = OtherCritic
        agent.trained["critic"].optimizer = GradientDescent(agent.critic)
        learners.append(make(agent, *others))
    eager, planned = learners
    act_and_learn((eager, planned), steps=21, per_agent=1, tolerance=1e-9)
    assert planned.agent.updates.tolist() == [20, 20]
    assert (planned.agent.critic_optimizer.count == 0).all()
    assert_same(eager, planned, 1e-10)
