"""Compare and restore what is not a tensor: numbers, containers and random generators."""

import random
from collections import deque
from typing import Any

import numpy as np
import torch

from td3.algorithm.tensors import RANDOM, TensorMapper, named_tensors


def contents(value: Any, path: str = "") -> tuple[Any, dict[str, Any]]:
    """A copy of an object that shares its tensors, and everything but tensors in it by path."""
    mapper = TensorMapper(lambda path, tensor: tensor)
    copied = mapper.copy(value, path)
    return copied, {path: mapper.memo.get(id(own), own) for path, own in mapper.values.items()}


def versions(value: Any) -> dict[str, Any]:
    """Which tensors an object contains, and how often each was changed in place, by path."""
    return {path: (id(own), own._version) for path, own in named_tensors(value).items()}


def refill(value: Any, content: Any) -> None:
    """Give an object that can change the content of its copy."""
    match value:
        case dict() | set():
            value.clear()
            value.update(content)
        case list() | deque():
            value.clear()
            value.extend(content)
        case np.ndarray():
            value[...] = content
        case _ if isinstance(value, RANDOM):
            set_random_state(value, content)


def random_state(generator: Any) -> Any:
    """The state of a random generator, to compare it."""
    match generator:
        case np.random.Generator():
            return comparable(generator.bit_generator.state)
        case torch.Generator():
            return comparable(generator.get_state().numpy())
        case np.random.RandomState():
            return comparable(generator.get_state())
    return generator.getstate()


def comparable(state: Any) -> Any:
    """The same state without arrays, for which == gives no single truth."""
    match state:
        case np.ndarray():
            return state.tobytes()
        case dict():
            return {name: comparable(value) for name, value in state.items()}
        case tuple():
            return tuple(comparable(value) for value in state)
    return state


def set_random_state(generator: Any, other: Any) -> None:
    match generator:
        case np.random.Generator():
            generator.bit_generator.state = other.bit_generator.state
        case torch.Generator() | np.random.RandomState():
            generator.set_state(other.get_state())
        case random.Random():
            generator.setstate(other.getstate())


def global_random_state() -> Any:
    """The state of the generators of Python and NumPy that every module shares."""
    return random.getstate(), comparable(array_generator().state)


def array_generator() -> Any:
    """The generator behind the functions of `numpy.random`."""
    return np.random.get_bit_generator()  # type: ignore[attr-defined, unused-ignore]


def changed_value(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The path of a value that an update changed; empty if there is none."""
    for path in before.keys() | after.keys():
        if path == "updates":
            continue
        if path not in before or path not in after or not is_equal(before[path], after[path]):
            return path
    return ""


def is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, RANDOM) and isinstance(other, RANDOM):
        return bool(random_state(one) == random_state(other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    return one is other or bool(one == other)
