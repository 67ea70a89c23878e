"""The agent axis: many independent networks side by side, in one tensor."""

import copy
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from td3.seeding import Stream, Streams, fresh_seed

ALIGNMENT = 32  # numbers


def per_agent(number: float | Tensor, like: Tensor) -> Any:
    """A number for all agents as it is; one for each, shaped to meet `like`, (agents, …)."""
    if isinstance(number, Tensor):
        return number.to(like.dtype).view(-1, *[1] * (like.dim() - 1))
    return number


Shape = tuple[int, ...]


class Layers(nn.Module):
    """The numbers of many independent networks.

    All numbers of one network are one row of `flat`, the only parameter; the layers are views of
    it. Hence a gradient, an Adam step or a Polyak step is a few operations on one tensor, however
    many layers and agents there are.
    """

    def __init__(
        self,
        leading: Shape,
        shapes: Sequence[tuple[Shape, Shape]],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        """`leading`: (agents,) for one network each, or (agents, networks of each); `shapes`: the
        weight's and the bias's of each layer."""
        super().__init__()
        self.leading = leading
        self.shapes = [shape for layer in shapes for shape in layer]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        # Padding, never used, so that every row of `flat` can be loaded in wide pieces.
        self.sizes.append(-sum(self.sizes) % ALIGNMENT)
        self.flat = nn.Parameter(torch.zeros(*leading, sum(self.sizes), dtype=dtype, device=device))

    @property
    def agents(self) -> int:
        return self.leading[0]

    def layers(self, flat: Tensor | None = None) -> list[tuple[Tensor, Tensor]]:
        """(weight, bias) of each layer.

        Views of `flat`, or of another tensor laid out like it (such as Adam's moments).
        """
        flat = self.flat if flat is None else flat
        *parts, _ = flat.split(self.sizes, dim=-1)
        shaped = zip(parts, self.shapes, strict=True)
        views = [part.view(*flat.shape[:-1], *shape) for part, shape in shaped]
        return list(zip(views[0::2], views[1::2], strict=True))

    def named_layers(self, flat: Tensor | None = None) -> dict[str, Tensor]:
        """Name → view, e.g. `layer_1.weight`, for files."""
        return {
            f"layer_{number}.{name}": view
            for number, layer in enumerate(self.layers(flat), start=1)
            for name, view in zip(("weight", "bias"), layer, strict=True)
        }

    @torch.no_grad()
    def initialize(self, streams: Sequence[Stream] | None) -> None:
        """Draw agent k's weights from stream k: uniform within 1/√inputs, as PyTorch does."""
        if streams is None:
            streams = [Streams.from_seed(fresh_seed()).init for _ in range(self.agents)]
        layers = self.layers()
        for agent, stream in enumerate(streams):
            for weight, bias in layers:
                inputs = weight.numel() // bias.numel()
                bound = 1 / math.sqrt(inputs)
                for part in (weight[agent], bias[agent]):
                    part.copy_(torch.from_numpy(stream.uniform(-bound, bound, part.shape)))

    def share(self, agent: int) -> Self:
        """One agent's network, on the same memory: what trains there has trained here."""
        member = copy.copy(self)
        member._parameters, member._buffers = {}, {}
        member.leading = (1, *self.leading[1:])
        rows = slice(agent, agent + 1)
        member.flat = nn.Parameter(self.flat.data[rows], requires_grad=self.flat.requires_grad)
        for name, buffer in self._buffers.items():
            assert buffer is not None
            member.register_buffer(name, buffer[rows], persistent=False)
        return member


class Network(Layers):
    """Fully connected layers of many independent networks."""

    def __init__(
        self,
        leading: Shape,
        widths: Sequence[int],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        shapes = [((fan_in, fan_out), (1, fan_out)) for fan_in, fan_out in pairwise(widths)]
        super().__init__(leading, shapes, dtype, device)
        self.widths = tuple(widths)

    def compute(self, x: Tensor, flat: Tensor) -> Tensor:
        """(networks, batch, inputs) → (networks, batch, outputs), ReLU between the layers.

        `flat`: (networks, numbers). Every pass of every network goes through here, so this is
        where `accelerate` puts fused kernels.
        """
        *hidden, (weight, bias) = self.layers(flat)
        for hidden_weight, hidden_bias in hidden:
            x = F.relu(torch.baddbmm(hidden_bias, x, hidden_weight))
        return torch.baddbmm(bias, x, weight)
