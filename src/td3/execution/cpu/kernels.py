"""Choose kernels that write the result of a traced operation into given memory."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

Call = Callable[[], object]
PRODUCTS = (torch.ops.aten.bmm.default, torch.ops.aten.baddbmm.default)
NARROW = 32  # columns


class Pool:
    """Memory for intermediate results, by size in bytes; last in, first out."""

    def __init__(self) -> None:
        self.free: dict[int, list[Tensor]] = defaultdict(list)

    def take(self, size: int, device: torch.device) -> Tensor:
        if self.free[size]:
            return self.free[size].pop()
        return torch.empty(size, dtype=torch.uint8, device=device)

    def give_back(self, memory: Tensor) -> None:
        self.free[memory.numel()].append(memory)


def is_view(node: fx.Node) -> bool:
    """Whether its value shares the memory of its argument and does not change it."""
    schema = getattr(node.target, "_schema", None)
    infos = [a.alias_info for a in schema.arguments if a.alias_info] if schema else []
    return bool(infos) and not any(info.is_write for info in infos)


def written_arguments(node: fx.Node) -> list[fx.Node]:
    """The arguments that the operation changes in place."""
    schema = getattr(node.target, "_schema", None)
    found: list[fx.Node] = []
    for place, argument in enumerate(schema.arguments if schema else ()):
        if argument.alias_info and argument.alias_info.is_write:
            value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            parts = value if isinstance(value, list | tuple) else [value]
            found += [part for part in parts if isinstance(part, fx.Node)]
    return found


def calls_for(
    target: Any, arguments: Sequence[Any], options: Mapping[str, Any], out: Tensor, pool: Pool
) -> list[Call]:
    """Calls that write `target(*arguments, **options)` into `out`."""
    calls = product_calls(arguments, out, pool) if target in PRODUCTS and not options else []
    return calls or [write_into(target, arguments, options, out)]


def calls_for_several(
    target: Any,
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    outs: Sequence[Tensor | None],
    is_pure: bool,
) -> list[Call]:
    """Calls that write the results of an operation with several results into `outs`."""
    given = [out for out in outs if out is not None]
    for variant, names in out_variants(target, len(outs)) if is_pure else []:
        if len(given) < len(outs):
            break
        call = partial(variant, *arguments, **options, **dict(zip(names, outs, strict=True)))
        if is_supported(call):
            return [call]

    def compute_and_copy() -> None:
        for out, result in zip(outs, target(*arguments, **options), strict=True):
            if out is not None:
                out.copy_(result)

    return [compute_and_copy]


def product_calls(arguments: Sequence[Tensor], out: Tensor, pool: Pool) -> list[Call]:
    """Faster calls for matrix products of some shapes; empty for other shapes.

    A result with few columns takes two to fifteen times as long as its transpose. A column times
    a row is an element-wise product, which is faster than the kernel for matrices.
    """
    *bias, left, right = arguments
    if left.shape[2] == 1 and not bias:
        return [partial(torch.mul, left, right, out=out)]
    if out.shape[2] >= min(NARROW, out.shape[1]):
        return []
    function: Any = torch.baddbmm if bias else torch.bmm
    transposed = [*(part.mT for part in bias), right.mT, left.mT]
    if out.mT.is_contiguous():
        return [partial(function, *transposed, out=out.mT)]
    memory = pool.take(out.nbytes, out.device)
    pool.give_back(memory)  # free again after the two calls
    result = memory.view(out.dtype).view(out.mT.shape)
    return [partial(function, *transposed, out=result), partial(out.copy_, result.mT)]


def write_into(
    target: Any, arguments: Sequence[Any], options: Mapping[str, Any], out: Tensor
) -> Call:
    """The call with the least overhead that writes the result into `out`."""
    name = target._schema.name.removeprefix("aten::")
    if is_same(arguments[0], out) and (in_place := getattr(torch, f"{name}_", None)):
        return partial(in_place, *arguments, **options)
    # Functions of `torch` cost a microsecond less per call than the operators behind them.
    candidates = [(getattr(torch, name), "out")] if hasattr(torch, name) else []
    for function, keyword in [*candidates, *find_out_variants(target)]:
        call = partial(function, *arguments, **options, **{keyword: out})
        if is_supported(call):
            return call

    def compute_and_copy() -> None:
        out.copy_(target(*arguments, **options))

    return compute_and_copy


def is_same(argument: object, out: Tensor) -> bool:
    """Whether the result has the memory of this argument."""
    return (
        isinstance(argument, Tensor)
        and argument.data_ptr() == out.data_ptr()
        and (argument.shape, argument.stride()) == (out.shape, out.stride())
    )


def is_supported(call: Call) -> bool:
    """Whether such a kernel exists. It runs on uninitialised memory; its result is not used."""
    try:
        call()
    except (TypeError, RuntimeError):
        return False
    return True


def find_out_variants(target: Any) -> list[tuple[Any, str]]:
    """Variants of the operator that write into one given tensor, and the name of that argument."""
    return [(variant, names[0]) for variant, names in out_variants(target, 1)]


def out_variants(target: Any, count: int) -> list[tuple[Any, list[str]]]:
    """Variants of the operator that write into `count` given tensors, with their names."""
    if not hasattr(target, "_schema"):
        return []
    takes = [argument.name for argument in target._schema.arguments]
    found = []
    for name in target.overloadpacket.overloads():
        variant = getattr(target.overloadpacket, name)
        given = [a.name for a in variant._schema.arguments if not a.is_out]
        outs = [a.name for a in variant._schema.arguments if a.is_out]
        if given == takes and len(outs) == count:
            found.append((variant, outs))
    return found
