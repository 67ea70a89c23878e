"""Trace an update: record it as one graph of tensor operations.

The graph includes autograd, the Adam steps and the Polyak steps. This module contains nothing of
the algorithm. It runs the agent's own `update` once, on a copy whose tensors are the inputs of a
function, and records the operations.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from td3.algorithm.adam import Adam
from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.algorithm.stacked import StackedParameters
from td3.algorithm.trained import N, Trained

Settings = dict[str, float | Tensor]
"""`discount`, `tau`, `policy_noise`, `noise_clip`: numbers, or tensors with one per agent."""
Prepare = Callable[[TD3], None]
"""Changes the copied agent before it is traced, e.g. how its networks compute."""


class NetworkTensors(NamedTuple):
    """What an update changes of one network: parameters, target, Adam's count and moments."""

    online: Tensor
    target: Tensor
    steps: Tensor
    mean: Tensor
    square: Tensor


class AgentTensors(NamedTuple):
    """Every tensor of an agent that a traced function reads."""

    networks: dict[str, NetworkTensors]
    max_action: Tensor
    normalizer: dict[str, Tensor]
    """`shift` and `scale`, or empty."""
    learning_rates: dict[str, Tensor]
    """Tensors, so that a schedule needs no second graph."""


class UpdateInputs(NamedTuple):
    """Every tensor that a traced update reads, in the order in which it takes them."""

    agent: AgentTensors
    settings: dict[str, Tensor]
    """The settings that differ between agents."""
    batch: Batch
    noise: Tensor

    def fixed(self) -> list[Tensor]:
        """The inputs that are the same tensors in every update."""
        return tree_leaves((self.agent, self.settings))

    def flat(self) -> list[Tensor]:
        return join_inputs(self.fixed(), self.batch, self.noise)


def join_inputs(fixed: Sequence[Tensor], batch: Iterable[Tensor], noise: Tensor) -> list[Tensor]:
    """The argument of a traced update, from `UpdateInputs.fixed` and what each update changes."""
    return [*fixed, *batch, noise]


def agent_tensors(agent: TD3) -> AgentTensors:
    networks, rates = {}, {}
    for name, network in agent.trained.items():
        optimizer = network.optimizer
        networks[name] = NetworkTensors(
            network.online.flat.detach(),
            network.target.flat.detach(),
            optimizer.count,
            optimizer.mean,
            optimizer.square,
        )
        rate = optimizer.param_groups[0]["lr"]
        rates[name] = torch.as_tensor(rate, dtype=torch.float64, device=agent.device)
    known = agent.normalizer
    normalizer = {"shift": known.shift, "scale": known.scale} if known else {}
    return AgentTensors(networks, agent.actor.max_action, normalizer, rates)


def update_inputs(agent: TD3, batch: Batch, noise: Tensor, settings: Settings) -> UpdateInputs:
    varied = {name: value for name, value in settings.items() if isinstance(value, Tensor)}
    return UpdateInputs(agent_tensors(agent), varied, batch, noise)


def trace(
    agent: TD3,
    batch: Batch,
    noise: Tensor,
    settings: Settings,
    delayed: bool,
    prepare: Prepare = lambda copied: None,
) -> fx.GraphModule:
    """`agent.update` as a function of the list `update_inputs(…).flat()`.

    The function changes the networks' tensors in place. It returns critic_loss and q and, with the
    `delayed` steps 13 to 15, actor_loss. Settings that are plain numbers become constants in it.
    """
    given = update_inputs(agent, batch, noise, settings)
    _, structure = tree_flatten(given)

    def update(inputs: Sequence[Tensor]) -> list[Tensor]:
        tensors: UpdateInputs = tree_unflatten(inputs, structure)
        copied = bind_agent(agent, tensors.agent)
        prepare(copied)
        copied.updates = np.full(agent.agents, 0 if delayed else 1)
        numbers = UpdateSettings(**{**settings, **tensors.settings}, policy_freq=2)
        diagnostics = copied.update(tensors.batch, tensors.noise, numbers)
        return [number for number in diagnostics if number is not None]

    # Tracing runs the update, which changes its inputs; so it gets clones.
    graph: fx.GraphModule = make_fx(update)([tensor.clone() for tensor in given.flat()])
    return graph


def count_outputs(graph: fx.GraphModule) -> int:
    """How many diagnostics a traced update returns."""
    return len(graph.graph.output_node().args[0])  # type: ignore[arg-type]


def acting_inputs(agent: TD3, states: Tensor) -> list[Tensor]:
    return [*tree_leaves(agent_tensors(agent)), states]


def trace_acting(agent: TD3, states: Tensor) -> fx.GraphModule:
    """`agent.act` as a function of the list `acting_inputs(…)`."""
    _, structure = tree_flatten(agent_tensors(agent))

    def act(inputs: Sequence[Tensor]) -> list[Tensor]:
        *tensors, states = inputs
        return [bind_agent(agent, tree_unflatten(tensors, structure)).act(states)]

    graph: fx.GraphModule = make_fx(act)(acting_inputs(agent, states))
    return graph


def bind_agent(agent: TD3, tensors: AgentTensors) -> TD3:
    """A copy of the agent that works on these tensors."""
    copied = copy.copy(agent)
    copied.trained = {}
    for name, network in agent.trained.items():
        own = tensors.networks[name]
        online = bind_network(network.online, own.online)
        target = bind_network(network.target, own.target)
        optimizer = bind_optimizer(network.optimizer, online, own, tensors.learning_rates[name])
        copied.trained[name] = Trained(online, target, optimizer)
    for actor in (copied.actor, copied.actor_target):
        object.__setattr__(actor, "max_action", tensors.max_action)
    if agent.normalizer:
        copied.normalizer = copy.copy(agent.normalizer)
        copied.normalizer.shift = tensors.normalizer["shift"]
        copied.normalizer.scale = tensors.normalizer["scale"]
    return copied


def bind_network(network: N, flat: Tensor) -> N:
    """A copy of the network with these parameters."""
    copied = copy.copy(network)
    copied._parameters, copied._buffers = {}, {}
    # Not an nn.Parameter: that would be a new tensor, which the tracer does not know.
    learns = network.flat.requires_grad
    object.__setattr__(copied, "flat", flat.detach().requires_grad_(learns))
    return copied


def bind_optimizer(
    optimizer: Adam, network: StackedParameters, tensors: NetworkTensors, rate: Tensor
) -> Adam:
    """A copy of the optimizer for the copied network."""
    copied = copy.copy(optimizer)
    copied.param_groups = [{**optimizer.param_groups[0], "params": [network.flat], "lr": rate}]
    copied.count, copied.mean, copied.square = tensors.steps, tensors.mean, tensors.square
    # PyTorch wraps both methods for its profiler, and would trace the wrapper too.
    wrapped = type(optimizer).step
    copied.__dict__["step"] = getattr(wrapped, "__wrapped__", wrapped).__get__(copied)
    copied.__dict__["zero_grad"] = lambda: setattr(network.flat, "grad", None)
    return copied
