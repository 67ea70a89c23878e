"""Watch one update through the methods that a variant may override; change nothing.

Each method of the agent is wrapped for one call of `update`. The wrapper calls the method and keeps
copies of what went in and came out, so the update computes exactly what it computes unwatched.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import Diagnostics, UpdateSettings
from td3.algorithm.trained import Trained

WATCHED = (
    "prepare",
    "observe",
    "observe_target",
    "target_action",
    "target_q",
    "combine",
    "critic_loss",
    "actor_loss",
)


class Call(NamedTuple):
    """One call of a method."""

    name: str
    given: dict[str, Any]
    """Copies of its arguments, by name."""
    result: Any


class OptimizerStep(NamedTuple):
    """One call of `minimize`."""

    gradient: Tensor
    before: Tensor
    after: Tensor
    """Each as `flat` of the network."""


class Recording:
    """What happened in one update, in order."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.steps: dict[str, OptimizerStep] = {}
        """By the name of the network: actor, critic, encoder."""
        self.moves: dict[str, tuple[Tensor, Tensor]] = {}
        """Targets before and after, by the name of the network."""
        self.outputs: dict[str, list[Any]] = {}
        """What a network returned, by its name: actor, actor_target, critic, critic_target."""
        self.diagnostics: Diagnostics | None = None

    def last(self, name: str) -> Call | None:
        """The last call of a method; None if the update did not call it."""
        return next((call for call in reversed(self.calls) if call.name == name), None)


def record(agent: TD3, batch: Batch, noise: Any, settings: UpdateSettings) -> Recording:
    """Call `agent.update` and return what it did. The agent is changed as by any update."""
    recording = Recording()
    with watching(agent, recording):
        recording.diagnostics = agent.update(batch, noise, settings)
    return recording


@contextmanager
def watching(agent: TD3, recording: Recording) -> Iterator[None]:
    """Wrap the methods of one agent, and remove the wrappers afterwards."""
    own = dict(vars(agent))
    hooks = []
    for name in WATCHED:
        setattr(agent, name, watch_method(getattr(agent, name), name, recording))
    agent.minimize = watch_minimize(agent, recording)  # type: ignore[method-assign]
    agent.move_target = watch_move(agent, recording)  # type: ignore[method-assign]
    for name, network in agent.trained.items():
        for part, module in ((name, network.online), (f"{name}_target", network.target)):
            hooks.append(module.register_forward_hook(watch_output(part, recording)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for name in (*WATCHED, "minimize", "move_target"):
            if name in own:
                setattr(agent, name, own[name])
            else:
                vars(agent).pop(name, None)


def copied(value: Any) -> Any:
    """Copies of all tensors in lists, tuples and dictionaries; everything else as it is."""
    return tree_map(lambda x: x.detach().clone() if isinstance(x, Tensor) else x, value)


def watch_method(method: Callable[..., Any], name: str, recording: Recording) -> Any:
    signature = inspect.signature(method)

    def watched(*given: Any, **named: Any) -> Any:
        arguments = copied(dict(signature.bind(*given, **named).arguments))
        result = method(*given, **named)
        recording.calls.append(Call(name, arguments, copied(result)))
        return result

    return watched


def watch_minimize(agent: TD3, recording: Recording) -> Any:
    minimize = agent.minimize

    def watched(loss: Tensor, *networks: Trained[Any]) -> None:
        before = [network.online.flat.detach().clone() for network in networks]
        minimize(loss, *networks)
        for network, flat in zip(networks, before, strict=True):
            gradient, after = network.online.flat.grad, network.online.flat.detach().clone()
            gradient = torch.zeros_like(flat) if gradient is None else gradient.detach().clone()
            recording.steps[name_of(agent, network)] = OptimizerStep(gradient, flat, after)

    return watched


def watch_move(agent: TD3, recording: Recording) -> Any:
    move_target = agent.move_target

    def watched(network: Trained[Any], settings: UpdateSettings) -> None:
        before = network.target.flat.detach().clone()
        move_target(network, settings)
        after = network.target.flat.detach().clone()
        recording.moves[name_of(agent, network)] = before, after

    return watched


def watch_output(part: str, recording: Recording) -> Any:
    def watched(_module: Any, _given: Any, output: Any) -> None:
        recording.outputs.setdefault(part, []).append(copied(output))

    return watched


def name_of(agent: TD3, network: Trained[Any]) -> str:
    """The name of a network in `agent.trained`; one that is not there is a variant's own."""
    return next((name for name, own in agent.trained.items() if own is network), "other")
