"""States with images: a convolutional encoder shared by actor and critics.

It changes steps 2 and 3: actor and critics receive features instead of pixels. Only the critics'
loss trains it (step 12). Its target follows in step 15, like theirs.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from td3.algorithm.stacked import Shape, StackedParameters, name_layers
from td3.layout import Layout, channel_axis, channels_first, parts_of, unstack_layout
from td3.seeding import Stream

KERNEL = 3


class Encoder(StackedParameters):
    """From a state to features: images pass through convolutions, other numbers are unchanged.

    Convolutions of 3 × 3 with ReLU, the first with stride 2; then a linear layer, layer
    normalisation and tanh. The images of a stack are the channels of one image. Small images get
    as many convolutions as fit.
    """

    def __init__(
        self,
        layout: Layout,
        channels: Sequence[int],
        features: int,
        *,
        agents: int = 1,
        streams: Sequence[Stream] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        stack, single = unstack_layout(layout)
        depths, shapes, outputs = encoder_shapes(stack, single, channels, features)
        super().__init__((agents,), name_layers(shapes), dtype, device)
        self.stack, self.depths, self.outputs = stack, depths, outputs
        self.parts = parts_of(single)
        self.channels, self.features = list(channels), features
        self.convolution_dtype = dtype
        """May be lower than the precision of weights, features and gradients."""
        self.initialize(streams)

    def forward(self, state: Tensor) -> Tensor:
        """(agents, batch, state_dim) → (agents, batch, outputs)."""
        single = state.unflatten(-1, (self.stack, -1))
        layers, depths, features = iter(self.layers()), iter(self.depths), []
        for part in self.parts:
            numbers = single[..., part.start : part.start + part.size]
            if part.image is None:
                features.append(numbers.flatten(2))
                continue
            x = scale_pixels(as_channels(numbers, part.image), self.flat.dtype).to(
                self.convolution_dtype
            )
            for number in range(next(depths)):
                weight, bias = (tensor.to(self.convolution_dtype) for tensor in next(layers))
                x = convolve(x, weight, bias, stride=2 if number == 0 else 1).relu_()
            weight, bias = next(layers)
            x = x.unflatten(1, (self.agents, -1)).flatten(2).transpose(0, 1).to(weight.dtype)
            x = torch.baddbmm(bias, x, weight)
            features.append(torch.tanh(F.layer_norm(x, x.shape[-1:])))
        return torch.cat(features, dim=-1)


def encoder_shapes(
    stack: int, single: Layout, channels: Sequence[int], features: int
) -> tuple[list[int], list[tuple[Shape, Shape]], int]:
    """Convolutions per image, the shapes of all layers, and how many numbers come out."""
    depths, shapes, outputs = [], list[tuple[Shape, Shape]](), 0
    for part in parts_of(single):
        if part.image is None:
            outputs += stack * part.size
            continue
        depth, image_shapes = layer_shapes(part.image, stack, channels, features)
        depths.append(depth)
        shapes += image_shapes
        outputs += features
    return depths, shapes, outputs


def layer_shapes(
    image: Shape, stack: int, channels: Sequence[int], features: int
) -> tuple[int, list[tuple[Shape, Shape]]]:
    """How many convolutions fit into an image, and the shapes of all layers."""
    inputs, *sides = channels_first(image)
    inputs *= stack
    shapes: list[tuple[Shape, Shape]] = []
    for outputs in channels:
        if min(sides) < KERNEL:
            break
        stride = 2 if not shapes else 1
        sides = [(side - KERNEL) // stride + 1 for side in sides]
        shapes.append(((outputs, inputs, KERNEL, KERNEL), (outputs,)))
        inputs = outputs
    flat = inputs * sides[0] * sides[1]
    return len(shapes), [*shapes, ((flat, features), (1, features))]


def as_channels(numbers: Tensor, image: Shape) -> Tensor:
    """(agents, batch, stack, pixels) → (batch, agents · stack · channels, height, width)."""
    shaped: Tensor = numbers.unflatten(-1, image)
    if channel_axis(image) == 2:
        if len(shaped) == 1:  # channels stay last, as `convolve` wants them
            return shaped[0].movedim(1, -2).flatten(-2).movedim(-1, 1)
        shaped = shaped.movedim(-1, -3)
    sides = shaped.shape[-2:]
    return shaped.transpose(0, 1).reshape(len(numbers[0]), -1, *sides)


def scale_pixels(pixels: Tensor, dtype: torch.dtype) -> Tensor:
    """Scale pixels from 0…255 to -0.5…0.5."""
    if dtype != torch.float32:  # division converts bytes to float32 in the same pass
        pixels = pixels.to(dtype)
    return pixels.div(255).sub_(0.5)


def convolve(x: Tensor, weight: Tensor, bias: Tensor, **how: Any) -> Tensor:
    """A separate convolution for every agent."""
    if len(weight) == 1:  # 1.5 times as fast as the general case
        x = x.contiguous(memory_format=torch.channels_last)
        weight = weight.squeeze(0).contiguous(memory_format=torch.channels_last)
        return torch.conv2d(x, weight, bias.flatten(), **how)
    return torch.conv2d(x, weight.flatten(0, 1), bias.flatten(), groups=len(weight), **how)
