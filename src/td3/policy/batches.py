"""Batches of observations: the same structure as one observation, with a leading axis."""

from typing import Any

import numpy as np

from td3.layout import Layout, Observation, describe_dimension, flatten, layout_size


def batch_length(layout: Layout, batch: Any, stack: tuple[int, ...] = ()) -> int:
    """How many observations of this layout a batch has.

    Args:
        layout: The layout of one observation.
        batch: Arrays with a leading axis, in the dictionaries and tuples of one observation.
        stack: The axis of stacked observations, which follows the leading one.

    Raises:
        ValueError: It is not a batch. Observations of another kind raise KeyError or TypeError.
    """
    match layout:
        case {"box": shape} | {"image": shape}:
            single = tuple(shape)
        case {"discrete": _}:
            single = ()
        case {"discretes": counts}:
            single = np.shape(counts)
        case {"stack": count, "of": layout}:
            return batch_length(layout, batch, (count,))
        case {"dict": known}:
            return one_length([batch_length(known[key], batch[key], stack) for key in known])
        case _:
            pairs = zip(layout["tuple"], batch, strict=True)
            return one_length([batch_length(part, own, stack) for part, own in pairs])
    found: tuple[int, ...] = np.shape(batch)
    if not found or found[1:] != stack + single:
        raise ValueError(f"shape {found} instead of {('batch', *stack, *single)}")
    return found[0]


def one_length(lengths: list[int]) -> int:
    """The length that all parts of a batch have."""
    if len(set(lengths)) != 1:
        raise ValueError(f"the parts of a batch have the lengths {lengths}")
    return lengths[0]


def select(layout: Layout, batch: Any, index: int) -> Any:
    """One observation of a batch."""
    match layout:
        case {"stack": _, "of": single}:
            return select(single, batch, index)
        case {"dict": known}:
            return {key: select(part, batch[key], index) for key, part in known.items()}
        case {"tuple": known}:
            return tuple(select(part, own, index) for part, own in zip(known, batch, strict=True))
    return batch[index]


def flatten_batch(layout: Layout, batch: Any) -> Observation:
    """A batch of observations as float32 rows, (batch, state_dim). Raises as `batch_length`."""
    length, width = batch_length(layout, batch), layout_size(layout)
    if "box" in layout:
        with np.errstate(over="ignore"):  # too large becomes inf, which is refused later
            return np.array(batch, dtype=np.float32).reshape(length, width)
    rows = [flatten(layout, select(layout, batch, index)) for index in range(length)]
    return np.array(rows, dtype=np.float32).reshape(length, width)


def describe_not_finite(layout: Layout, state: Observation) -> str:
    """Which number of one flat state or of a batch is the first that is not finite."""
    where = np.argwhere(~np.isfinite(state))[0].tolist()
    row = f"observation {where[0]} of the batch has " if len(where) > 1 else ""
    return f"{row}{state[tuple(where)]} in {describe_dimension(layout, where[-1])}"
