"""A policy as a list of steps from the raw observation to the action.

Every writer translates this one description. All steps compute in double precision with the
policy's float32 numbers, so the formats agree to about 1e-15. td3 itself computes in float32.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from td3.errors import UserError
from td3.layout import (
    Layout,
    channel_axis,
    channels_first,
    has_images,
    layout_size,
    parts_of,
    unstack_layout,
)
from td3.policy.layers import CLIP
from td3.policy.policy import Policy
from td3.policy.residual import RMS_EPSILON, ResidualActor

if TYPE_CHECKING:
    from td3.algorithm.agent import TD3

Array = NDArray[Any]
NO_CLIP = 1e300
EPSILON = 1e-5  # of PyTorch's layer normalisation


@dataclass(frozen=True)
class Input:
    """One part of an observation as the environment gives it."""

    path: list[str | int]
    """Keys of dictionaries and positions in tuples that lead to it."""
    kind: str
    """`numbers`, `choices` (each becomes a one-hot vector) or `image`."""
    shape: list[int]
    counts: list[int] = field(default_factory=list)
    """Of choices: how many there are."""
    starts: list[int] = field(default_factory=list)
    """Of choices: the smallest."""
    low: float = 0
    high: float = 255
    """Range of an image; the network sees whole numbers from 0 to 255."""

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def outputs(self) -> int:
        """How many numbers of the state it becomes."""
        return sum(self.counts) if self.kind == "choices" else self.size

    @property
    def name(self) -> str:
        """For example `observation.achieved_goal`."""
        return ".".join(map(str, ["observation", *self.path]))


@dataclass(frozen=True)
class Step:
    """One operation on a vector: its name, arrays and other facts.

    | op | x becomes |
    |---|---|
    | normalize | (x - shift) * scale, clipped to ±clip |
    | dense | x @ weight + bias |
    | relu, tanh | max(x, 0), tanh(x) |
    | layer_norm | (x - mean) / sqrt(variance + epsilon) |
    | rms_norm | x / sqrt(mean of x² + epsilon) |
    | pixels | x / 255 - 0.5 |
    | convolve | 3 × 3 convolution of an image `sides`, channels first |
    | branches | for each branch, x[index] and its steps; all joined |
    | residual | x + what the steps of the only branch give for x |
    """

    op: str
    arrays: dict[str, Array] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    branches: "list[tuple[Array, list[Step]]]" = field(default_factory=list)


class Program(NamedTuple):
    """Everything between a raw observation and an actuator command."""

    inputs: list[Input]
    stack: int
    """How many observations form one state; the policy keeps the last ones."""
    steps: list[Step]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    shape: list[int]
    """Of an action."""
    dtype: str
    facts: dict[str, Any]
    """Where the policy comes from."""
    agent: "TD3 | None" = None
    """Acts instead of `steps`: a variant with an actor of its own, in double precision."""

    @property
    def input_size(self) -> int:
        """Numbers of one raw observation."""
        return sum(part.size for part in self.inputs)

    @property
    def state_size(self) -> int:
        """Numbers of one state."""
        return self.stack * sum(part.outputs for part in self.inputs)

    @property
    def outputs(self) -> int:
        """Numbers of one action."""
        return int(self.low.size)

    @property
    def has_images(self) -> bool:
        return any(part.kind == "image" for part in self.inputs)


def policy_program(policy: Policy, facts: dict[str, Any]) -> Program:
    """The program of a policy; if only its Python class can act, the program has no steps."""
    stack, single = unstack_layout(policy.layout)
    bounds = policy.bounds
    needs_class = policy.actor is not None and policy.residual is None
    return Program(
        read_inputs(single, []),
        stack,
        [] if needs_class else policy_steps(policy, stack, single),
        bounds.low,
        bounds.high,
        list(bounds.shape),
        bounds.dtype,
        facts,
        double_agent(policy) if needs_class else None,
    )


def policy_steps(policy: Policy, stack: int, single: Layout) -> list[Step]:
    """From a state to an action within [-1, 1]."""
    steps = []
    if policy.statistics:
        shift, scale = policy.statistics
        steps.append(Step("normalize", {"shift": shift, "scale": scale}, {"clip": CLIP}))
    if policy.residual:
        return [*steps, *residual_steps(policy.residual)]
    if has_images(policy.layout):
        steps.append(encoder_step(stack, single, encoder_layers(policy)))
    for weight, bias in policy.layers:
        steps += [dense_step((weight, bias)), Step("relu")]
    return [*steps[:-1], Step("tanh")]


def residual_steps(actor: ResidualActor) -> list[Step]:
    """The steps of the variant flash."""
    steps = []
    if actor.statistics:
        shift, scale = actor.statistics
        steps.append(Step("normalize", {"shift": shift, "scale": scale}, {"clip": NO_CLIP}))
    steps.append(dense_step(actor.first))
    for wide, narrow in actor.blocks:
        inside = [dense_step(wide), Step("relu"), dense_step(narrow), Step("relu")]
        branch = np.arange(narrow[1].size), inside
        steps += [Step("residual", branches=[branch])] if actor.residual else inside
    if actor.output_norm:
        steps.append(Step("rms_norm", facts={"epsilon": RMS_EPSILON}))
    return [*steps, dense_step(actor.last), Step("tanh")]


def dense_step(layer: tuple[Array, Array]) -> Step:
    weight, bias = layer
    return Step("dense", {"weight": weight, "bias": bias})


def double_agent(policy: Policy) -> "TD3":
    """The agent of a policy that acts in its own way, in double precision."""
    import torch

    from td3.policy.variants import build_agent

    if "variant" not in policy.card:
        raise UserError(f"The policy {policy.name} acts with a class that its file does not name.")
    size = policy.bounds.low.size
    return build_agent(policy.card, size, policy.tensors, None, policy.name, torch.float64)


def encoder_layers(policy: Policy) -> list[tuple[Array, Array]]:
    """(weight, bias) of each layer of the encoder; the bias is flat."""
    names = [name for name in policy.tensors if name.startswith("encoder.layer_")]
    arrays = {name: np.asarray(policy.tensors[name], dtype=np.float32)[0] for name in names}
    layers = [f"encoder.layer_{number}" for number in range(1, len(names) // 2 + 1)]
    return [(arrays[f"{name}.weight"], arrays[f"{name}.bias"].ravel()) for name in layers]


def read_inputs(layout: Layout, path: list[str | int]) -> list[Input]:
    """The parts of one observation in the order of the flat state."""
    match layout:
        case {"box": shape}:
            return [Input(path, "numbers", list(shape))]
        case {"image": shape}:
            low, high = layout.get("low", 0), layout.get("high", 255)
            return [Input(path, "image", list(shape), low=low, high=high)]
        case {"discrete": count, "start": start}:
            return [Input(path, "choices", [], [count], [start])]
        case {"discretes": counts, "starts": starts}:
            flat = np.ravel(counts).tolist(), np.ravel(starts).tolist()
            return [Input(path, "choices", list(np.shape(counts)), *flat)]
        case {"dict": known}:
            parts = [read_inputs(part, [*path, key]) for key, part in known.items()]
        case _:
            numbered = enumerate(layout["tuple"])
            parts = [read_inputs(part, [*path, position]) for position, part in numbered]
    return [leaf for part in parts for leaf in part]


def encoder_step(stack: int, layout: Layout, layers: list[tuple[Array, Array]]) -> Step:
    """Images pass through convolutions and a dense layer, other numbers are unchanged."""
    branches: list[tuple[Array, list[Step]]] = []
    remaining, width = iter(layers), layout_size(layout)
    for part in parts_of(layout):
        frames = np.arange(stack)[:, None] * width
        index = frames + np.arange(part.start, part.start + part.size)
        if part.image is None:
            branches.append((index.ravel(), []))
            continue
        pixels = index.reshape(stack, *part.image)
        if channel_axis(part.image) == 2:
            pixels = np.moveaxis(pixels, -1, 1)
        channels, *sides = channels_first(part.image)
        branches.append((pixels.ravel(), image_steps([stack * channels, *sides], remaining)))
    return Step("branches", branches=branches)


def image_steps(sides: list[int], layers: Iterator[tuple[Array, Array]]) -> list[Step]:
    """The steps of one image, channels first."""
    steps, first = [Step("pixels")], True
    for weight, bias in layers:
        if weight.ndim == 2:
            dense = dense_step((weight, bias))
            return [*steps, dense, Step("layer_norm", facts={"epsilon": EPSILON}), Step("tanh")]
        stride, first = (2 if first else 1), False
        facts = {"sides": sides, "stride": stride}
        steps += [Step("convolve", {"weight": weight, "bias": bias}, facts), Step("relu")]
        kernel = weight.shape[-1]
        sides = [len(weight), *((side - kernel) // stride + 1 for side in sides[1:])]
    raise ValueError("the encoder ends with a convolution")
