"""Observations as flat vectors: what lies where in them, and which parts are images.

Whatever an environment's observation space is, inside td3 an observation is a flat float32 vector:
numbers as they are, images as whole numbers from 0 to 255, a stack of several as one after the
other, the newest last. The layout says how, as plain JSON, so that a policy file can hold it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from td3.errors import UserError
from td3.layout import Layout, Observation, layout_size

SMALLEST_SIDE = 16  # of an array of floats that is taken for an image
IMAGE_BOUNDS = ((0, 1), (-1, 1), (0, 255))  # of such an array


def observation_layout(space: spaces.Space[Any], env_id: str, within: str = "") -> Layout:
    """How to lay an observation out as one flat vector, or why that cannot be."""
    match space:
        case spaces.Box() if is_image(space):
            return image_layout(space, env_id, within)
        case spaces.Box(shape=shape) if 0 not in shape:
            return {"box": list(shape)}
        case spaces.Discrete():
            return {"discrete": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            return {"discretes": space.nvec.tolist(), "starts": space.start.tolist()}
        case spaces.MultiBinary():
            return {"box": list(np.zeros(space.n).shape)}
        case spaces.Dict() if all(isinstance(key, str) for key in space):
            return {
                "dict": {
                    key: observation_layout(part, env_id, f" in {key!r}{within}")
                    for key, part in space.items()
                }
            }
        case spaces.Tuple():
            return {
                "tuple": [
                    observation_layout(part, env_id, f" in part {number}{within}")
                    for number, part in enumerate(space, start=1)
                ]
            }
    raise UserError(
        f"td3 cannot turn the observations of {env_id} ({describe(space)}{within}) into numbers; "
        "leave it out or make it a Box of numbers (gymnasium.wrappers), and register that."
    )


def is_image(space: spaces.Box) -> bool:
    """Bytes in two dimensions or more, or a large enough array of floats bounded as images are."""
    if 0 in space.shape:
        return False
    if space.dtype == np.uint8:
        return sum(side > 1 for side in space.shape) >= 2
    large = len(space.shape) in (2, 3) and as_large_as_images(space.shape)
    return large and np.issubdtype(space.dtype, np.floating) and bounds_of(space) in IMAGE_BOUNDS


def as_large_as_images(shape: Sequence[int]) -> bool:
    """Whether two of its sides are long."""
    return len(shape) > 1 and sorted(shape)[-2] >= SMALLEST_SIDE


def flattened_images(space: spaces.Space[Any]) -> list[tuple[int, ...]]:
    """Shapes of what is taken for numbers, but may be meant as an image."""
    match space:
        case spaces.Box(shape=shape) if as_large_as_images(shape) and not is_image(space):
            return [shape]
        case spaces.Dict():
            return [shape for part in space.values() for shape in flattened_images(part)]
        case spaces.Tuple():
            return [shape for part in space for shape in flattened_images(part)]
    return []


def bounds_of(space: spaces.Box) -> tuple[float, float] | None:
    """The bounds, if they are the same everywhere."""
    low, high = float(space.low.min()), float(space.high.max())
    same = (space.low == low).all() and (space.high == high).all()
    return (low, high) if same else None


def image_layout(space: spaces.Box, env_id: str, within: str) -> Layout:
    if len(space.shape) > 3:
        raise UserError(
            f"{env_id} observes images of {len(space.shape)} dimensions {space.shape}{within}; "
            "give height, width, and channels before or behind (environment.frame_stack stacks)."
        )
    bounds = bounds_of(space) or (0, 255)
    if bounds == (0, 255) or bounds[0] == bounds[1]:
        return {"image": list(space.shape)}
    return {"image": list(space.shape), "low": bounds[0], "high": bounds[1]}


def layout_bounds(layout: Layout, space: spaces.Space[Any]) -> tuple[Observation, Observation]:
    """What the space declares as least and greatest, laid out like an observation of it."""
    match layout, space:
        case {"box": _}, spaces.Box(low=low, high=high):
            with np.errstate(over="ignore"):
                return low.astype(np.float32).reshape(-1), high.astype(np.float32).reshape(-1)
        case {"stack": count, "of": single}, _:
            low, high = layout_bounds(single, space)
            return np.tile(low, count), np.tile(high, count)
        case {"dict": known}, spaces.Dict():
            both = [layout_bounds(part, space[key]) for key, part in known.items()]
        case {"tuple": known}, spaces.Tuple():
            both = [layout_bounds(*pair) for pair in zip(known, space, strict=True)]
        case _:
            size, most = layout_size(layout), 255 if "image" in layout else 1
            return np.zeros(size, dtype=np.float32), np.full(size, most, dtype=np.float32)
    empty = np.zeros(0, dtype=np.float32)
    lows, highs = zip((empty, empty), *both, strict=True)
    return np.concatenate(lows), np.concatenate(highs)


def describe(space: spaces.Space[Any]) -> str:
    kind = type(space).__name__
    if isinstance(space, spaces.Box) and 0 in space.shape:
        return f"an empty Box space of shape {space.shape}"
    return f"a {kind} space" if kind[0] not in "AEIOU" else f"an {kind} space"
