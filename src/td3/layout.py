"""Where the parts of an observation lie in its flat vector, and which parts are images."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Observation = NDArray[np.float32]
Layout = dict[str, Any]
ROUNDING = 1e-3  # share of its range by which a pixel may lie outside of it


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
