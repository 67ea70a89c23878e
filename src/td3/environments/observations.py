"""Observations as flat vectors: what lies where in them, and which parts are images.

Whatever an environment's observation space is, inside td3 an observation is a flat float32 vector:
numbers as they are, images as whole numbers from 0 to 255, a stack of several as one after the
other, the newest last. The layout says how, as plain JSON, so that a policy file can hold it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from td3.errors import UserError

Observation = NDArray[np.float32]
Layout = dict[str, Any]

SMALLEST_SIDE = 16  # of an array of floats that is taken for an image
IMAGE_BOUNDS = ((0, 1), (-1, 1), (0, 255))  # of such an array
ROUNDING = 1e-3  # share of its range by which a pixel may lie outside of it


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


def channel_axis(image: Sequence[int]) -> int | None:
    """Which side of an image is its channels; None: it is grey.

    Beside two equal sides the third; otherwise the shorter of first and last.
    """
    if len(image) != 3:
        return None
    first, middle, last = image
    if middle in (first, last) and first != last:
        return 2 if middle == first else 0
    return 2 if last <= first else 0


def channels_first(image: tuple[int, ...]) -> tuple[int, ...]:
    """(channels, height, width)."""
    axis = channel_axis(image)
    if axis is None:
        return (1, *image)
    return (image[axis], *image[:axis], *image[axis + 1 :])


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


def stacked(layout: Layout, count: int) -> Layout:
    """The layout of `count` observations in a row."""
    return {"stack": count, "of": layout} if count > 1 else layout


def flatten(layout: Layout, observation: Any) -> Observation:
    """One observation as a flat float32 vector."""
    match layout:
        case {"box": shape}:
            # A copy: some environments hand out a buffer that their next reset overwrites.
            with np.errstate(over="ignore"):  # too large becomes inf, and that is refused
                array = np.array(observation, dtype=np.float32)
            return checked_shape(array, shape).reshape(-1)
        case {"image": shape}:
            return pixels(layout, checked_shape(np.asarray(observation), shape)).reshape(-1)
        case {"discrete": count}:
            position = int(observation) - layout["start"]
            if not 0 <= position < count:
                raise ValueError(f"{observation} is not one of its {count} numbers")
            one_hot = np.zeros(count, dtype=np.float32)
            one_hot[position] = 1
            return one_hot
        case {"discretes": counts, "starts": starts}:
            numbers = checked_shape(np.asarray(observation), list(np.shape(counts)))
            each = zip(np.ravel(counts), np.ravel(starts), numbers.flat, strict=True)
            parts = [flatten({"discrete": n, "start": start}, value) for n, start, value in each]
        case {"stack": count, "of": single}:
            parts = [flatten(single, one_of(single, observation, k, count)) for k in range(count)]
        case {"dict": known}:
            parts = [flatten(part, observation[key]) for key, part in known.items()]
        case _:
            pairs = zip(layout["tuple"], observation, strict=True)
            parts = [flatten(part, value) for part, value in pairs]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)


def pixels(layout: Layout, image: NDArray[Any]) -> Observation:
    """An image as whole numbers from 0 to 255: what is stored is bytes."""
    array: Observation = image.astype(np.float32)
    low, high = layout.get("low", 0), layout.get("high", 255)
    if (low, high) == (0, 255) and image.dtype == np.uint8:
        return array
    if not np.isfinite(array).all():
        return array  # to be found and named
    outside = max(low - array.min(), array.max() - high)
    if outside > ROUNDING * (high - low):
        seen = f"{array.min():g} to {array.max():g}"
        raise ValueError(f"an image of {seen} instead of {low:g} to {high:g}")
    if outside > 0:
        array = array.clip(low, high)
    whole: Observation = np.rint((array - low) * (255 / (high - low)), dtype=np.float32)
    return whole


def checked_shape(array: NDArray[Any], shape: list[int]) -> NDArray[Any]:
    if list(array.shape) != shape:
        raise ValueError(f"shape {array.shape} instead of {tuple(shape)}")
    return array


def one_of(layout: Layout, observation: Any, index: int, count: int) -> Any:
    """One of `count` observations that Gymnasium has stacked: it stacks every part by itself."""
    match layout:
        case {"dict": known}:
            return {k: one_of(part, observation[k], index, count) for k, part in known.items()}
        case {"tuple": known}:
            pairs = zip(known, observation, strict=True)
            return tuple(one_of(part, value, index, count) for part, value in pairs)
    if np.shape(observation)[:1] != (count,):
        raise ValueError(f"shape {np.shape(observation)} instead of {count} stacked, newest last")
    return observation[index]


def layout_size(layout: Layout) -> int:
    """Numbers in the flat vector."""
    match layout:
        case {"box": shape} | {"image": shape}:
            return int(np.prod(shape, dtype=int))
        case {"discrete": count}:
            return int(count)
        case {"discretes": counts}:
            return int(np.sum(counts))
        case {"stack": count, "of": single}:
            return int(count) * layout_size(single)
        case {"dict": known}:
            return sum(map(layout_size, known.values()))
    return sum(map(layout_size, layout["tuple"]))


class Part(NamedTuple):
    """Neighbouring numbers of a flat observation: an image, or any others."""

    start: int
    size: int
    image: tuple[int, ...] | None
    """Its shape as the environment gives it."""


def parts_of(layout: Layout) -> list[Part]:
    """An unstacked observation's images, and what lies between them."""
    found: list[Part] = []
    for shape, size in leaves(layout):
        start = found[-1].start + found[-1].size if found else 0
        if shape is None and found and found[-1].image is None:
            found[-1] = found[-1]._replace(size=found[-1].size + size)
        elif size:
            found.append(Part(start, size, shape))
    return found


def leaves(layout: Layout) -> list[tuple[tuple[int, ...] | None, int]]:
    match layout:
        case {"image": shape}:
            return [(tuple(shape), layout_size(layout))]
        case {"dict": known}:
            return [leaf for part in known.values() for leaf in leaves(part)]
        case {"tuple": known}:
            return [leaf for part in known for leaf in leaves(part)]
    return [(None, layout_size(layout))]


def unstacked(layout: Layout) -> tuple[int, Layout]:
    """How many observations are stacked, and the layout of one."""
    return (layout["stack"], layout["of"]) if "stack" in layout else (1, layout)


def has_images(layout: Layout) -> bool:
    return any(part.image for part in parts_of(unstacked(layout)[1]))


def in_words(layout: Layout) -> str:
    """What a state is made of: 3 stacked observations of an image 84 × 84 × 3 and 2 numbers."""
    stack, single = unstacked(layout)
    found = [
        f"an image {' × '.join(map(str, part.image))}"
        if part.image
        else f"{part.size} number{'s' if part.size > 1 else ''}"
        for part in parts_of(single)
    ]
    return (f"{stack} stacked observations of " if stack > 1 else "") + " and ".join(found)


def describe(space: spaces.Space[Any]) -> str:
    kind = type(space).__name__
    if isinstance(space, spaces.Box) and 0 in space.shape:
        return f"an empty Box space of shape {space.shape}"
    return f"a {kind} space" if kind[0] not in "AEIOU" else f"an {kind} space"
