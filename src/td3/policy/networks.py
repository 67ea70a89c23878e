"""The networks of a policy, from the tensors of its file."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.images.encoder import Encoder
from td3.algorithm.networks import Actor
from td3.algorithm.normalizer import Normalizer
from td3.algorithm.stacked import StackedMLP, StackedParameters
from td3.layout import Layout, has_images, layout_size

Pair = tuple[NDArray[np.float32], NDArray[np.float32]]


class PolicyNetworks(NamedTuple):
    """What turns a state into an action."""

    actor: Actor
    encoder: Encoder | None
    """For observations with images."""
    statistics: Pair | None
    """(shift, scale) for normalized observations."""


def build_networks(
    card: Mapping[str, Any],
    action_dim: int,
    tensors: Mapping[str, Tensor],
    actor_class: type[Actor] = Actor,
) -> PolicyNetworks:
    """Make the networks that a card describes and fill them with the tensors of a policy file.

    Raises ValueError or KeyError if the tensors do not fit the card.
    """
    groups: dict[str, dict[str, Tensor]] = {"actor": {}, "encoder": {}, "normalizer": {}}
    for name, tensor in tensors.items():
        group, _, key = name.partition(".")
        groups[group][key] = tensor
    layout: Layout = card["observation"]
    encoder, inputs = None, layout_size(layout)
    if has_images(layout):
        encoder = Encoder(layout, card["channels"], card["features"], streams=())
        inputs = encoder.outputs
        fill_network("encoder", encoder, groups["encoder"])
    actor = actor_class(inputs, action_dim, 1.0, card["hidden_sizes"], streams=())
    fill_network("actor", actor, groups["actor"])
    statistics = read_statistics(groups["normalizer"], layout_size(layout))
    return PolicyNetworks(actor, encoder, statistics)


def fill_network(group: str, network: StackedParameters, tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors into a network, layer by layer."""
    for name, view in network.named_layers(network.flat.detach()).items():
        tensor = tensors[name]
        if tensor.shape != view.shape or not tensor.is_floating_point():
            kind = f"{tensor.dtype} of shape {tuple(tensor.shape)}"
            raise ValueError(f"{group}.{name} is {kind}, not {tuple(view.shape)}")
        view.copy_(tensor)


def read_statistics(tensors: Mapping[str, Tensor], state_dim: int) -> Pair | None:
    """(shift, scale) of the observations; None if the policy does not normalize them."""
    if not tensors:
        return None
    normalizer = Normalizer(1, state_dim, torch.float32, torch.device("cpu"))
    normalizer.load_state_dict(dict(tensors))
    normalizer.refresh()
    return normalizer.shift[0, 0].numpy(), normalizer.scale[0, 0].numpy()


def is_stock(actor: Actor) -> bool:
    """Whether an actor computes what `Actor` of this package does, so that NumPy may do it."""
    return (
        type(actor).compute is StackedMLP.compute
        and type(actor).forward is Actor.forward
        and not {"compute", "forward"} & vars(actor).keys()
    )
