"""Copy an agent with other tensors, wherever its class keeps them.

A subclass may store tensors under any name, in its networks, its optimizers or objects of its own.
Members, copies and traced updates all need the same thing: the same objects with other tensors.
"""

import copy
import dataclasses
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

T = TypeVar("T")
Change = Callable[[str, Tensor], Tensor]
"""Returns the tensor that takes the place of another one; gets the path of its first occurrence."""
FOREIGN = {"torch", "numpy", *sys.stdlib_module_names}
"""Packages whose objects are shared, except modules, optimizers and simple namespaces."""


class TensorMapper:
    """Copies objects that may contain tensors, and replaces every tensor.

    Objects, dictionaries, lists and tuples are copied. Arrays and random generators are copied too,
    unless they are shared. All other values are shared. What occurs twice is copied once, so
    references between the parts stay.
    """

    def __init__(self, change: Change, share_arrays: bool = False) -> None:
        self.change, self.share_arrays = change, share_arrays
        self.memo: dict[int, Any] = {}
        self.visited: list[Any] = []
        """Keeps the keys of `memo` valid."""
        self.containers: dict[str, dict[Any, Any] | list[Any]] = {}
        """The dictionaries and lists that hold the values, attributes included, by their path."""
        self.values: dict[str, Any] = {}
        """Everything that is not a tensor and has no parts, by its path."""

    def copy(self, value: T, path: str = "") -> T:
        """A copy of `value` with other tensors."""
        if id(value) in self.memo:
            return cast(T, self.memo[id(value)])
        copied = self.copy_new(value, path)
        return cast(T, copied)

    def copy_new(self, value: Any, path: str) -> Any:
        match value:
            case Tensor():
                return self.remember(value, self.change(path, value))
            case np.ndarray() | np.random.Generator():
                self.values[path] = value
                shared = value if self.share_arrays else copy.deepcopy(value)
                return self.remember(value, shared)
            case dict():
                return self.fill(self.remember(value, empty_copy(value)), value, path)
            case list():
                self.containers[path] = value
                copied = self.remember(value, empty_copy(value))
                copied += [self.copy(v, join_path(path, k)) for k, v in enumerate(value)]
                return copied
            case tuple():
                items = [self.copy(v, join_path(path, k)) for k, v in enumerate(value)]
                if all(new is old for new, old in zip(items, value, strict=True)):
                    return value
                return type(value)(*items) if hasattr(value, "_fields") else (*items,)
            case types.MethodType():
                return types.MethodType(value.__func__, self.copy(value.__self__, path))
            case _ if may_hold_tensors(value):
                is_plain = isinstance(value, types.SimpleNamespace)
                new = types.SimpleNamespace.__new__ if is_plain else object.__new__
                copied = self.remember(value, new(type(value)))
                self.fill(copied.__dict__, vars(value), path)
                return copied
        self.values[path] = value
        return value

    def fill(self, copied: dict[Any, Any], original: dict[Any, Any], path: str) -> Any:
        self.containers[path] = original
        for position, (key, item) in enumerate(original.items()):
            if isinstance(key, Tensor):  # an optimizer's state
                where = join_path(path, position)
                copied[self.copy(key, f"{where}.key")] = self.copy(item, where)
            else:
                copied[key] = self.copy(item, join_path(path, key))
        return copied

    def remember(self, value: Any, copied: Any) -> Any:
        self.visited.append(value)
        self.memo[id(value)] = copied
        return copied


def empty_copy(value: Any) -> Any:
    """A container of the same kind without entries."""
    copied = copy.copy(value)
    copied.clear()
    return copied


def join_path(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def may_hold_tensors(value: object) -> bool:
    """Whether an object is copied: it has attributes, and is not of a foreign library."""
    if isinstance(value, nn.Module | torch.optim.Optimizer | types.SimpleNamespace):
        return True
    if isinstance(value, type | types.FunctionType | types.ModuleType):
        return False
    package = type(value).__module__.partition(".")[0]
    return hasattr(value, "__dict__") and (
        package not in FOREIGN or dataclasses.is_dataclass(value)
    )


def map_tensors(value: T, change: Change) -> T:
    """A copy of an object in which `change(path, tensor)` takes the place of every tensor."""
    return TensorMapper(change).copy(value)


def named_tensors(value: object) -> dict[str, Tensor]:
    """Every tensor in an object by the path of its first occurrence."""
    found: dict[str, Tensor] = {}

    def note(path: str, tensor: Tensor) -> Tensor:
        found[path] = tensor
        return tensor

    TensorMapper(note, share_arrays=True).copy(value)
    return found


def clone_tensors(value: T) -> T:
    """A copy of an object with copies of all its tensors."""
    return map_tensors(value, lambda path, tensor: like(tensor, tensor.detach().clone()))


def take_member(value: T, agents: int, agent: int) -> T:
    """One agent's part of an object, on the same memory.

    A tensor whose first axis has one entry per agent is cut; all others are shared, like arrays and
    random generators.
    """
    rows = slice(agent, agent + 1)

    def cut(path: str, tensor: Tensor) -> Tensor:
        if tensor.shape[:1] != (agents,):
            return tensor
        return like(tensor, tensor.detach()[rows])

    return TensorMapper(cut, share_arrays=True).copy(value)


def like(tensor: Tensor, data: Tensor) -> Tensor:
    """`data` as the same kind of tensor: a parameter if `tensor` is one."""
    if isinstance(tensor, nn.Parameter):
        made = type(tensor)(data)  # type: ignore[no-untyped-call, unused-ignore]
        made.__dict__.update(tensor.__dict__)
        return made.requires_grad_(tensor.requires_grad)
    return data.requires_grad_(tensor.requires_grad)
