"""Batches and noise on the device, for captured updates.

`DeviceInputs` draw random numbers ahead in blocks and sample on the device. `HostInputs` call the
agent's and the replay buffer's own methods for every update, in case they are overridden.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from td3.algorithm.replay import Batch, ReplayBuffer
from td3.algorithm.settings import Noise
from td3.execution.context import UpdateContext
from td3.execution.gpu.random_upload import (
    AHEAD,
    BatchUpload,
    RandomUpload,
    current_numbers,
)
from td3.execution.inputs import (
    draws_as_td3_does,
    example_inputs,
    make_sampler,
    samples_as_td3_does,
)


class DeviceInputs:
    """Random numbers in blocks, and batches that are gathered on the device."""

    def __init__(self, context: UpdateContext, sizes: Tensor, fused: bool) -> None:
        agent, replay = context.agent, context.replay
        assert replay.rows is not None
        self.agent, self.replay, self.batch_size = agent, replay, context.batch_size
        self.fused = fused and chooses_uniformly(replay)
        self.random = RandomUpload(agent, replay, self.batch_size)
        picked = torch.zeros(agent.agents * self.batch_size, replay.rows.shape[-1])
        self.given = {**self.random.given, "sizes": sizes}
        self.given["picked"] = picked.to(agent.device, agent.dtype)
        self.offsets = torch.arange(agent.agents, device=agent.device)[:, None] * replay.capacity
        on_host = replay.device != agent.device
        self.upload = BatchUpload(replay, self.given["picked"]) if on_host else None
        self.chosen: Any = None
        """What the last update sampled: places on the device, or on the host."""

    def batch_and_noise(self) -> tuple[Batch, Tensor | Noise]:
        return self.current(self.given)

    def current(self, given: dict[str, Tensor]) -> tuple[Batch, Tensor | Noise]:
        """Batch and noise of the current update, from these tensors."""
        rows = given["picked"].view(self.agent.agents, self.batch_size, -1)
        smoothing = current_numbers(given, "normal")
        if "own" not in given:
            return self.replay.split(rows), smoothing
        return self.replay.split(rows), Noise(smoothing, current_numbers(given, "own"))

    def step(self, given: dict[str, Tensor]) -> None:
        """Go to the random numbers of the next update."""
        given["position"].add_(1).remainder_(2 * AHEAD)

    def sample(self) -> None:
        """Gather the batch of this update from the replay buffer on the device."""
        if self.upload:
            return
        given, replay = self.given, self.replay
        assert replay.rows is not None
        if self.fused:
            from td3.execution.gpu.fused import pick

            pick(replay.rows, given, given["picked"])
            return
        self.chosen = replay.choose(current_numbers(given, "uniform"), given["sizes"])
        places = self.chosen + self.offsets
        torch.index_select(replay.rows.flatten(0, 1), 0, places.flatten(), out=given["picked"])

    def use_priorities(self, found: list[Tensor]) -> None:
        """Part of the captured update if the replay buffer is on the device."""
        if found and not self.upload:
            self.replay.set_priorities(self.chosen, found[0])

    def advance(self) -> None:
        """Make sure that the inputs of the next update arrive before it runs."""
        self.random.advance()
        if self.upload:
            self.chosen = self.upload(self.random.current_uniform)

    def finish(self, found: list[Tensor]) -> None:
        """Work of the host after an update was launched."""
        if found and self.upload:
            self.replay.set_priorities(self.chosen, found[0].to(self.replay.device))
        self.random.send_ahead()

    def rewind(self) -> None:
        self.random.rewind()

    def close(self) -> None:
        self.random.blocks.close()


class HostInputs:
    """Batches and noise from the methods of the agent and the replay buffer, update by update."""

    def __init__(self, context: UpdateContext) -> None:
        self.replay = context.replay
        # Copies with memory of their own: compiled code expects the layout of its trial run.
        self.inputs: tuple[Batch, Any] = tree_map(
            lambda tensor: tensor.clone(memory_format=torch.contiguous_format),
            example_inputs(context),
        )
        self.given = {str(k): tensor for k, tensor in enumerate(tree_leaves(self.inputs))}
        self.write = make_sampler(context, *self.inputs)
        self.chosen: Any = None

    def batch_and_noise(self) -> tuple[Batch, Any]:
        return self.inputs

    def current(self, given: dict[str, Tensor]) -> tuple[Batch, Any]:
        structure = torch.utils._pytree.tree_structure(self.inputs)
        found: tuple[Batch, Any] = torch.utils._pytree.tree_unflatten(given.values(), structure)
        return found

    def step(self, given: dict[str, Tensor]) -> None: ...

    def sample(self) -> None: ...

    def use_priorities(self, found: list[Tensor]) -> None: ...

    def advance(self) -> None:
        self.chosen = self.write()

    def finish(self, found: list[Tensor]) -> None:
        if found:
            self.replay.set_priorities(self.chosen, found[0].to(self.replay.device))

    def rewind(self) -> None: ...

    def close(self) -> None: ...


def make_inputs(context: UpdateContext, sizes: Tensor, fused: bool) -> DeviceInputs | HostInputs:
    """The fastest inputs that draw and sample as this agent and this replay buffer do."""
    if draws_as_td3_does(context.agent) and samples_as_td3_does(context.replay):
        return DeviceInputs(context, sizes, fused)
    return HostInputs(context)


def chooses_uniformly(replay: ReplayBuffer) -> bool:
    return type(replay).choose is ReplayBuffer.choose
