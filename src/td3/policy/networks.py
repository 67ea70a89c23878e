"""The networks of a policy that need PyTorch: encoders of images, and actors of other classes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from td3.algorithm.images.encoder import Encoder
from td3.algorithm.networks import Actor
from td3.algorithm.stacked import StackedMLP, StackedParameters
from td3.layout import Layout
from td3.policy.layers import read_array

Rows = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def on_rows(compute: Callable[[Tensor], Tensor]) -> Rows:
    """A PyTorch function of (1, batch, width), for one NumPy row or for a batch of rows."""

    @torch.no_grad()
    def compute_rows(x: NDArray[np.float32]) -> NDArray[np.float32]:
        rows = torch.from_numpy(x.astype(np.float32, copy=False)).view(1, -1, x.shape[-1])
        found = compute(rows)
        result: NDArray[np.float32] = found.view(*x.shape[:-1], found.shape[-1]).numpy()
        return result

    return compute_rows


def build_encoder(
    layout: Layout, card: Mapping[str, Any], tensors: Mapping[str, ArrayLike]
) -> Encoder:
    """The encoder of a policy for images."""
    encoder = Encoder(layout, card["channels"], card["features"], streams=())
    fill_network("encoder", encoder, tensors)
    return encoder


def build_actor(
    actor_class: type[Actor], widths: Sequence[int], tensors: Mapping[str, ArrayLike]
) -> Actor:
    """An actor of another class, as a PyTorch network."""
    inputs, *hidden_sizes, action_dim = widths
    actor = actor_class(inputs, action_dim, 1.0, hidden_sizes, streams=())
    fill_network("actor", actor, tensors)
    return actor


def fill_network(group: str, network: StackedParameters, tensors: Mapping[str, ArrayLike]) -> None:
    """Copy tensors into a network, layer by layer."""
    for name, view in network.named_layers(network.flat.detach()).items():
        array = read_array(tensors, f"{group}.{name}", tuple(view.shape))
        view.copy_(torch.from_numpy(array))


def is_stock(actor: Actor) -> bool:
    """Whether an actor computes what `Actor` of this package does, so that NumPy may do it."""
    return (
        type(actor).compute is StackedMLP.compute
        and type(actor).forward is Actor.forward
        and not {"compute", "forward"} & vars(actor).keys()
    )
