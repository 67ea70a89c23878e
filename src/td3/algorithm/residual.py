"""Residual networks with batch normalisation, along the agent axis.

The body of FlashSAC (Holiday-Robot, 2026): normalised inputs, a linear layer, residual blocks that
widen and narrow, and a normalised linear output. Weights may be kept at unit length.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.stacked import Shape, StackedParameters
from td3.seeding import Stream

EXPANSION = 4
"""How much wider a block is inside."""
MOMENTUM = 0.01
"""Share of a batch in the running statistics."""
EPSILON = 1e-5
"""Of batch normalisation."""
RMS_EPSILON = 1e-6
"""Of the normalisation before the output."""
TINY = 1e-8


class Body(NamedTuple):
    """The shape of a residual network, and which of its parts are used."""

    width: int
    blocks: int
    batch_norm: bool = True
    unit_weights: bool = True
    residual: bool = True
    output_norm: bool = True


class ResidualNetwork(StackedParameters):
    """Linear → blocks of [linear, norm, ReLU, linear, norm, ReLU, + input] → norm → linear."""

    def __init__(
        self,
        leading: Shape,
        inputs: int,
        outputs: int,
        body: Body,
        streams: Sequence[Stream] | None,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        super().__init__(leading, residual_shapes(inputs, outputs, body), dtype, device)
        self.body = body
        normalized = sum(shape[1] for name, shape in self.shapes.items() if name.endswith("shift"))
        zeros = torch.zeros(*leading, 1, normalized, dtype=dtype, device=device)
        self.running_mean: Tensor
        self.running_variance: Tensor
        self.register_buffer("running_mean", zeros, persistent=False)
        self.register_buffer("running_variance", torch.ones_like(zeros), persistent=False)
        self.initialize(streams)

    @torch.no_grad()
    def initialize(self, streams: Sequence[Stream] | None) -> None:
        """Draw agent k's weights from stream k: orthogonal matrices."""
        layers = self.named_layers()
        for agent, stream in enumerate(self.fresh_streams() if streams is None else streams):
            for name, layer in layers.items():
                if name.endswith("scale"):
                    layer[agent] = 1
                elif name.endswith("weight"):
                    for matrix in layer[agent].view(-1, *layer.shape[-2:]):
                        matrix.copy_(torch.from_numpy(orthogonal(stream, *matrix.shape)))
        self.project()

    def compute(
        self,
        x: Tensor,
        *,
        training: bool = False,
        remember: bool = False,
        part: int | None = None,
    ) -> Tensor:
        """(networks, batch, inputs) → (networks, batch, outputs).

        Args:
            x: One input for each network; (agents, batch, inputs) if `part` is given.
            training: Normalise with the statistics of this batch, not with the running ones.
            remember: Add the statistics of this batch to the running ones.
            part: Compute only this network of each agent.
        """
        chosen = slice(None) if part is None else (slice(None), part)
        layers = self.named_layers(self.flat[chosen].flatten(0, -2))
        running = [
            statistics[chosen].flatten(0, -3)
            for statistics in (self.running_mean, self.running_variance)
        ]
        norms = Norms(layers, running[0], running[1], training and self.body.batch_norm)
        x = norms("input", x) if self.body.batch_norm else x
        x = torch.bmm(x, layers["input.weight"])
        for number in range(1, self.body.blocks + 1):
            inside = x
            for name in (f"block_{number}.wide", f"block_{number}.narrow"):
                inside = torch.bmm(inside, layers[f"{name}.weight"])
                inside = F.relu(norms(name, inside) if self.body.batch_norm else inside)
            x = x + inside if self.body.residual else inside
        if self.body.output_norm:
            x = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + RMS_EPSILON)
            x = x * layers["output.scale"]
        if remember:
            norms.remember()
        return torch.baddbmm(layers["output.bias"], x, layers["output.weight"])

    @torch.no_grad()
    def project(self) -> None:
        """Give each unit's weights length 1, and scale and shift of each norm length √width."""
        if not self.body.unit_weights:
            return
        layers = self.named_layers()
        for name in [name for name in layers if name.endswith("scale")]:
            norm = name.removesuffix(".scale")
            parts = [layers[key] for key in (name, f"{norm}.shift") if key in layers]
            squares = [part.square().mean(dim=-1, keepdim=True) for part in parts]
            factor = torch.rsqrt(torch.stack(squares).sum(dim=0) + TINY)
            for part in parts:
                part *= factor
        for name, layer in layers.items():
            if name.endswith("weight"):
                layer *= torch.rsqrt(layer.square().sum(dim=-2, keepdim=True) + TINY)


class Norms:
    """The batch normalisations of one forward pass."""

    def __init__(
        self,
        layers: dict[str, Tensor],
        running_mean: Tensor,
        running_variance: Tensor,
        training: bool,
    ) -> None:
        self.layers, self.training = layers, training
        self.running_mean, self.running_variance = running_mean, running_variance
        self.position = 0
        self.seen: list[tuple[Tensor, Tensor]] = []

    def __call__(self, name: str, x: Tensor) -> Tensor:
        width = x.shape[-1]
        if self.training:
            variance, mean = torch.var_mean(x, dim=1, correction=0, keepdim=True)
            unbiased = variance.detach() * (x.shape[1] / max(x.shape[1] - 1, 1))
            self.seen.append((mean.detach(), unbiased))
        else:
            here = slice(self.position, self.position + width)
            mean, variance = self.running_mean[..., here], self.running_variance[..., here]
        self.position += width
        scale = torch.rsqrt(variance + EPSILON) * self.layers[f"{name}.scale"]
        return (x - mean) * scale + self.layers[f"{name}.shift"]

    @torch.no_grad()
    def remember(self) -> None:
        """Move the running statistics towards those of this batch."""
        if not self.seen:
            return
        means, variances = (torch.cat(parts, dim=-1) for parts in zip(*self.seen, strict=True))
        self.running_mean.lerp_(means, MOMENTUM)
        self.running_variance.lerp_(variances, MOMENTUM)


def residual_shapes(inputs: int, outputs: int, body: Body) -> dict[str, Shape]:
    """Name and shape of every layer, in the order of their use."""
    width, wide = body.width, body.width * EXPANSION
    linears = [("input", inputs, width)]
    for number in range(1, body.blocks + 1):
        linears += [(f"block_{number}.wide", width, wide), (f"block_{number}.narrow", wide, width)]
    shapes: dict[str, Shape] = {}
    for name, fan_in, fan_out in linears:
        if body.batch_norm:
            normalized = fan_in if name == "input" else fan_out
            shapes |= {f"{name}.scale": (1, normalized), f"{name}.shift": (1, normalized)}
        shapes[f"{name}.weight"] = (fan_in, fan_out)
    if body.output_norm:
        shapes["output.scale"] = (1, width)
    return shapes | {"output.weight": (width, outputs), "output.bias": (1, outputs)}


def orthogonal(stream: Stream, rows: int, columns: int) -> NDArray[np.float64]:
    """A random matrix with orthonormal rows or columns, whichever are fewer."""
    square = stream.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(square)
    q *= np.sign(np.diag(r))
    return q if rows >= columns else q.T
