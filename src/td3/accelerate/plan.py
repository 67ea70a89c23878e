"""A traced graph as a straight line of kernels on memory that is reserved once.

Views are made when the plan is, and so is everything that never changes. What is left writes into
buffers that are handed on as soon as nobody needs them, so that they stay in the cache.
"""

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from td3.accelerate.kernels import Pool, calls_for, is_view, written_arguments

FILLED = {"ones_like", "zeros_like", "full_like", "ones", "zeros", "full", "scalar_tensor"}


class Plan:
    """The graph on the given inputs. Calling it does what the traced function does."""

    def __init__(self, graph: fx.GraphModule, inputs: Sequence[Tensor], pool: Pool) -> None:
        self.inputs, self.pool = inputs, pool
        self.calls: list[Callable[[], object]] = []
        self.outputs: list[Tensor] = []
        self.values: dict[fx.Node, Any] = {}
        graph.graph.eliminate_dead_code()
        self.nodes = list(graph.graph.nodes)
        self.owner = owners(self.nodes)
        self.written = {
            self.owner[argument] for node in self.nodes for argument in written_arguments(node)
        }
        self.last_use = {
            self.owner[used]: place
            for place, node in enumerate(self.nodes)
            for used in (node, *node.all_input_nodes)
        }
        self.constant: set[fx.Node] = set()
        self.memory: dict[fx.Node, Tensor] = {}
        given = iter(inputs)
        for place, node in enumerate(self.nodes):
            if node.op == "placeholder":
                self.values[node] = next(given)
            elif node.op == "output":
                self.outputs = [self.values[output] for output in node.args[0]]
            else:
                self.add(node, place)
                self.release(node, place)
        for memory in self.memory.values():
            pool.give_back(memory)

    def __call__(self) -> list[Tensor]:
        for call in self.calls:
            call()
        return [output.clone() for output in self.outputs]

    def add(self, node: fx.Node, place: int) -> None:
        """Compute the node now if it can be, else plan to."""
        arguments = fx.node.map_arg(node.args, self.values.__getitem__)
        options = fx.node.map_arg(node.kwargs, self.values.__getitem__)
        if self.is_constant(node):
            self.constant.add(node)
            self.values[node] = node.target(*arguments, **options)
        elif node.target is operator.getitem or is_view(node):
            self.values[node] = node.target(*arguments, **options)
        elif written_arguments(node):
            self.values[node] = arguments[0]
            name = node.target._schema.name.removeprefix("aten::")
            call = getattr(Tensor, name, node.target)
            self.calls.append(partial(call, *arguments, **options))
        else:
            result = self.values[node] = self.room_for(node, place)
            self.calls += calls_for(node, arguments, options, result, self.pool)

    def is_constant(self, node: fx.Node) -> bool:
        """Whether it is the same in every call."""
        if self.owner[node] in self.written or written_arguments(node):
            return False
        filled = node.target.__name__.partition(".")[0] in FILLED
        return filled or all(used in self.constant for used in node.all_input_nodes)

    def room_for(self, node: fx.Node, place: int) -> Tensor:
        """Where the result goes: in the place of an argument that ends here, or into the pool."""
        like = node.meta["tensor_meta"]
        if torch.Tag.pointwise in node.target.tags:
            for used in node.all_input_nodes:
                owner, value = self.owner[used], self.values[used]
                if (
                    owner in self.memory
                    and self.last_use[owner] == place
                    and (value.shape, value.stride(), value.dtype)
                    == (like.shape, like.stride, like.dtype)
                    and sum(self.owner[other] is owner for other in node.all_input_nodes) == 1
                ):
                    self.memory[node] = self.memory.pop(owner)
                    return value
        extent = 1 + sum((n - 1) * s for n, s in zip(like.shape, like.stride, strict=True))
        memory = self.pool.take(extent * like.dtype.itemsize, self.inputs[0].device)
        self.memory[node] = memory
        return memory.view(like.dtype).as_strided(like.shape, like.stride)

    def release(self, node: fx.Node, place: int) -> None:
        """Hand on the memory of what nobody needs any more."""
        for owner in {self.owner[used] for used in (node, *node.all_input_nodes)}:
            if self.last_use[owner] == place and owner in self.memory:
                self.pool.give_back(self.memory.pop(owner))


def owners(nodes: Sequence[fx.Node]) -> dict[fx.Node, fx.Node]:
    """For each node the one that made the memory in which its value lies."""
    owner: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        owner[node] = node
        if node.op == "call_function" and node.all_input_nodes:
            written = written_arguments(node)
            if node.target is operator.getitem or is_view(node) or written:
                owner[node] = owner[written[0] if written else node.all_input_nodes[0]]
    return owner
