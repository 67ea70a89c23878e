"""The agent axis: many independent networks side by side, in one tensor."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from td3.seeding import Stream, Streams, fresh_seed

ALIGNMENT = 16  # numbers; layers start on a cache line, whatever their size


class Network(nn.Module):
    """Layers for many independent networks side by side: the agent axis.

    All parameters of one network are one row of `flat`, and a layer's weight and bias are views
    into it. Hence a Polyak step or an Adam step is a few operations on one tensor, however many
    layers and agents there are.
    """

    def __init__(
        self,
        leading: tuple[int, ...],
        widths: Sequence[int],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        super().__init__()
        self.leading, self.agents = leading, leading[0]
        shapes = [
            shape
            for fan_in, fan_out in itertools.pairwise(widths)
            for shape in ((fan_in, fan_out), (1, fan_out))
        ]
        sizes = [math.ceil(math.prod(shape) / ALIGNMENT) * ALIGNMENT for shape in shapes]
        self.flat = torch.zeros(*leading, sum(sizes), dtype=dtype, device=device)
        parts = self.flat.split(sizes, dim=-1)
        views = [
            nn.Parameter(part[..., : math.prod(shape)].view(*leading, *shape))
            for part, shape in zip(parts, shapes, strict=True)
        ]
        self.weights = nn.ParameterList(views[0::2])
        self.biases = nn.ParameterList(views[1::2])

    def initialize(self, streams: Sequence[Stream] | None) -> None:
        """Draw agent k's weights from stream k: uniform within 1/√fan_in, as `nn.Linear` does."""
        if streams is None:
            streams = [Streams.from_seed(fresh_seed()).init for _ in range(self.agents)]
        with torch.no_grad():
            for agent, stream in enumerate(streams):
                for weight, bias in zip(self.weights, self.biases, strict=True):
                    bound = 1 / math.sqrt(weight.shape[-2])
                    for part in (weight[agent], bias[agent]):
                        part.copy_(torch.from_numpy(stream.uniform(-bound, bound, part.shape)))

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Name → that parameter's place in `flat`, a tensor laid out as this network's own."""
        start = self.flat.storage_offset()
        return {
            name: flat.as_strided(
                parameter.shape,
                parameter.stride(),
                flat.storage_offset() + parameter.storage_offset() - start,
            )
            for name, parameter in self.named_parameters()
        }

    def share(self, agent: int) -> Self:
        """One agent's network, on the same memory: what trains there has trained here."""
        member = cast("Self", self.like(agents=1))
        member.flat = self.flat[agent : agent + 1]
        for mine, theirs in zip(member.parameters(), self.parameters(), strict=True):
            mine.data = theirs.data[agent : agent + 1]
        for name, buffer in self.named_buffers():
            setattr(member, name, buffer[agent : agent + 1])
        return member

    def clone(self) -> Self:
        """A copy with memory of its own."""
        copy = cast("Self", self.like(self.agents))
        copy.flat.copy_(self.flat)
        return copy.requires_grad_(next(self.parameters()).requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()  # the default would tear the parameters off `flat`

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What `.to`, `.cuda` and `.double` call; parameters stay views of `flat`."""
        flat = fn(self.flat)
        for parameter, view in zip(self.parameters(), self.views(flat).values(), strict=True):
            parameter.data = view
        self.flat = flat
        for name, buffer in self.named_buffers():
            setattr(self, name, fn(buffer))
        return self

    def like(self, agents: int) -> "Network":
        """A new network of the same shape for `agents` agents."""
        raise NotImplementedError
