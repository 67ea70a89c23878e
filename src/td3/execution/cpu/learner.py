"""On a CPU: acting and updating as plans, on batches that always lie in the same memory."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.adam import Adam
from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch, ReplayBuffer
from td3.execution.cpu.compiler import Plan
from td3.execution.cpu.kernels import Pool
from td3.execution.trace import acting_inputs, inputs_of, trace, trace_acting
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population


class Planned(Learner):
    """A learner on a CPU; together, or one by one, its members have plans of their own."""

    def __init__(
        self, agent: TD3, replay: ReplayBuffer, interval: Interval, population: Population
    ) -> None:
        super().__init__(agent, replay, interval, population)
        self.acting: Acting | None = None
        self.updating: PlannedUpdates | None = None
        self.alone: dict[int, PlannedUpdates] = {}

    def act(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        given = torch.from_numpy(states).to(self.agent.dtype)
        given = given.view(self.agent.agents, -1, states.shape[1])
        if self.acting is None:
            self.acting = Acting(self.agent, given)
        return self.acting(given).flatten(0, 1).numpy()

    def learn(self, updates: int) -> None:
        if self.updating is None:
            numbers = self.population.hyperparameters
            self.updating = PlannedUpdates(self.agent, self.replay, self.interval, numbers)
        self.updating(updates)

    def learn_member(self, agent: int, updates: int) -> None:
        if agent not in self.alone:
            self.alone[agent] = PlannedUpdates(
                self.agent.member(agent),
                self.replay.member(agent),
                self.interval.member(agent),
                self.population.hyperparameters_of(agent),
            )
        self.alone[agent](updates)


class PlannedUpdates:
    """Steps 4 to 15 as two plans: with the delayed steps, and without."""

    def __init__(
        self, agent: TD3, replay: ReplayBuffer, interval: Interval, numbers: dict[str, Any]
    ) -> None:
        self.agent, self.replay, self.interval = agent, replay, interval
        settings = {k: v for k, v in numbers.items() if k not in ("batch_size", "policy_freq")}
        self.policy_freq, batch = numbers["policy_freq"], numbers["batch_size"]
        assert replay.rows is not None
        self.uniform = np.empty((agent.agents, batch))
        self.drawn = np.empty((agent.agents, batch, agent.action_dim), dtype=np.float32)
        self.noise = torch.zeros(self.drawn.shape, dtype=agent.dtype)
        self.rows = torch.zeros(agent.agents * batch, replay.rows.shape[-1], dtype=agent.dtype)
        parts = self.rows.view(agent.agents, batch, -1).split(replay.widths, dim=-1)
        given = (agent, Batch(*parts), self.noise, settings)
        self.pool = Pool()
        self.plans = {
            delayed: Plan(trace(*given, delayed, fuse_adam).graph, inputs_of(*given), self.pool)
            for delayed in (True, False)
        }

    @torch.no_grad()
    def __call__(self, updates: int) -> None:
        agent, sums, counts = self.agent, self.interval.sums, self.interval.counts
        for _ in range(updates):
            self.sample()
            seen = self.plans[agent.due(self.policy_freq)]()
            agent.updates += 1
            agent.tidy()
            sums[:, : len(seen)] += torch.stack(seen, dim=1)
            counts[:, : len(seen)] += 1

    def sample(self) -> None:
        """Draw what `ReplayBuffer.draw` and `TD3.draw_noise` would."""
        for stream, numbers in zip(self.replay.streams, self.uniform, strict=True):
            stream.random(out=numbers)
        for stream, noise in zip(self.agent.smooth, self.drawn, strict=True):
            stream.standard_normal(out=noise, dtype=np.float32)
        self.noise.copy_(torch.from_numpy(self.drawn))
        self.replay.gather_rows(self.replay.places(self.uniform), out=self.rows)


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
        return actions.clone()


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
