"""Read observation spaces: the layout of the flat vector, and which parts are images.

Inside td3 every observation is a flat float32 vector: numbers unchanged, images as integers from
0 to 255, stacked observations one after the other with the newest last. The layout describes this
as plain JSON, so that a policy file can store it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from td3.errors import UserError
from td3.layout import Layout

SMALLEST_SIDE = 16  # a smaller array of floats is not an image
IMAGE_BOUNDS = ((0, 1), (-1, 1), (0, 255))  # of an array of floats that is an image


def observation_layout(space: spaces.Space[Any], env_id: str, within: str = "") -> Layout:
    """Return the layout of a space as a flat vector; raise UserError if there is none."""
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
        "remove that part or convert it to a Box of numbers with a wrapper."
    )


def is_image(space: spaces.Box) -> bool:
    """Whether it is a byte array with two axes or more, or a large float array bounded like one."""
    if 0 in space.shape:
        return False
    if space.dtype == np.uint8:
        return sum(side > 1 for side in space.shape) >= 2
    large = len(space.shape) in (2, 3) and is_image_sized(space.shape)
    return (
        large and np.issubdtype(space.dtype, np.floating) and common_bounds(space) in IMAGE_BOUNDS
    )


def is_image_sized(shape: Sequence[int]) -> bool:
    """Whether two sides are at least SMALLEST_SIDE long."""
    return len(shape) > 1 and sorted(shape)[-2] >= SMALLEST_SIDE


def flattened_images(space: spaces.Space[Any]) -> list[tuple[int, ...]]:
    """Return the shapes that td3 treats as numbers although they may be meant as images."""
    match space:
        case spaces.Box(shape=shape) if is_image_sized(shape) and not is_image(space):
            return [shape]
        case spaces.Dict():
            return [shape for part in space.values() for shape in flattened_images(part)]
        case spaces.Tuple():
            return [shape for part in space for shape in flattened_images(part)]
    return []


def common_bounds(space: spaces.Box) -> tuple[float, float] | None:
    """Return (low, high) if all elements have the same bounds."""
    low, high = float(space.low.min()), float(space.high.max())
    same = (space.low == low).all() and (space.high == high).all()
    return (low, high) if same else None


def image_layout(space: spaces.Box, env_id: str, within: str) -> Layout:
    if len(space.shape) > 3:
        raise UserError(
            f"{env_id} observes images with {len(space.shape)} axes {space.shape}{within}; "
            "use height, width and optional channels (environment.frame_stack stacks frames)."
        )
    bounds = common_bounds(space) or (0, 255)
    if bounds == (0, 255) or bounds[0] == bounds[1]:
        return {"image": list(space.shape)}
    return {"image": list(space.shape), "low": bounds[0], "high": bounds[1]}


def describe(space: spaces.Space[Any]) -> str:
    """Return a short description for error messages."""
    kind = type(space).__name__
    if isinstance(space, spaces.Box) and 0 in space.shape:
        return f"an empty Box space of shape {space.shape}"
    return f"a {kind} space" if kind[0] not in "AEIOU" else f"an {kind} space"
