"""States with images: a convolutional encoder that actor and critics share.

It changes steps 2 and 3: actor and critics see features instead of pixels. It learns from the
critics' loss alone (step 12), and its target follows with theirs (step 15).
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from td3.algorithm.stacked import Shape, StackedParameters
from td3.layout import Layout, channel_axis, channels_first, parts_of, unstacked
from td3.seeding import Stream

KERNEL = 3


class Encoder(StackedParameters):
    """From a state to features: images through convolutions, other numbers as they are.

    Convolutions of 3 × 3 with ReLU, the first with stride 2; then one linear layer, normalised and
    through tanh, makes an image a few numbers between -1 and 1. A stack's images are channels of
    one. Small images get fewer convolutions, as many as they have room for.
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
        stack, single = unstacked(layout)
        parts = parts_of(single)
        depths, shapes, outputs = [], list[tuple[Shape, Shape]](), 0
        for part in parts:
            if part.image is None:
                outputs += stack * part.size
                continue
            deep, its_shapes = convolutions(part.image, stack, channels, features)
            depths.append(deep)
            shapes += its_shapes
            outputs += features
        super().__init__((agents,), shapes, dtype, device)
        self.stack, self.parts, self.depths, self.outputs = stack, parts, depths, outputs
        self.channels, self.features = list(channels), features
        self.convolved_in = dtype
        self.initialize(streams)

    def use(self, dtype: torch.dtype) -> None:
        """Convolve in numbers of this type; weights, features and gradients keep theirs."""
        self.convolved_in = dtype

    def forward(self, state: Tensor) -> Tensor:
        """(agents, batch, state_dim) → (agents, batch, outputs)."""
        single = state.unflatten(-1, (self.stack, -1))
        layers, depths, seen = iter(self.layers()), iter(self.depths), []
        for part in self.parts:
            numbers = single[..., part.start : part.start + part.size]
            if part.image is None:
                seen.append(numbers.flatten(2))
                continue
            x = scaled(as_channels(numbers, part.image), self.flat.dtype).to(self.convolved_in)
            for number in range(next(depths)):
                weight, bias = (tensor.to(self.convolved_in) for tensor in next(layers))
                x = convolve(x, weight, bias, stride=2 if number == 0 else 1).relu_()
            weight, bias = next(layers)
            x = x.unflatten(1, (self.agents, -1)).flatten(2).transpose(0, 1).to(weight.dtype)
            x = torch.baddbmm(bias, x, weight)
            seen.append(torch.tanh(F.layer_norm(x, x.shape[-1:])))
        return torch.cat(seen, dim=-1)


def convolutions(
    image: Shape, stack: int, channels: Sequence[int], features: int
) -> tuple[int, list[tuple[Shape, Shape]]]:
    """How many convolutions an image has room for, and the shapes of them and the linear layer."""
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
        if len(shaped) == 1:  # `convolve` wants channels beside each other, and so they lie
            return shaped[0].movedim(1, -2).flatten(-2).movedim(-1, 1)
        shaped = shaped.movedim(-1, -3)
    sides = shaped.shape[-2:]
    return shaped.transpose(0, 1).reshape(len(numbers[0]), -1, *sides)


def scaled(pixels: Tensor, dtype: torch.dtype) -> Tensor:
    """From 0 to 255, bytes or numbers of this type, to between -0.5 and 0.5."""
    if dtype != torch.float32:  # which bytes become by themselves, in the same pass
        pixels = pixels.to(dtype)
    return pixels.div(255).sub_(0.5)


def convolve(x: Tensor, weight: Tensor, bias: Tensor, **how: Any) -> Tensor:
    """Every agent's own convolution of its own channels."""
    if len(weight) == 1:  # half as long again otherwise
        x = x.contiguous(memory_format=torch.channels_last)
        weight = weight.squeeze(0).contiguous(memory_format=torch.channels_last)
        return torch.conv2d(x, weight, bias.flatten(), **how)
    return torch.conv2d(x, weight.flatten(0, 1), bias.flatten(), groups=len(weight), **how)
