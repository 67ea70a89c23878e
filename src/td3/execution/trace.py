"""Trace an update: record it as one graph of tensor operations.

The graph includes autograd, the Adam steps and the Polyak steps. This module contains nothing of
the algorithm. It runs the agent's own `update` once, on a copy whose tensors are the inputs of a
function, and records the operations. An update that such a graph cannot represent is refused.
"""

import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.algorithm.tensors import map_tensors, named_tensors
from td3.errors import first_line
from td3.execution.guard import NotTraceable, watch_count
from td3.execution.outside import Outside
from td3.execution.values import (
    array_generator,
    changed_value,
    contents,
    global_random_state,
)

Settings = dict[str, float | Tensor]
"""`discount`, `tau`, `policy_noise`, `noise_clip`: numbers, or tensors with one per agent."""
Prepare = Callable[[TD3], None]
"""Changes the copied agent before it is traced, e.g. how its networks compute."""


class UpdateInputs(NamedTuple):
    """Every tensor that a traced update reads, in the order in which it takes them."""

    agent: dict[str, Tensor]
    """All tensors of the agent by their paths."""
    rates: dict[str, Tensor]
    """Learning rates: tensors, so that a schedule needs no second graph."""
    settings: dict[str, Tensor]
    """The settings that differ between agents."""
    batch: Batch
    noise: Any
    """A tensor, or tensors in tuples or dictionaries, as `draw_noise` returns it."""

    def fixed(self) -> list[Tensor]:
        """The inputs that are the same tensors in every update."""
        return tree_leaves((self.agent, self.rates, self.settings))

    def flat(self) -> list[Tensor]:
        return join_inputs(self.fixed(), self.batch, self.noise)


class TracedUpdate(NamedTuple):
    """A traced update and what it returns."""

    graph: fx.GraphModule
    losses: int
    """How many diagnostics come first: critic_loss, q and perhaps actor_loss."""
    prioritized: bool
    """Whether priorities follow."""


def join_inputs(fixed: Sequence[Tensor], batch: Iterable[Tensor], noise: Any) -> list[Tensor]:
    """The argument of a traced update, from `UpdateInputs.fixed` and what each update changes."""
    return [*fixed, *batch, *tree_leaves(noise)]


def update_inputs(agent: TD3, batch: Batch, noise: Any, settings: Settings) -> UpdateInputs:
    varied = {name: value for name, value in settings.items() if isinstance(value, Tensor)}
    return UpdateInputs(agent_tensors(agent), learning_rates(agent), varied, batch, noise)


def agent_tensors(agent: TD3) -> dict[str, Tensor]:
    """All tensors of an agent except learning rates, by their paths, without gradients."""
    found = named_tensors(agent)
    return {path: found[path].detach() for path in found if not is_rate(path)}


def is_rate(path: str) -> bool:
    return ".optimizer." in path and path.endswith(".lr")


def learning_rates(agent: TD3) -> dict[str, Tensor]:
    rates = {name: own.optimizer.param_groups[0]["lr"] for name, own in agent.trained.items()}
    return {
        name: torch.as_tensor(rate, dtype=torch.float64, device=agent.device)
        for name, rate in rates.items()
    }


def trace(
    agent: TD3,
    batch: Batch,
    noise: Any,
    settings: Settings,
    delayed: bool,
    prepare: Prepare = lambda copied: None,
) -> TracedUpdate:
    """`agent.update` as a function of the list `update_inputs(…).flat()`.

    The function changes the agent's tensors in place. It returns critic_loss and q, with the
    `delayed` steps 13 to 15 actor_loss, and the priorities if there are any. Settings that are
    plain numbers become constants in it.

    Raises:
        NotTraceable: The update does something that the function would not do.
    """
    given = update_inputs(agent, batch, noise, settings)
    _, structure = tree_flatten(given)
    outputs: list[int | bool] = []

    def update(inputs: Sequence[Tensor]) -> list[Tensor]:
        tensors: UpdateInputs = tree_unflatten(inputs, structure)
        copied = bind_agent(agent, tensors.agent, tensors.rates)
        copied.__dict__["due"] = lambda policy_freq: delayed
        copied.updates = watch_count(agent.agents, 0 if delayed else 1)
        prepare(copied)
        before = plain_values(copied)
        numbers = UpdateSettings(**{**settings, **tensors.settings}, policy_freq=2)
        with Reads():
            found = copied.update(tensors.batch, tensors.noise, numbers)
        refuse_changes(copied, before)
        write_back(copied, tensors.agent)
        losses = [number for number in found[:3] if number is not None]
        outputs[:] = [len(losses), found.priorities is not None]
        return losses if found.priorities is None else [*losses, found.priorities]

    graph = record(update, agent, given.flat())
    return TracedUpdate(graph, int(outputs[0]), bool(outputs[1]))


def record(
    function: Callable[[Sequence[Tensor]], list[Tensor]], agent: TD3, inputs: Sequence[Tensor]
) -> fx.GraphModule:
    """The operations of a function on these inputs; refuses what they do not represent.

    This runs the function, which may change its inputs; so it gets clones. Plain PyTorch gives the
    same warnings.
    """
    outside = Outside(agent)
    with keep_random_state(agent), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = global_random_state()
        try:
            graph: fx.GraphModule = make_fx(function)([tensor.clone() for tensor in inputs])
        finally:
            changed = outside.restore()
        if drawn != global_random_state():
            raise NotTraceable("it draws random numbers outside PyTorch; draw them in draw_noise")
    if changed:
        raise NotTraceable(f"it changes {changed}, which is not a tensor of the agent")
    refuse_operations(graph.graph)
    return graph


class Reads(TorchFunctionMode):
    """Refuses what a method does with tensors that no operation of a graph represents."""

    NAMES: ClassVar = {
        torch.Tensor.numpy: "numpy()",
        torch.Tensor.__array__: "a NumPy array",
        torch.Tensor.tolist: "tolist()",
        torch.Tensor.data.__set__: "an assignment to data",  # type: ignore[attr-defined]
    }
    found = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.NAMES:
            self.found = self.found or f"it uses {self.NAMES[func]} of a tensor"
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:  # the method may catch it
            self.found = self.found or f"it cannot be traced ({first_line(error)})"
            raise

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        if self.found:
            raise NotTraceable(self.found)


@contextmanager
def keep_random_state(agent: TD3) -> Iterator[None]:
    """Let a trial not advance random numbers that are not the agent's."""
    devices = [agent.device] if agent.device.type == "cuda" else []
    arrays = array_generator()
    state, array_state = random.getstate(), arrays.state
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(state)
        arrays.state = array_state


def acting_inputs(agent: TD3, states: Tensor) -> list[Tensor]:
    return [*tree_leaves(agent_tensors(agent)), states]


def trace_acting(agent: TD3, states: Tensor) -> fx.GraphModule:
    """`agent.act` as a function of the list `acting_inputs(…)`."""
    _, structure = tree_flatten(agent_tensors(agent))

    def act(inputs: Sequence[Tensor]) -> list[Tensor]:
        *tensors, states = inputs
        copied = bind_agent(agent, tree_unflatten(tensors, structure), {})
        copied.updates = watch_count(agent.agents, 0)
        before = plain_values(copied)
        with Reads():
            actions = copied.act(states)
        refuse_changes(copied, before)
        return [actions]

    return record(act, agent, acting_inputs(agent, states))


def bind_agent(agent: TD3, tensors: Mapping[str, Tensor], rates: Mapping[str, Tensor]) -> TD3:
    """A copy of the agent that works on these tensors."""

    def bind(path: str, tensor: Tensor) -> Tensor:
        if path not in tensors:
            return tensor
        # Not an nn.Parameter: that would be a new tensor, which the tracer does not know.
        return tensors[path].detach().requires_grad_(tensor.requires_grad)

    copied = map_tensors(agent, bind)
    for name, network in copied.trained.items():
        optimizer = network.optimizer
        if name in rates:
            optimizer.param_groups[0]["lr"] = rates[name]
        # PyTorch wraps both methods for its profiler, and would trace the wrapper too.
        wrapped = type(optimizer).step
        step = getattr(wrapped, "__wrapped__", wrapped).__get__(optimizer)
        optimizer.__dict__.setdefault("step", step)
        flat = network.online.flat
        optimizer.__dict__["zero_grad"] = lambda flat=flat: setattr(flat, "grad", None)
    return copied


def plain_values(copied: TD3) -> dict[str, Any]:
    """Everything but tensors, by path; arrays and random generators as copies."""
    _, found = contents(copied)
    for path, value in found.items():
        if hasattr(value, "__next__"):
            raise NotTraceable(f"self.{path} is an iterator")
    return {
        path: value
        for path, value in found.items()
        if ".optimizer._" not in path and path != "updates"
    }


def refuse_changes(copied: TD3, before: dict[str, Any]) -> None:
    """Refuse an update that reads or changes what is not a tensor."""
    if type(copied.updates).was_read:  # type: ignore[attr-defined]
        raise NotTraceable("it reads self.updates")
    if path := changed_value(before, plain_values(copied)):
        raise NotTraceable(f"it changes self.{path}, which is not a tensor")


def write_back(copied: TD3, given: Mapping[str, Tensor]) -> None:
    """Copy tensors that the update assigned to attributes into those of before."""
    for path, tensor in named_tensors(copied).items():
        if is_rate(path):
            continue
        if path not in given:
            raise NotTraceable(
                f"it adds the tensor self.{path}; make it in __init__, or delete it after use"
            )
        if tensor.shape != given[path].shape:
            raise NotTraceable(f"it changes the shape of self.{path}")
        if tensor.data_ptr() != given[path].data_ptr():
            given[path].copy_(tensor.detach())


def refuse_operations(graph: fx.Graph) -> None:
    """Refuse operations whose repetition would not repeat what the update does."""
    for node in graph.nodes:
        tags = getattr(node.target, "tags", ())
        name = str(node.target).removeprefix("aten.").partition(".")[0]
        if torch.Tag.nondeterministic_seeded in tags:
            raise NotTraceable(
                f"it draws random numbers with PyTorch ({name}); draw them in draw_noise"
            )
        if torch.Tag.dynamic_output_shape in tags and has_dynamic_shape(node):
            raise NotTraceable(
                f"the shape of a result depends on numbers ({name}); use torch.where or a mask"
            )


def has_dynamic_shape(node: fx.Node) -> bool:
    """Whether such an operation chooses rows by a mask; integers as indices have a fixed number."""
    if node.target is not torch.ops.aten.index.Tensor:
        return True
    indices: Any = node.args[1]
    kinds = [index.meta["val"].dtype for index in indices if index is not None]
    return torch.bool in kinds or torch.uint8 in kinds
