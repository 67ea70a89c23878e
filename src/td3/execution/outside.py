"""What the methods of a variant use besides the agent: attributes of classes, names of modules.

A trace runs an update once and then repeats its operations on tensors. What the update changes
outside the agent, such as a counter of its class or of its module, would not be repeated.
"""

import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

import numpy as np
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.tensors import FOREIGN, RANDOM, Container, TensorMapper, View
from td3.execution.values import changed_value, contents, refill, versions
from td3.training.user_classes import functions_in, names_in

COMPARED = (int, float, str, tuple, dict, list, set, deque, Tensor, np.ndarray, *get_args(RANDOM))


class Place(NamedTuple):
    """A class, or the names of a module that functions use."""

    path: str
    owner: Any
    names: frozenset[str] | None = None

    def values(self) -> dict[str, Any]:
        """The values that a trial may change, by name."""
        found = vars(self.owner)
        names = found.keys() if self.names is None else self.names & found.keys()
        return {
            name: found[name]
            for name in names
            if name[:2] != "__" and isinstance(found[name], COMPARED)
        }

    def contents(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """A copy of the values, and all numbers and tensors in them by path."""
        values = {self.path: self.values()}
        copied, found = contents(values)
        return copied[self.path], found | versions(values)


class Outside:
    """The values outside an agent before a trial."""

    def __init__(self, agent: TD3) -> None:
        mapper = TensorMapper(keep, share_arrays=True)
        mapper.copy(agent)
        self.places = outside_places(mapper)
        self.before = [(place.values(), *place.contents()) for place in self.places]

    def restore(self) -> str:
        """Undo what the trial changed; returns the path of the first change, or nothing."""
        changed = ""
        for place, (values, copies, leaves) in zip(self.places, self.before, strict=True):
            now = place.values()
            _, present = place.contents()
            first = changed_value(leaves, present)
            if not first and now.keys() == values.keys():
                continue
            changed = changed or first
            for name in now.keys() - values.keys():
                delattr(place.owner, name)
            for name, value in values.items():
                refill(value, copies[name])
                setattr(place.owner, name, value)
        return changed


def outside_places(mapper: TensorMapper) -> list[Place]:
    """The user's classes among the copied objects, and what their methods use of their modules."""
    kinds = {base for value in mapper.visited for base in type(value).__mro__}
    own = [kind for kind in kinds if kind.__module__.partition(".")[0] not in {*FOREIGN, "td3"}]
    own.sort(key=lambda kind: (kind.__module__, kind.__qualname__))
    places = [Place(kind.__qualname__, kind) for kind in own]
    functions = [
        each for kind in own for value in vars(kind).values() for each in functions_in(value)
    ]
    used: dict[str, set[str]] = {}
    for function in called_functions(functions):
        used.setdefault(function.__module__, set()).update(names_in(function.__code__))
    modules = [(name, names) for name, names in used.items() if name in sys.modules]
    return places + [Place(name, sys.modules[name], frozenset(names)) for name, names in modules]


def called_functions(functions: list[types.FunctionType]) -> Iterator[types.FunctionType]:
    """These functions and those of their modules that they call."""
    waiting, seen = list(functions), set()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        yield function
        named = (function.__globals__.get(name) for name in names_in(function.__code__))
        waiting += [
            other
            for other in named
            if isinstance(other, types.FunctionType) and other.__module__ == function.__module__
        ]


def outside_containers(mapper: TensorMapper) -> dict[str, Container]:
    """What holds the values outside, by path; like `TensorMapper.containers`."""
    found: dict[str, Container] = {}
    for place in outside_places(mapper):
        inner = TensorMapper(keep, share_arrays=True)
        inner.copy(place.values(), place.path)
        found |= inner.containers | {place.path: View(place.values)}
    return found


def keep(path: str, tensor: Tensor) -> Tensor:
    return tensor
