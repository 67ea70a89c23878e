"""Which methods a hand-written kernel may replace: only those that are not overridden."""

import inspect

import torch

from td3.algorithm.adam import Adam
from td3.algorithm.stacked import StackedMLP

PLAIN_STEP = inspect.unwrap(Adam.step)  # PyTorch wraps it, also later, for its profiler


def is_plain_adam(optimizer: Adam) -> bool:
    """Whether a fused kernel does what this optimizer's `step` does."""
    own = vars(optimizer).get("step", Adam.step)
    step = inspect.unwrap(getattr(own, "__func__", own))
    return type(optimizer) is Adam and step is PLAIN_STEP


def is_fusible(network: StackedMLP) -> bool:
    """Whether the Triton kernels do what this network's `compute` does, for its sizes."""
    inputs, *hidden, outputs = network.widths
    return (
        type(network).compute is StackedMLP.compute
        and type(network).layers is StackedMLP.layers
        and not {"compute", "layers"} & vars(network).keys()
        and network.flat.dtype == torch.float32
        and len(hidden) == 2
        and max(hidden) <= 256
        and inputs < 128
        and outputs <= 32
    )
