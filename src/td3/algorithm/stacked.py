"""The agent axis: many independent networks side by side, in one tensor."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from td3.algorithm.tensors import clone_tensors, take_member
from td3.seeding import Stream, Streams, fresh_seed

ALIGNMENT = 32  # numbers; kernels load each row in wide pieces


def per_agent(number: float | Tensor, like: Tensor) -> Any:
    """A number that can be combined with `like`: one for all agents, or one per agent.

    A setting is a tensor with one number per agent if a grid varies it, otherwise a plain number.

    Args:
        number: A plain number, or a tensor (agents,).
        like: A tensor (agents, …), for its type and number of axes.

    Returns:
        The plain number, or a tensor (agents, 1, …).

    Example:
        >>> import torch
        >>> per_agent(torch.tensor([0.5, 1.0]), torch.zeros(2, 32, 1)).shape
        torch.Size([2, 1, 1])
    """
    if isinstance(number, Tensor):
        return number.to(like.dtype).view(-1, *[1] * (like.dim() - 1))
    return number


Shape = tuple[int, ...]


class PaddedParameter(nn.Parameter):
    """A parameter whose rows end with unused numbers; `numel` does not count them."""

    padding = 0

    @classmethod
    def with_padding(cls, data: Tensor, padding: int) -> "PaddedParameter":
        parameter = cls(data)
        parameter.padding = padding
        return parameter

    def numel(self) -> int:
        *rows, width = self.shape
        return math.prod(rows) * (width - self.padding)


class StackedParameters(nn.Module):
    """The parameters of many independent networks of the same shape.

    All numbers of one network are one row of `flat`, the only parameter; layers are views of it.
    So a gradient, an Adam step or a Polyak step is a few operations on one tensor, for any number
    of layers and agents.
    """

    def __init__(
        self,
        leading: Shape,
        shapes: Mapping[str, Shape],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        """Reserve the parameters.

        Args:
            leading: (agents,), or (agents, networks per agent).
            shapes: Name and shape of each layer's tensors; `name_layers` names pairs.
            dtype: Type of the numbers.
            device: Where they are.
        """
        super().__init__()
        self.shapes = dict(shapes)
        self.sizes = [math.prod(shape) for shape in self.shapes.values()]
        self.sizes.append(-sum(self.sizes) % ALIGNMENT)
        zeros = torch.zeros(*leading, sum(self.sizes), dtype=dtype, device=device)
        self.flat = PaddedParameter.with_padding(zeros, self.sizes[-1])

    @property
    def leading(self) -> Shape:
        """(agents,), or (agents, networks per agent)."""
        return tuple(self.flat.shape[:-1])

    @property
    def agents(self) -> int:
        return self.flat.shape[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return clone_tensors(self)

    def named_layers(self, flat: Tensor | None = None) -> dict[str, Tensor]:
        """Return the layers by name, e.g. `layer_1.weight`; files use these names.

        They are views of `flat`, or of another tensor of the same form, such as Adam's moments.
        """
        flat = self.flat if flat is None else flat
        *parts, _ = flat.split(self.sizes, dim=-1)
        shaped = zip(self.shapes.items(), parts, strict=True)
        return {name: part.view(*flat.shape[:-1], *shape) for (name, shape), part in shaped}

    def layers(self, flat: Tensor | None = None) -> list[tuple[Tensor, Tensor]]:
        """Return (weight, bias) of each layer, as views like those of `named_layers`."""
        views = list(self.named_layers(flat).values())
        return list(zip(views[0::2], views[1::2], strict=True))

    def __getitem__(self, name: str) -> Tensor:
        """A layer's weight or bias by name, e.g. `agent.actor["layer_1.weight"]`."""
        layers = self.named_layers()
        if name not in layers:
            raise KeyError(f"no {name!r}; there are {', '.join(layers)}")
        return layers[name]

    def extra_repr(self) -> str:
        """The layers, one per line, for `print`."""
        lines = [f"{name}: {tuple(view.shape)}" for name, view in self.named_layers().items()]
        return "\n".join(lines)

    def fresh_streams(self) -> list[Stream]:
        """Streams of random seeds, for networks that are made without one."""
        return [Streams.from_seed(fresh_seed()).init for _ in range(self.agents)]

    @torch.no_grad()
    def initialize(self, streams: Sequence[Stream] | None) -> None:
        """Draw agent k's weights from stream k: uniform within 1/√inputs, as PyTorch does."""
        layers = self.layers()
        for agent, stream in enumerate(self.fresh_streams() if streams is None else streams):
            for weight, bias in layers:
                inputs = weight.numel() // bias.numel()
                bound = 1 / math.sqrt(inputs)
                for part in (weight[agent], bias[agent]):
                    part.copy_(torch.from_numpy(stream.uniform(-bound, bound, part.shape)))

    def member(self, agent: int) -> Self:
        """One agent's network, on the same memory: training one trains the other."""
        return take_member(self, self.agents, agent)


def name_layers(shapes: Sequence[tuple[Shape, Shape]]) -> dict[str, Shape]:
    """Name the shapes of each layer's weight and bias `layer_1.weight`, `layer_1.bias`, …"""
    return {
        f"layer_{number}.{name}": shape
        for number, layer in enumerate(shapes, start=1)
        for name, shape in zip(("weight", "bias"), layer, strict=True)
    }


class StackedMLP(StackedParameters):
    """Fully connected layers of many independent networks."""

    def __init__(
        self,
        leading: Shape,
        widths: Sequence[int],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        shapes = [((fan_in, fan_out), (1, fan_out)) for fan_in, fan_out in pairwise(widths)]
        super().__init__(leading, name_layers(shapes), dtype, device)
        self.widths = tuple(widths)

    def compute(self, x: Tensor, flat: Tensor) -> Tensor:
        """(networks, batch, inputs) → (networks, batch, outputs), with ReLU between the layers.

        `flat`: (networks, numbers). Faster versions exist for a GPU (fused kernels) and for single
        states (NumPy); they replace this method only if a subclass has not overridden it.
        """
        *hidden, (weight, bias) = self.layers(flat)
        for hidden_weight, hidden_bias in hidden:
            x = F.relu(torch.baddbmm(hidden_bias, x, hidden_weight))
        return torch.baddbmm(bias, x, weight)


def check_width(name: str, tensor: Tensor, width: int) -> None:
    """Raise a ValueError if the last dimension of an input is not the expected one."""
    if tensor.shape[-1] != width:
        shape = tuple(tensor.shape)
        raise ValueError(f"expected {name}s of {width} numbers, got a tensor of shape {shape}")
