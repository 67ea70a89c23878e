"""Which methods a hand-written kernel may replace: only those that are not overridden."""

import torch

from td3.algorithm.adam import Adam
from td3.algorithm.stacked import StackedMLP


def is_plain_adam(optimizer: object) -> bool:
    """Whether a fused kernel does what this optimizer's `step` does: no subclass."""
    return type(optimizer) is Adam


def is_fusible(network: StackedMLP) -> bool:
    """Whether the Triton kernels do what this network's `compute` does, for its sizes."""
    inputs, *hidden, outputs = network.widths
    return (
        type(network).compute is StackedMLP.compute
        and type(network).layers is StackedMLP.layers
        and network.flat.dtype == torch.float32
        and len(hidden) == 2
        and max(hidden) <= 256
        and inputs < 128
        and outputs <= 32
    )
