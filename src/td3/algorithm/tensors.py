"""Copy an agent with other tensors, wherever its class keeps them.

A subclass may store tensors under any name, in its networks, its optimizers or objects of its own.
Members, copies and traced updates all need the same thing: the same objects with other tensors.
"""

import copy
import dataclasses
import random
import sys
import types
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

T = TypeVar("T")
Change = Callable[[str, Tensor], Tensor]
"""Returns the tensor that takes the place of another one; gets the path of its first occurrence."""
FOREIGN = {"torch", "numpy", *sys.stdlib_module_names}
"""Packages whose objects are shared, except those of `COPIED` and simple namespaces."""
COPIED = nn.Module | torch.optim.Optimizer | torch.optim.lr_scheduler.LRScheduler
RANDOM = np.random.Generator | np.random.RandomState | random.Random | torch.Generator


class View:
    """Values by name that a function finds, like a dictionary that always has the present ones."""

    def __init__(self, find: Callable[[], dict[str, Any]]) -> None:
        self.copy = find

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    __hash__ = None  # type: ignore[assignment]


Container = dict[Any, Any] | list[Any] | deque[Any] | set[Any] | View


class TensorMapper:
    """Copies objects that may contain tensors, and replaces every tensor.

    Objects, dictionaries, lists and tuples are copied. Arrays, sets and random generators are too,
    unless they are shared. All other values are shared. What occurs twice is copied once, so
    references between the parts stay.
    """

    def __init__(self, change: Change, share_arrays: bool = False) -> None:
        self.change, self.share_arrays = change, share_arrays
        self.memo: dict[int, Any] = {}
        self.visited: list[Any] = []
        """Keeps the keys of `memo` valid."""
        self.containers: dict[str, Container] = {}
        """What holds the values: dictionaries, lists, sets and attributes, by their path."""
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
            case _ if isinstance(value, np.ndarray | set | RANDOM):
                if isinstance(value, set):
                    self.containers[path] = value
                self.values[path] = value
                if self.share_arrays:
                    return self.remember(value, value)
                if isinstance(value, torch.Generator):  # a trace has no deepcopy of it
                    return self.remember(value, value.clone_state())
                return self.remember(value, copy.deepcopy(value))
            case dict():
                return self.fill(self.remember(value, empty_copy(value)), value, path)
            case list() | deque():
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
                if hasattr(value, "__dict__"):
                    self.fill(copied.__dict__, vars(value), path)
                    forget_wrapped_step(copied)
                self.fill_slots(copied, value, path)
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

    def fill_slots(self, copied: Any, original: Any, path: str) -> None:
        if slots := in_slots(original):
            self.containers[f"{path}.__slots__"] = View(partial(in_slots, original))
        for name, item in slots.items():
            object.__setattr__(copied, name, self.copy(item, join_path(path, name)))

    def remember(self, value: Any, copied: Any) -> Any:
        self.visited.append(value)
        self.memo[id(value)] = copied
        return copied


def forget_wrapped_step(copied: Any) -> None:
    """Let a copied optimizer take the step of its class.

    A scheduler of PyTorch replaces the `step` of its optimizer by a function that is bound to it.
    """
    if hasattr(vars(copied).get("step"), "_wrapped_by_lr_sched"):
        del copied.step


def empty_copy(value: Any) -> Any:
    """A container of the same kind without entries."""
    copied = copy.copy(value)
    copied.clear()
    return copied


def join_path(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def may_hold_tensors(value: object) -> bool:
    """Whether an object is copied: it has attributes, and is not of a foreign library."""
    if isinstance(value, COPIED | types.SimpleNamespace):
        return True
    if isinstance(value, type | types.FunctionType | types.ModuleType):
        return False
    if not getattr(value, "is_part_of_agent", True):
        return False
    package = type(value).__module__.partition(".")[0]
    return (hasattr(value, "__dict__") or bool(in_slots(value))) and (
        package not in FOREIGN or dataclasses.is_dataclass(value)
    )


def in_slots(value: object) -> dict[str, Any]:
    """The attributes that an object keeps in `__slots__`."""
    slots = [vars(base).get("__slots__", ()) for base in type(value).__mro__]
    names = [name for own in slots for name in ([own] if isinstance(own, str) else own)]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


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


def has_agent_axis(tensor: Tensor, agents: int) -> bool:
    """Whether a tensor has one row for each agent. All others belong to all agents."""
    return tensor.shape[:1] == (agents,)


def rows_of_agents(tensor: Tensor, agents: int) -> Tensor:
    """A tensor as one row of numbers for each agent; what belongs to all agents is in each row."""
    rows = agents if has_agent_axis(tensor, agents) else 1
    return tensor.reshape(rows, -1).expand(agents, -1)


def take_member(value: T, agents: int, agent: int) -> T:
    """One agent's part of an object, on the same memory.

    A tensor whose first axis has one entry per agent is cut; all others are shared, like arrays and
    random generators.
    """
    rows = slice(agent, agent + 1)

    def cut(path: str, tensor: Tensor) -> Tensor:
        if not has_agent_axis(tensor, agents):
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
