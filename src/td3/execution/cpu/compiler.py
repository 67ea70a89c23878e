"""Compile a traced graph to a list of kernel calls on memory that is allocated once.

Views and constants are computed when the plan is built. The remaining calls write into memory that
is reused as soon as its content is no longer needed, so that it stays in the cache.
"""

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from td3.execution.cpu.kernels import (
    Pool,
    calls_for,
    calls_for_several,
    is_view,
    written_arguments,
)

FILLED = {"ones_like": 1, "zeros_like": 0}


class Plan:
    """The graph, bound to given inputs. A call executes it on their current values."""

    def __init__(self, graph: fx.Graph, inputs: Sequence[Tensor], pool: Pool) -> None:
        fill_by_shape(graph)
        graph.eliminate_dead_code()
        nodes = list(graph.nodes)
        self.pool, self.device = pool, inputs[0].device
        self.calls: list[Callable[[], object]] = []
        self.outputs: list[Tensor] = []
        self.owner = find_owners(nodes)
        self.last_use = {
            self.owner[used]: place
            for place, node in enumerate(nodes)
            for used in (node, *node.all_input_nodes)
        }
        self.written = {self.owner[used] for node in nodes for used in written_arguments(node)}
        self.values: dict[fx.Node, Any] = {}
        self.constant: set[fx.Node] = set()
        self.memory: dict[fx.Node, list[Tensor]] = {}
        """The pool memory of each node, from its definition to its last use."""
        given = iter(inputs)
        for place, node in enumerate(nodes):
            if node.op == "placeholder":
                self.values[node] = next(given)
            elif node.op == "output":
                self.outputs = [self.values[output] for output in node.args[0]]
            elif node.op == "get_attr":  # a tensor that is not part of the agent
                self.values[node] = getattr(graph.owning_module, str(node.target))
            else:
                self.add(node, place)
            self.release(node, place)

    def __call__(self) -> list[Tensor]:
        """Run all calls and return the outputs; the next call overwrites them."""
        for call in self.calls:
            call()
        return self.outputs

    def add(self, node: fx.Node, place: int) -> None:
        """Compute the node now if its value never changes; otherwise add its calls to the plan."""
        target: Any = node.target
        arguments, options = fx.node.map_arg((node.args, node.kwargs), self.values.__getitem__)
        if self.is_constant(node):
            self.constant.add(node)
            self.values[node] = target(*arguments, **options)
        elif target is operator.getitem or is_view(node):
            self.values[node] = target(*arguments, **options)
        elif has_several_results(node):
            outs = [self.take(node, v) if isinstance(v, Tensor) else v for v in node.meta["val"]]
            self.values[node] = outs
            is_pure = not written_arguments(node)
            self.calls += calls_for_several(target, arguments, options, outs, is_pure)
        elif written_arguments(node):
            self.values[node] = arguments[0]
            method = getattr(Tensor, target._schema.name.removeprefix("aten::"), target)
            self.calls.append(partial(method, *arguments, **options))
        else:
            self.values[node] = self.memory_for(node, place)
            self.calls += calls_for(target, arguments, options, self.values[node], self.pool)

    def is_constant(self, node: fx.Node) -> bool:
        """Whether its value is the same in every call."""
        if self.owner[node] in self.written or written_arguments(node):
            return False
        return all(used in self.constant for used in node.all_input_nodes)

    def memory_for(self, node: fx.Node, place: int) -> Tensor:
        """Memory for its value: that of an argument last used here, or new from the pool."""
        like = node.meta["val"]
        for used in node.all_input_nodes if torch.Tag.pointwise in operator_tags(node) else []:
            owner, value = self.owner[used], self.values[used]
            users = [self.owner[other] for other in node.all_input_nodes]
            if (
                owner in self.memory
                and self.last_use[owner] == place
                and users.count(owner) == 1
                and value.shape == like.shape
                and (value.stride(), value.dtype) == (like.stride(), like.dtype)
            ):
                self.memory[node] = self.memory.pop(owner)
                return value  # type: ignore[no-any-return]
        return self.take(node, node.meta["val"])

    def take(self, node: fx.Node, like: Tensor) -> Tensor:
        """New memory from the pool for a result of this form."""
        extent = 1 + sum((n - 1) * s for n, s in zip(like.shape, like.stride(), strict=True))
        size = max(0, extent) * like.dtype.itemsize if like.numel() else 0
        memory = self.pool.take(size, self.device)
        self.memory.setdefault(node, []).append(memory)
        return memory.view(like.dtype).as_strided(like.shape, like.stride())

    def release(self, node: fx.Node, place: int) -> None:
        """Return the memory of values with their last use here to the pool."""
        for owner in {self.owner[used] for used in (node, *node.all_input_nodes)}:
            if self.last_use[owner] == place and owner in self.memory:
                for memory in self.memory.pop(owner):
                    self.pool.give_back(memory)


def has_several_results(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, list | tuple) and len(value) > 0


def fill_by_shape(graph: fx.Graph) -> None:
    """Replace `ones_like` and the like by `full`, which does not keep its argument alive."""
    for node in list(graph.nodes):
        name = str(node.target).removeprefix("aten.").partition(".")[0]
        if name in FILLED or name == "full_like":
            like = node.meta["val"]
            number = FILLED[name] if name in FILLED else node.args[1]
            options = {"dtype": like.dtype, "device": like.device}
            with graph.inserting_before(node):
                full = torch.ops.aten.full.default
                filled = graph.call_function(full, (list(like.shape), number), options)
            filled.meta = node.meta
            node.replace_all_uses_with(filled)


def operator_tags(node: fx.Node) -> Sequence[Any]:
    tags: Sequence[Any] = getattr(node.target, "tags", ())
    return tags


def find_owners(nodes: Sequence[fx.Node]) -> dict[fx.Node, fx.Node]:
    """For each node, the node that allocated the memory of its value."""
    owner: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        written = written_arguments(node)
        owner[node] = node
        if written or node.target is operator.getitem or is_view(node):
            owner[node] = owner[written[0] if written else node.all_input_nodes[0]]
    return owner
