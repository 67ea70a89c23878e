"""The update as one graph of tensor operations: autograd, Adam and Polyak steps included.

Nothing of the algorithm is written here. The agent's own `update` is run once, on a copy whose
numbers are the inputs of a function, and what it does to them is noted down.
"""

import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

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


def state_of(agent: TD3) -> list[Tensor]:
    """All that an update changes: parameters, targets, Adam's counts and moments."""
    return [
        tensor
        for network in agent.trained.values()
        for tensor in (
            network.online.flat.detach(),
            network.target.flat.detach(),
            network.optimizer.count,
            network.optimizer.mean,
            network.optimizer.square,
        )
    ]


def constants_of(agent: TD3) -> list[Tensor]:
    """What an update reads and something else may change: action range, normalisation."""
    normalizer = agent.normalizer
    shifts = [normalizer.shift, normalizer.scale] if normalizer else []
    return [agent.actor.max_action, *shifts]


def rates_of(agent: TD3) -> list[Tensor]:
    """The learning rates, as tensors: a schedule then needs no other graph."""
    groups = [network.optimizer.param_groups[0] for network in agent.trained.values()]
    return [torch.as_tensor(g["lr"], dtype=torch.float64, device=agent.device) for g in groups]


def inputs_of(agent: TD3, batch: Batch, noise: Tensor, settings: Settings) -> list[Tensor]:
    """What the traced function takes, in this order."""
    varied = [setting for setting in settings.values() if isinstance(setting, Tensor)]
    return [*state_of(agent), *constants_of(agent), *rates_of(agent), *varied, *batch, noise]


def trace(
    agent: TD3,
    batch: Batch,
    noise: Tensor,
    settings: Settings,
    delayed: bool,
    prepare: Prepare = lambda copied: None,
) -> fx.GraphModule:
    """`agent.update` as a function of the list `inputs_of(…)`, of which it changes the state.

    It returns critic_loss and q, and, with the `delayed` steps 13 to 15, actor_loss. Settings that
    are plain numbers become constants in it.
    """

    def update(inputs: Sequence[Tensor]) -> list[Tensor]:
        given = iter(inputs)
        copied = bind_agent(agent, given)
        prepare(copied)
        chosen = {k: next(given) if isinstance(v, Tensor) else v for k, v in settings.items()}
        *parts, normal = given
        copied.updates = np.full(agent.agents, 0 if delayed else 1)
        seen = copied.update(Batch(*parts), normal, UpdateSettings(**chosen, policy_freq=2))
        return [number for number in seen if number is not None]

    # On clones: what the function changes is changed while it is traced.
    inputs = [tensor.clone() for tensor in inputs_of(agent, batch, noise, settings)]
    graph: fx.GraphModule = make_fx(update)(inputs)
    return graph


def trace_acting(agent: TD3, states: Tensor) -> fx.GraphModule:
    """`agent.act` as a function of the list `acting_inputs(…)`."""

    def act(inputs: Sequence[Tensor]) -> list[Tensor]:
        *given, states = inputs
        return [bind_agent(agent, iter(given)).act(states)]

    graph: fx.GraphModule = make_fx(act)(acting_inputs(agent, states))
    return graph


def acting_inputs(agent: TD3, states: Tensor) -> list[Tensor]:
    return [*state_of(agent), *constants_of(agent), *rates_of(agent), states]


def bind_agent(agent: TD3, given: Iterator[Tensor]) -> TD3:
    """A copy of the agent whose numbers are the given ones."""
    copied = copy.copy(agent)
    copied.trained = {}
    for name, network in agent.trained.items():
        online, target = bind_network(network.online, given), bind_network(network.target, given)
        optimizer = bind_optimizer(network.optimizer, online, given)
        copied.trained[name] = Trained(online, target, optimizer)
    limit = next(given)
    for actor in (copied.actor, copied.actor_target):
        object.__setattr__(actor, "max_action", limit)
    if agent.normalizer:
        copied.normalizer = copy.copy(agent.normalizer)
        copied.normalizer.shift, copied.normalizer.scale = next(given), next(given)
    for network in copied.trained.values():
        network.optimizer.param_groups[0]["lr"] = next(given)
    return copied


def bind_network(network: N, given: Iterator[Tensor]) -> N:
    """A copy of the network whose numbers are the next given tensor."""
    copied = copy.copy(network)
    learns = network.flat.requires_grad
    copied._parameters, copied._buffers = {}, {}
    # A parameter would be a tensor that the tracer does not know.
    object.__setattr__(copied, "flat", next(given).detach().requires_grad_(learns))
    return copied


def bind_optimizer(optimizer: Adam, network: StackedParameters, given: Iterator[Tensor]) -> Adam:
    """A copy of the optimizer for the copied network, with the given count and moments."""
    copied = copy.copy(optimizer)
    copied.param_groups = [{**optimizer.param_groups[0], "params": [network.flat]}]
    copied.count, copied.mean, copied.square = next(given), next(given), next(given)
    # PyTorch wraps both for its profiler, which would be traced too.
    plain_step = getattr(Adam.step, "__wrapped__", Adam.step)
    copied.__dict__["step"] = plain_step.__get__(copied)
    copied.__dict__["zero_grad"] = lambda: setattr(network.flat, "grad", None)
    return copied
