"""The update on a CPU: planned once, then nothing but kernels in reserved memory."""

from typing import Any

import torch
from torch import Tensor

from td3.accelerate.kernels import Pool
from td3.accelerate.plan import Plan
from td3.accelerate.trace import (
    Settings,
    acting_inputs,
    constants_of,
    inputs_of,
    state_of,
    trace,
    trace_acting,
)
from td3.agent import TD3, Diagnostics
from td3.optimizer import Adam
from td3.replay import Batch

PLANS = 8
"""Plans that are kept; more only where settings keep changing."""


class Workspace:
    """Does what `TD3.update` does, for one agent or agents side by side."""

    def __init__(self, agent: TD3) -> None:
        self.agent = agent
        self.pool = Pool()
        self.plans: dict[object, tuple[Plan, list[Tensor]]] = {}

    @torch.no_grad()
    def __call__(
        self,
        batch: Batch,
        noise: Tensor,
        discount: float | Tensor = 0.99,
        tau: float | Tensor = 0.005,
        policy_noise: float | Tensor = 0.2,
        noise_clip: float | Tensor = 0.5,
        policy_freq: int = 2,
    ) -> Diagnostics:
        """One update. `noise`: standard normal, (agents, batch, action_dim)."""
        settings: Settings = {
            "discount": discount,
            "tau": tau,
            "policy_noise": policy_noise,
            "noise_clip": noise_clip,
        }
        delayed = self.agent.due(policy_freq)
        plan, room = self.plan(batch, noise, settings, delayed)
        varied = [setting for setting in settings.values() if isinstance(setting, Tensor)]
        for memory, given in zip(room, (*self.rates(), *varied, *batch, noise), strict=True):
            memory.copy_(given) if isinstance(given, Tensor) else memory.fill_(given)
        seen = plan()
        self.agent.updates += 1
        return Diagnostics(seen[0], seen[1], seen[2] if delayed else None)

    def rates(self) -> list[float | Tensor]:
        optimizers = (self.agent.actor_optimizer, self.agent.critic_optimizer)
        return [optimizer.param_groups[0]["lr"] for optimizer in optimizers]

    def plan(
        self, batch: Batch, noise: Tensor, settings: Settings, delayed: bool
    ) -> tuple[Plan, list[Tensor]]:
        """The plan for such an update, and where it takes its batch, noise and settings from."""
        key = (delayed, *self.depends_on(batch, noise, settings))
        if key not in self.plans:
            if len(self.plans) == PLANS:
                self.plans.clear()
            inputs = inputs_of(self.agent, batch, noise, settings)
            kept = len(state_of(self.agent)) + len(constants_of(self.agent))
            inputs[kept:] = room = [
                given.clone(memory_format=torch.contiguous_format) for given in inputs[kept:]
            ]
            plan = plan_update(self.agent, batch, noise, settings, delayed, self.pool, inputs)
            self.plans[key] = (plan, room)
        return self.plans[key]

    def depends_on(self, batch: Batch, noise: Tensor, settings: Settings) -> list[Any]:
        """What a plan is made for: sizes, numbers, and where the agent's state lies."""
        agent = self.agent
        parts = [*batch, noise, *(rate for rate in self.rates() if isinstance(rate, Tensor))]
        found: list[Any] = []
        for setting in settings.values():
            if isinstance(setting, Tensor):
                parts.append(setting)
            else:
                found.append(setting)
        found += [(part.shape, part.dtype) for part in parts]
        found += [tensor.data_ptr() for tensor in (*state_of(agent), *constants_of(agent))]
        for optimizer in (agent.actor_optimizer, agent.critic_optimizer):
            found += [optimizer.param_groups[0]["betas"], optimizer.param_groups[0]["eps"]]
        return found


def plan_update(
    agent: TD3, batch: Batch, noise: Tensor, settings: Settings, delayed: bool, pool: Pool,
    inputs: list[Tensor] | None = None,
) -> Plan:  # fmt: skip
    """Plan an update on these tensors, or on `inputs` like them."""
    with torch.enable_grad():
        graph = trace(agent, batch, noise, settings, delayed, fuse_adam)
    return Plan(graph.graph, inputs or inputs_of(agent, batch, noise, settings), pool)


class Acting:
    """Does what `TD3.act` does, for as many states as it was made for."""

    @torch.no_grad()
    def __init__(self, agent: TD3, states: Tensor) -> None:
        self.states = states.clone()
        graph = trace_acting(agent, self.states)
        self.plan = Plan(graph.graph, acting_inputs(agent, self.states), Pool())

    @torch.no_grad()
    def __call__(self, states: Tensor) -> Tensor:
        self.states.copy_(states)
        (actions,) = self.plan()
        return actions


def fuse_adam(agent: TD3) -> None:
    """Let the optimizers of a copied agent take their step in one pass over memory."""
    for optimizer in (agent.actor_optimizer, agent.critic_optimizer):
        optimizer.__dict__["step"] = fused_step(optimizer)


def fused_step(optimizer: Adam) -> Any:
    """PyTorch's kernel for the same step, once per agent, for each has a count of its own."""

    def step() -> None:
        group = optimizer.param_groups[0]
        (parameter,) = group["params"]
        optimizer.count += 1
        numbers = zip(
            group["lr"].expand_as(optimizer.count), optimizer.count, parameter.detach(),
            parameter.grad, optimizer.mean, optimizer.square, strict=True,
        )  # fmt: skip
        for rate, count, values, gradient, mean, square in numbers:
            torch._fused_adam_(
                [values], [gradient], [mean], [square], [], [count], lr=rate,
                beta1=group["betas"][0], beta2=group["betas"][1], weight_decay=0.0,
                eps=group["eps"], amsgrad=False, maximize=False,
            )  # fmt: skip

    return step
