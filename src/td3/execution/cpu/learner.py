"""Acting and updating on a CPU: traced once, then executed as a plan of kernels."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.adam import Adam
from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.execution.context import UpdateContext
from td3.execution.cpu.compiler import Plan
from td3.execution.cpu.kernels import Pool
from td3.execution.replaceable import is_plain_adam
from td3.execution.trace import acting_inputs, trace, trace_acting, update_inputs
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population


class CpuLearner(Learner):
    """A learner on a CPU. It has one pair of plans for all members and one for each member."""

    replay: ReplayBuffer

    def __init__(
        self, agent: TD3, replay: ReplayBuffer, interval: Interval, population: Population
    ) -> None:
        super().__init__(agent, replay, interval, population)
        self.acting: CpuActing | None = None
        self.updates_of_all: CpuUpdates | None = None
        self.updates_of_member: dict[int, CpuUpdates] = {}

    def act(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        given = torch.from_numpy(states).to(self.agent.dtype)
        given = given.view(self.agent.agents, -1, states.shape[1])
        if self.acting is None:
            self.acting = CpuActing(self.agent, given)
        return self.acting(given).flatten(0, 1).numpy()

    def learn(self, updates: int) -> None:
        if self.updates_of_all is None:
            self.updates_of_all = CpuUpdates(UpdateContext.for_all(self))
        self.updates_of_all(updates)

    def learn_member(self, agent: int, updates: int) -> None:
        if agent not in self.updates_of_member:
            self.updates_of_member[agent] = CpuUpdates(UpdateContext.for_member(self, agent))
        self.updates_of_member[agent](updates)


class CpuUpdates:
    """Steps 4 to 15 as two plans: with the delayed steps and without.

    Every batch is written to the same memory, because the plans read it from there.
    """

    def __init__(self, context: UpdateContext) -> None:
        self.agent, self.replay, self.interval = context.agent, context.replay, context.interval
        self.policy_freq = context.policy_freq
        agent, replay, batch = context.agent, context.replay, context.batch_size
        assert replay.rows is not None
        self.batch = batch
        self.drawn = np.empty((agent.agents, batch, agent.action_dim), dtype=np.float32)
        self.noise = torch.zeros(self.drawn.shape, dtype=agent.dtype)
        self.rows = torch.zeros(agent.agents * batch, replay.rows.shape[-1], dtype=agent.dtype)
        sampled = replay.split(self.rows.view(agent.agents, batch, -1))
        given = (agent, sampled, self.noise, context.settings)
        inputs = update_inputs(*given).flat()
        self.pool = Pool()
        self.plans = {
            delayed: Plan(trace(*given, delayed, fuse_adam).graph, inputs, self.pool)
            for delayed in (True, False)
        }

    @torch.no_grad()
    def __call__(self, updates: int) -> None:
        agent, sums, counts = self.agent, self.interval.sums, self.interval.counts
        for _ in range(updates):
            self.sample()
            seen = self.plans[agent.due(self.policy_freq)]()
            agent.updates += 1
            agent.flush_denormals()
            sums[:, : len(seen)] += torch.stack(seen, dim=1)
            counts[:, : len(seen)] += 1

    def sample(self) -> None:
        """Draw a batch and the noise of `TD3.draw_noise` into fixed memory."""
        self.replay.gather(self.replay.draw(self.batch), out=self.rows)
        for stream, noise in zip(self.agent.smooth, self.drawn, strict=True):
            stream.standard_normal(out=noise, dtype=np.float32)
        self.noise.copy_(torch.from_numpy(self.drawn))


class CpuActing:
    """`TD3.act` as a plan, for a fixed number of states."""

    @torch.no_grad()
    def __init__(self, agent: TD3, states: Tensor) -> None:
        self.states = states.clone()
        graph = trace_acting(agent, self.states)
        self.plan = Plan(graph.graph, acting_inputs(agent, self.states), Pool())

    @torch.no_grad()
    def __call__(self, states: Tensor) -> Tensor:
        self.states.copy_(states)
        (actions,) = self.plan()
        return actions.clone()


def fuse_adam(agent: TD3) -> None:
    """Make the optimizers of a copied agent take their step in one pass over memory."""
    for network in agent.trained.values():
        if is_plain_adam(network.optimizer):
            network.optimizer.__dict__["step"] = make_fused_step(network.optimizer)


def make_fused_step(optimizer: Adam) -> Any:
    """`Adam.step` with PyTorch's fused kernel, once per agent because each has its own count."""

    def step() -> None:
        group = optimizer.param_groups[0]
        (parameter,) = group["params"]
        optimizer.count += 1
        numbers = zip(
            group["lr"].expand_as(optimizer.count),
            optimizer.count,
            parameter.detach(),
            parameter.grad,
            optimizer.mean,
            optimizer.square,
            strict=True,
        )
        for rate, count, values, gradient, mean, square in numbers:
            torch._fused_adam_(
                [values],
                [gradient],
                [mean],
                [square],
                [],
                [count],
                lr=rate,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=0.0,
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    return step
