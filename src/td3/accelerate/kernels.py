"""Which kernel writes a node's value into memory that is already there."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

Call = Callable[[], object]
NARROW = 32  # columns
PRODUCTS = (torch.ops.aten.bmm.default, torch.ops.aten.baddbmm.default)


class Pool:
    """Memory for intermediate results, by size in bytes; last returned, first taken."""

    def __init__(self) -> None:
        self.free: dict[int, list[Tensor]] = defaultdict(list)

    def take(self, size: int, device: torch.device) -> Tensor:
        if self.free[size]:
            return self.free[size].pop()
        return torch.empty(size, dtype=torch.uint8, device=device)

    def give_back(self, memory: Tensor) -> None:
        self.free[memory.numel()].append(memory)


def is_view(node: fx.Node) -> bool:
    """Whether its value lies in the memory of its argument, which it leaves as it is."""
    schema = getattr(node.target, "_schema", None)
    infos = [a.alias_info for a in schema.arguments if a.alias_info] if schema else []
    return bool(infos) and not any(info.is_write for info in infos)


def written_arguments(node: fx.Node) -> list[fx.Node]:
    """The arguments that it changes."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return []
    found: list[fx.Node] = []
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info and argument.alias_info.is_write:
            value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            found += value if isinstance(value, list | tuple) else [value]
    return found


def calls_for(
    node: fx.Node, arguments: Sequence[Any], options: Mapping[str, Any], out: Tensor, pool: Pool
) -> list[Call]:
    """Calls that write the node's value into `out`."""
    if node.target in PRODUCTS and not options:
        calls = product(arguments, out, pool)
        if calls:
            return calls
    return [into(node, arguments, options, out)]


def into(node: fx.Node, arguments: Sequence[Any], options: Mapping[str, Any], out: Tensor) -> Call:
    """A call that writes the node's value into `out`."""
    name = node.target._schema.name.removeprefix("aten::")
    first = arguments[0]
    if isinstance(first, Tensor) and first.data_ptr() == out.data_ptr():
        in_place = getattr(torch, f"{name}_", None)
        if in_place and torch.Tag.pointwise in node.target.tags:
            return partial(in_place, *arguments, **options)
    # The functions in `torch` cost a microsecond less per call than the operators they stand for.
    function = getattr(torch, name, None)
    if function:
        call = partial(function, *arguments, **options, out=out)
        if works(call):
            return call
    for overload in overloads(node.target):
        (room,) = [a.name for a in overload._schema.arguments if a.is_out]
        call = partial(overload, *arguments, **options, **{room: out})
        if works(call):
            return call

    def compute_and_copy() -> None:
        out.copy_(node.target(*arguments, **options))

    return compute_and_copy


def works(call: Call) -> bool:
    """Whether there is such a kernel. Its result, from memory not yet filled, does not matter."""
    try:
        call()
    except (TypeError, RuntimeError):
        return False
    return True


def overloads(target: Any) -> list[Any]:
    """The variants of the operator that write into one given tensor."""
    packet = target.overloadpacket
    found = [getattr(packet, name) for name in packet.overloads()]
    takes = [a.name for a in target._schema.arguments]
    return [
        overload
        for overload in found
        if [a.name for a in overload._schema.arguments if not a.is_out] == takes
        and sum(a.is_out for a in overload._schema.arguments) == 1
    ]


def product(arguments: Sequence[Any], out: Tensor, pool: Pool) -> list[Call]:
    """Matrix products of shapes that the library multiplies slowly, another way; else nothing.

    A result of few columns takes two to fifteen times as long as the same one lying on its side; a
    column times a row goes to a kernel for matrices.
    """
    *bias, left, right = arguments
    if left.shape[2] == 1 and not bias:
        return [partial(torch.mul, left, right, out=out)]
    if out.shape[2] >= min(NARROW, out.shape[1]):
        return []
    lying = out.transpose(1, 2)
    turned = [*(part.transpose(1, 2) for part in bias), right.mT, left.mT]
    function = torch.baddbmm if bias else torch.bmm
    if lying.is_contiguous():
        return [partial(function, *turned, out=lying)]
    memory = pool.take(out.nbytes, out.device)
    pool.give_back(memory)  # for the next node: it is empty again when this one is done
    scratch = memory.view(out.dtype).view(lying.shape)
    return [partial(function, *turned, out=scratch), partial(out.copy_, scratch.mT)]
