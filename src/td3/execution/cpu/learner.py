"""Acting and updating on a CPU: traced once, then executed as a plan of kernels."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.adam import Adam
from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.execution.checked import CheckedLearner
from td3.execution.context import UpdateContext
from td3.execution.cpu.compiler import Plan
from td3.execution.cpu.kernels import Pool
from td3.execution.guard import traceable
from td3.execution.inputs import LearningRates, example_inputs, make_sampler
from td3.execution.replaceable import is_plain_adam
from td3.execution.trace import acting_inputs, trace, trace_acting, update_inputs


class CpuLearner(CheckedLearner):
    """A learner on a CPU. It has one pair of plans for all members and one for each member."""

    mode = "CPU plan"
    replay: ReplayBuffer
    acting: "CpuActing | None"
    updates: "dict[int | None, CpuUpdates]"
    """The plans of each member, and under None those of all members together."""

    def act_fast(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        given = torch.from_numpy(states).to(self.agent.dtype)
        given = given.view(self.agent.agents, -1, states.shape[1])
        if self.acting is None:
            with traceable():
                self.acting = CpuActing(self.agent, given)
        return self.acting(given).flatten(0, 1).numpy()

    def learn_fast(self, updates: int, member: int | None) -> None:
        if member not in self.updates:
            with traceable():
                self.updates[member] = CpuUpdates(UpdateContext.of(self, member))
        self.updates[member](updates)

    def forget_traces(self) -> None:
        self.acting, self.updates = None, {}


class CpuUpdates:
    """Steps 4 to 15 as two plans: with the delayed steps and without.

    Every batch is written to the same memory, because the plans read it from there.
    """

    def __init__(self, context: UpdateContext) -> None:
        self.agent, self.replay, self.interval = context.agent, context.replay, context.interval
        self.policy_freq, self.batch_size = context.policy_freq, context.batch_size
        self.batch, self.noise = example_inputs(context)
        given = (self.agent, self.batch, self.noise, context.settings)
        inputs = update_inputs(*given)
        self.rates = LearningRates(context.whole or context.agent, inputs.rates, context.member)
        self.sample = make_sampler(context, self.batch, self.noise)
        self.pool = Pool()
        self.traced = {delayed: trace(*given, delayed, fuse_adam) for delayed in (True, False)}
        self.plans = {
            delayed: Plan(traced.graph.graph, inputs.flat(), self.pool)
            for delayed, traced in self.traced.items()
        }

    @torch.no_grad()
    def __call__(self, updates: int) -> None:
        agent, sums, counts = self.agent, self.interval.sums, self.interval.counts
        self.rates.refresh()
        for _ in range(updates):
            chosen = self.sample()
            delayed = agent.due(self.policy_freq)
            losses, found = self.traced[delayed].losses, self.plans[delayed]()
            agent.updates += 1
            agent.flush_denormals()
            sums[:, :losses] += torch.stack(found[:losses], dim=1)
            counts[:, :losses] += 1
            if len(found) > losses:
                self.replay.set_priorities(chosen, found[losses])


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
    """`Adam.step` with PyTorch's fused kernel, as a list of tensors for each learning rate."""

    def step() -> None:
        group = optimizer.param_groups[0]
        (parameter,) = group["params"]
        optimizer.count += 1
        each = (parameter.detach(), parameter.grad, optimizer.mean, optimizer.square)
        rows = [tensor.unbind() for tensor in (*each, optimizer.count)]
        if group["lr"].dim() == 0:  # one call, because calls take longer than small networks
            calls = [(group["lr"], rows)]
        else:
            each_agent = zip(group["lr"], *rows, strict=True)
            calls = [(rate, [[one] for one in own]) for rate, *own in each_agent]
        for rate, (values, gradients, means, squares, counts) in calls:
            torch._fused_adam_(
                values,
                gradients,
                means,
                squares,
                [],
                counts,
                lr=rate,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=0.0,
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    return step
