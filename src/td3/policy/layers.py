"""The stock actor of a policy in NumPy: faster than PyTorch for one state, as fast for a batch.

A second definition of `Actor.forward` and `Normalizer.forward`; a test compares them. PyTorch is
imported only for policies that need it: images, and other actors.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]
Layers = list[tuple[Floats, Floats]]
Statistics = tuple[Floats, Floats]
CLIP = 10.0  # standard deviations, as in `Normalizer`


def read_layers(tensors: Mapping[str, ArrayLike], widths: Sequence[int]) -> Layers:
    """(weight, bias) of each layer of the actor, whose layers have these widths.

    Raises ValueError or KeyError if the tensors have other shapes.
    """
    return [
        (
            read_array(tensors, f"actor.layer_{number}.weight", (1, inputs, outputs))[0],
            read_array(tensors, f"actor.layer_{number}.bias", (1, 1, outputs))[0, 0],
        )
        for number, (inputs, outputs) in enumerate(pairwise(widths), start=1)
    ]


def read_array(tensors: Mapping[str, ArrayLike], name: str, shape: tuple[int, ...]) -> Floats:
    """A tensor of a policy by its name. Raises ValueError if it has another shape."""
    array: NDArray[Any] = np.asarray(tensors[name])
    if array.shape != shape or not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, not {shape}")
    return array.astype(np.float32, copy=False)


def read_statistics(tensors: Mapping[str, ArrayLike], state_dim: int) -> Statistics | None:
    """(shift, scale) of the observations; None if the policy does not normalize them."""
    if not any(name.startswith("normalizer.") for name in tensors):
        return None
    count, mean, spread = (
        np.asarray(tensors[f"normalizer.{name}"], dtype=np.float64)
        for name in ("count", "mean", "spread")
    )
    if count.shape != (1, 1) or mean.shape != (1, state_dim) or spread.shape != (1, state_dim):
        raise ValueError(f"the statistics are not those of {state_dim} numbers")
    variance = spread / np.maximum(count, 1)
    scale = np.where(count > 1, 1 / np.sqrt(variance + 1e-8), 1.0)
    return mean[0].astype(np.float32), scale[0].astype(np.float32)


def normalize(x: Floats, statistics: Statistics) -> Floats:
    """Standardized observations, clipped."""
    shift, scale = statistics
    result: Floats = np.minimum(np.maximum((x - shift) * scale, -CLIP), CLIP)
    return result


def apply_layers(x: Floats, layers: Layers) -> Floats:
    """Actions within [-1, 1] for one input, or for each row of a batch."""
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight + bias, 0)
    weight, bias = layers[-1]
    action: Floats = np.tanh(x @ weight + bias)
    return action
