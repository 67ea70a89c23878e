"""The actor of the variant flash in NumPy, with the running statistics of its normalisations.

A second definition of `FlashActor.forward` outside training; a test compares them. A normalisation
behind a linear layer is part of that layer's numbers here.
"""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from td3.policy.layers import Floats, Statistics, read_array

EPSILON, RMS_EPSILON = 1e-5, 1e-6  # as in `td3.algorithm.residual`
RUNNING = "own.trained.actor.online._buffers."
Layer = tuple[Floats, Floats]


class ResidualActor(NamedTuple):
    """All numbers that are needed to act."""

    statistics: Statistics | None
    """(shift, scale) of the inputs; None without batch normalisation."""
    first: Layer
    """(weight, bias)."""
    blocks: list[tuple[Layer, Layer]]
    residual: bool
    """Whether the input of a block is added to its output."""
    output_norm: bool
    last: Layer

    def act(self, x: Floats) -> Floats:
        """Actions within [-1, 1] for one input, or for each row of a batch."""
        if self.statistics:
            shift, scale = self.statistics
            x = (x - shift) * scale
        x = apply(x, self.first)
        for wide, narrow in self.blocks:
            inside = np.maximum(apply(np.maximum(apply(x, wide), 0), narrow), 0)
            x = x + inside if self.residual else inside
        if self.output_norm:
            x = x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(RMS_EPSILON))
        action: Floats = np.tanh(apply(x, self.last))
        return action


def apply(x: Floats, layer: Layer) -> Floats:
    weight, bias = layer
    result: Floats = x @ weight + bias
    return result


def read_residual_actor(
    tensors: Mapping[str, ArrayLike], inputs: int, outputs: int, residual: bool
) -> ResidualActor:
    """The actor in the tensors of a policy.

    Raises ValueError or KeyError if the tensors have other shapes.
    """
    reader = Reader(tensors, inputs)
    width = reader.width
    statistics, first = reader.input_layer()
    blocks = []
    for number in itertools.count(1):
        wide, narrow = f"block_{number}.wide", f"block_{number}.narrow"
        if f"actor.{wide}.weight" not in tensors:
            break
        inside = np.shape(tensors[f"actor.{wide}.weight"])[-1]
        blocks.append((reader.layer(wide, width, inside), reader.layer(narrow, inside, width)))
    weight, bias = reader.read("output.weight", width, outputs), reader.read("output.bias", outputs)
    if output_norm := "actor.output.scale" in tensors:
        weight = reader.read("output.scale", width)[:, None] * weight
    reader.check_all_used()
    last = single(weight), single(bias)
    return ResidualActor(statistics, first, blocks, residual, output_norm, last)


class Reader:
    """Reads layers in the order of their use, with their part of the running statistics."""

    def __init__(self, tensors: Mapping[str, ArrayLike], inputs: int) -> None:
        self.tensors, self.inputs, self.position = tensors, inputs, 0
        self.width = np.shape(tensors["actor.input.weight"])[-1]
        self.has_norms = "actor.input.scale" in tensors
        self.running = [
            np.asarray(tensors[f"{RUNNING}{name}"], dtype=np.float64).reshape(-1)
            for name in (("running_mean", "running_variance") if self.has_norms else ())
        ]

    def read(self, name: str, *shape: int) -> NDArray[np.float64]:
        leading = (1,) if len(shape) > 1 else (1, 1)
        array = read_array(self.tensors, f"actor.{name}", (*leading, *shape))
        return array.reshape(shape).astype(np.float64)

    def norm(self, name: str, width: int) -> tuple[Any, Any, Any]:
        """(shift, scale, bias): the normalisation is (x - shift) · scale + bias."""
        here = slice(self.position, self.position + width)
        self.position += width
        mean, variance = (statistics[here] for statistics in self.running)
        if mean.shape != (width,) or variance.shape != (width,):
            raise ValueError(f"its running statistics do not have {width} numbers for {name}")
        scale = self.read(f"{name}.scale", width) / np.sqrt(variance + EPSILON)
        return mean, scale, self.read(f"{name}.shift", width)

    def input_layer(self) -> tuple[Statistics | None, Layer]:
        """The normalisation of the inputs, and the first layer."""
        weight = self.read("input.weight", self.inputs, self.width)
        if not self.has_norms:
            return None, (single(weight), single(np.zeros(self.width)))
        shift, scale, bias = self.norm("input", self.inputs)
        return (single(shift), single(scale)), (single(weight), single(bias @ weight))

    def layer(self, name: str, inputs: int, outputs: int) -> Layer:
        """A linear layer with the normalisation behind it."""
        weight = self.read(f"{name}.weight", inputs, outputs)
        if not self.has_norms:
            return single(weight), single(np.zeros(outputs))
        shift, scale, bias = self.norm(name, outputs)
        return single(weight * scale), single(bias - shift * scale)

    def check_all_used(self) -> None:
        if any(len(statistics) != self.position for statistics in self.running):
            raise ValueError("its running statistics are those of another network")


def single(array: NDArray[np.float64]) -> Floats:
    return array.astype(np.float32)
