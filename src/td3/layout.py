"""Flat vectors for observations: the position of each part, and which parts are images."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Observation = NDArray[np.float32]
Layout = dict[str, Any]
ROUNDING = 1e-3  # how far a pixel may exceed its range, as a fraction of the range


def channel_axis(image: Sequence[int]) -> int | None:
    """Which axis of an image holds its channels; None for greyscale.

    If two axes are equal, it is the third; otherwise the shorter of the first and the last.
    """
    if len(image) != 3:
        return None
    first, middle, last = image
    if middle in (first, last) and first != last:
        return 2 if middle == first else 0
    return 2 if last <= first else 0


def channels_first(image: tuple[int, ...]) -> tuple[int, ...]:
    """The shape as (channels, height, width)."""
    axis = channel_axis(image)
    if axis is None:
        return (1, *image)
    return (image[axis], *image[:axis], *image[axis + 1 :])


def stack_layout(layout: Layout, count: int) -> Layout:
    """The layout of `count` stacked observations."""
    return {"stack": count, "of": layout} if count > 1 else layout


def flatten(layout: Layout, observation: Any) -> Observation:
    """One observation as a flat float32 vector."""
    match layout:
        case {"box": shape}:
            # A copy: some environments reuse the array in their next reset.
            if getattr(observation, "dtype", None) == np.float32:
                array = np.array(observation)
            else:
                with np.errstate(over="ignore"):  # too large becomes inf, which is refused later
                    array = np.array(observation, dtype=np.float32)
            return require_shape(array, shape).reshape(-1)
        case {"image": shape}:
            return scale_to_bytes(layout, require_shape(np.asarray(observation), shape)).reshape(-1)
        case {"discrete": count}:
            position = int(observation) - layout["start"]
            if not 0 <= position < count:
                raise ValueError(f"{observation} is not one of its {count} numbers")
            one_hot = np.zeros(count, dtype=np.float32)
            one_hot[position] = 1
            return one_hot
        case {"discretes": counts, "starts": starts}:
            numbers = require_shape(np.asarray(observation), list(np.shape(counts)))
            each = zip(np.ravel(counts), np.ravel(starts), numbers.flat, strict=True)
            parts = [flatten({"discrete": n, "start": start}, value) for n, start, value in each]
        case {"stack": count, "of": single}:
            parts = [
                flatten(single, unstack_observation(single, observation, k, count))
                for k in range(count)
            ]
        case {"dict": known}:
            parts = [flatten(part, observation[key]) for key, part in known.items()]
        case _:
            pairs = zip(layout["tuple"], observation, strict=True)
            parts = [flatten(part, value) for part, value in pairs]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)


def scale_to_bytes(layout: Layout, image: NDArray[Any]) -> Observation:
    """An image as whole numbers from 0 to 255, because images are stored as bytes."""
    array: Observation = image.astype(np.float32)
    low, high = layout.get("low", 0), layout.get("high", 255)
    if (low, high) == (0, 255) and image.dtype == np.uint8:
        return array
    if not np.isfinite(array).all():
        return array  # the caller reports it
    outside = max(low - array.min(), array.max() - high)
    if outside > ROUNDING * (high - low):
        seen = f"{array.min():g} to {array.max():g}"
        raise ValueError(f"an image of {seen} instead of {low:g} to {high:g}")
    if outside > 0:
        array = array.clip(low, high)
    whole: Observation = np.rint((array - low) * (255 / (high - low)), dtype=np.float32)
    return whole


def require_shape(array: NDArray[Any], shape: list[int]) -> NDArray[Any]:
    if list(array.shape) != shape:
        raise ValueError(f"shape {array.shape} instead of {tuple(shape)}")
    return array


def unstack_observation(layout: Layout, observation: Any, index: int, count: int) -> Any:
    """One of `count` stacked observations. Gymnasium stacks every part separately."""
    match layout:
        case {"dict": known}:
            return {
                k: unstack_observation(part, observation[k], index, count)
                for k, part in known.items()
            }
        case {"tuple": known}:
            pairs = zip(known, observation, strict=True)
            return tuple(unstack_observation(part, value, index, count) for part, value in pairs)
    if np.shape(observation)[:1] != (count,):
        raise ValueError(f"shape {np.shape(observation)} instead of {count} stacked, newest last")
    return observation[index]


def layout_size(layout: Layout) -> int:
    """How many numbers the flat vector has."""
    match layout:
        case {"box": shape} | {"image": shape}:
            return math.prod(shape)
        case {"discrete": count}:
            return int(count)
        case {"discretes": counts}:
            return int(np.sum(counts))
        case {"stack": count, "of": single}:
            return int(count) * layout_size(single)
        case {"dict": known}:
            return sum(map(layout_size, known.values()))
    return sum(map(layout_size, layout["tuple"]))


def describe_dimension(layout: Layout, index: int) -> str:
    """Where a number of the flat vector comes from: `dimension 0 of observation.x`.

    A plain observation has no name: `dimension 0`. Of stacked ones it is the place in each.
    """
    path: list[str] = []
    while True:
        match layout:
            case {"stack": _, "of": single}:
                layout, index = single, index % layout_size(single)
                continue
            case {"dict": known}:
                parts = list(known.items())
            case {"tuple": listed}:
                parts = list(enumerate(listed))
            case _:
                name = ".".join(["observation", *path])
                return f"dimension {index}" + (f" of {name}" if path else "")
        for key, layout in parts:
            if index < (size := layout_size(layout)):
                path.append(str(key))
                break
            index -= size


class Part(NamedTuple):
    """A range of a flat observation: one image, or other numbers."""

    start: int
    size: int
    image: tuple[int, ...] | None
    """The shape of the image in the environment; None for other numbers."""


def parts_of(layout: Layout) -> list[Part]:
    """The images of an unstacked observation, and the numbers between them."""
    found: list[Part] = []
    for shape, size in flat_parts(layout):
        start = found[-1].start + found[-1].size if found else 0
        if shape is None and found and found[-1].image is None:
            found[-1] = found[-1]._replace(size=found[-1].size + size)
        elif size:
            found.append(Part(start, size, shape))
    return found


def flat_parts(layout: Layout) -> list[tuple[tuple[int, ...] | None, int]]:
    match layout:
        case {"image": shape}:
            return [(tuple(shape), layout_size(layout))]
        case {"dict": known}:
            return [leaf for part in known.values() for leaf in flat_parts(part)]
        case {"tuple": known}:
            return [leaf for part in known for leaf in flat_parts(part)]
    return [(None, layout_size(layout))]


def unstack_layout(layout: Layout) -> tuple[int, Layout]:
    """How many observations are stacked, and the layout of one."""
    return (layout["stack"], layout["of"]) if "stack" in layout else (1, layout)


def has_images(layout: Layout) -> bool:
    return any(part.image for part in parts_of(unstack_layout(layout)[1]))


def describe_layout(layout: Layout) -> str:
    """For example: 3 stacked observations of an image 84 × 84 × 3 and 2 numbers."""
    stack, single = unstack_layout(layout)
    found = [
        f"an image {' × '.join(map(str, part.image))}"
        if part.image
        else f"{part.size} number{'s' if part.size > 1 else ''}"
        for part in parts_of(single)
    ]
    return (f"{stack} stacked observations of " if stack > 1 else "") + " and ".join(found)
