"""State of PyTorch's optimizers, which they make in their first step.

A variant may have an optimizer of PyTorch. A new agent has none of its state, so the state that a
checkpoint contains is made before it is restored.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from td3.algorithm.tensors import TensorMapper


def make_lazy_state(agent: object, stored: Mapping[str, Tensor]) -> None:
    """Give each optimizer without state zeros in the form of its `stored` tensors."""
    for path, optimizer in find_optimizers(agent):
        parameters = [own for group in optimizer.param_groups for own in group["params"]]
        states = [stored_state(stored, f"own.{path}.state.{k}.") for k in range(len(parameters))]
        if optimizer.state or not all(states):
            continue
        for parameter, state in zip(parameters, states, strict=True):
            fits = (parameter.shape, ())
            if all(tensor.shape in fits for tensor in state.values()):
                optimizer.state[parameter] = {
                    name: torch.zeros_like(tensor, device=parameter.device if tensor.ndim else None)
                    for name, tensor in state.items()
                }


def find_optimizers(agent: object) -> Iterator[tuple[str, torch.optim.Optimizer]]:
    """All optimizers of an agent with their paths."""
    mapper = TensorMapper(lambda path, tensor: tensor, share_arrays=True)
    mapper.copy(agent)
    paths = {id(container): path for path, container in mapper.containers.items()}
    for value in mapper.visited:
        if isinstance(value, torch.optim.Optimizer):
            yield paths[id(vars(value))], value


def stored_state(stored: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): own for name, own in stored.items() if name.startswith(prefix)
    }
