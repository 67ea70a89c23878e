"""The exact state of a simulator, for episodes that are too long to replay from their start.

It is exact if everything that an environment remembers is in plain attributes of itself and its
wrappers (numbers, text, arrays, lists, random generators) or in a MuJoCo simulation. That holds for
Gymnasium's MuJoCo and classic control tasks. `ReplayableEnvironment` verifies it before it relies
on it. Environments with other objects (Box2D, PyBullet, dm_control) have no such state.
"""

import functools
import json
import random
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray
from safetensors.numpy import load, save

from td3.environments.environment import Environment

Arrays = dict[str, NDArray[Any]]
SCRATCH = (
    "_",
    "efc_",
    "efm_",
    "iefc_",
    "island_",
    "map_",
)  # of one step; may not even be initialized
PLAIN = (type(None), bool, int, float, str)
CONSTANT = (
    EnvSpec,
    type,
    types.FunctionType,
    types.MethodType,
    types.ModuleType,
    functools.partial,
)
"""A new environment has equal ones."""


class Unsupported(Exception):
    """An attribute has a value that cannot be saved."""


def save_state(environment: Environment) -> bytes | None:
    """Return the state of an environment and its wrappers; None if it cannot be saved exactly."""
    arrays: Arrays = {}
    try:
        parts = [
            {
                name: own
                for name, value in vars(part).items()
                if name != "env" and (own := encode(value, arrays)) != []
            }
            for part in layers(environment)
        ]
        text = json.dumps(parts).encode()
    except (Unsupported, TypeError, ValueError, RecursionError):
        return None
    return save({**arrays, "attributes": np.frombuffer(text, np.uint8)})


def load_state(environment: Environment, data: bytes) -> None:
    """Put a saved state into a new environment that was reset once."""
    arrays = load(data)
    parts = json.loads(arrays["attributes"].tobytes())
    for part, saved in zip(layers(environment), parts, strict=True):
        for name, value in saved.items():
            before = vars(part).get(name)
            restored = decode(value, arrays, before)
            if restored is not before:
                vars(part)[name] = restored


def layers(environment: Environment) -> Iterator[Any]:
    """What remembers something: the numbers of the episode, the simulator and its wrappers."""
    yield environment.numbers
    env: Any = environment.env
    while env is not None:
        yield env
        env = vars(env).get("env")


def encode(value: Any, arrays: Arrays) -> Any:
    """A value as JSON, `[kind, …]`; arrays are put aside. [] for what a new environment has too."""
    if isinstance(value, PLAIN):
        return ["plain", value]
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        name = str(len(arrays))
        arrays[name] = np.ascontiguousarray(value)
        return ["array", name, isinstance(value, np.generic)]
    if isinstance(value, list | tuple | deque):
        kind = type(value).__name__
        if type(value) is not SEQUENCES.get(kind):
            raise Unsupported(kind)
        items = [encode(item, arrays) for item in value]
        if [] in items:
            raise Unsupported(kind)
        return [kind, items, getattr(value, "maxlen", None)]
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return ["dict", {key: encode(item, arrays) for key, item in value.items()}]
    if isinstance(value, np.random.Generator):
        return ["generator", value.bit_generator.state]
    if type(value) is random.Random:
        return ["random", value.getstate()]
    if is_mujoco(value, "MjData"):
        return ["mujoco", {n: encode(a, arrays) for n, a in mujoco_arrays(value)}, value.time]
    if is_constant(value):
        return []
    raise Unsupported(type(value).__name__)


SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "deque": deque}


def decode(saved: Any, arrays: Arrays, before: Any) -> Any:
    """Undo `encode`; `before` is the value that the new environment has."""
    match saved:
        case []:
            return before
        case ["plain", value]:
            return value
        case ["array", name, scalar]:
            return arrays[name][()] if scalar else arrays[name].copy()
        case ["list" | "tuple" | "deque" as kind, items, longest]:
            found = [decode(item, arrays, None) for item in items]
            return deque(found, longest) if kind == "deque" else SEQUENCES[kind](found)
        case ["dict", items]:
            known = before if isinstance(before, dict) else {}
            return {key: decode(item, arrays, known.get(key)) for key, item in items.items()}
        case ["generator", state]:
            before.bit_generator.state = state
        case ["random", [version, numbers, gauss]]:
            before.setstate((version, tuple(numbers), gauss))
        case ["mujoco", numbers, time]:
            before.time = time
            for name, value in numbers.items():
                target, given = getattr(before, name), arrays[value[1]]
                if target.shape == given.shape:  # those of contacts are computed in the next step
                    target[...] = given
    return before


def mujoco_arrays(data: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every array of a MuJoCo simulation, not only the state: observations may contain any."""
    for name in dir(data):
        if not name.startswith(SCRATCH):
            value = getattr(data, name)
            if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.size:
                yield name, value


def is_mujoco(value: Any, name: str) -> bool:
    mujoco = sys.modules.get("mujoco")
    return mujoco is not None and isinstance(value, getattr(mujoco, name))


def is_constant(value: Any) -> bool:
    """Whether a new environment has the same value, or one without a state."""
    if isinstance(value, gym.spaces.Space):
        return value._np_random is None  # nobody has drawn from it
    if isinstance(value, CONSTANT) or is_mujoco(value, "MjModel"):
        return True
    return type(value).__name__ == "MujocoRenderer"
