"""The inputs of a traced update that change: batch, noise and learning rates."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch, ReplayBuffer
from td3.algorithm.state import AgentState
from td3.execution.checked import is_overridden
from td3.execution.context import UpdateContext
from td3.execution.guard import NotTraceable
from td3.seeding import restore_stream, stream_state

Sampler = Callable[[], Any]
"""Writes the next batch and noise into the inputs; returns what `draw` chose."""


class LearningRates:
    """Keeps the learning rates that a traced update reads equal to those of the optimizers."""

    def __init__(self, agent: TD3, inputs: dict[str, Tensor], member: int | None) -> None:
        """`agent`: all agents together; `member`: the one that is updated, or None for all."""
        rows = slice(None) if member is None else slice(member, member + 1)
        self.rates: list[list[Any]] = [
            [agent.trained[name].optimizer.param_groups[0], tensor, rows, None]
            for name, tensor in inputs.items()
        ]

    def refresh(self) -> None:
        """Take over rates that a schedule or the user set."""
        for entry in self.rates:
            group, tensor, rows, last = entry
            rate = group["lr"]
            if rate is last:
                continue
            entry[-1] = rate
            if not isinstance(rate, Tensor):
                tensor.fill_(rate)
            elif rate.data_ptr() != tensor.data_ptr():
                tensor.copy_(rate[rows] if rate.dim() else rate)


def draws_as_td3_does(agent: TD3) -> bool:
    """Whether nobody has overridden how noise is drawn."""
    return not is_overridden(agent, "draw_noise")


def samples_as_td3_does(replay: ReplayBuffer) -> bool:
    """Whether nobody has overridden how a batch is drawn and gathered; `choose` may differ."""
    names = ("draw", "draw_uniform", "indices", "gather", "split")
    return not any(
        name in vars(replay) or getattr(type(replay), name) is not getattr(ReplayBuffer, name)
        for name in names
    )


def example_inputs(context: UpdateContext) -> tuple[Batch, Any]:
    """Memory for a batch and noise, in the form in which this agent gets them."""
    agent, replay, size = context.agent, context.replay, context.batch_size
    assert replay.rows is not None
    shape = (agent.agents, size)
    if samples_as_td3_does(replay):
        rows = torch.zeros(agent.agents * size, replay.rows.shape[-1], dtype=agent.dtype)
        batch = replay.split(rows.to(agent.device).view(*shape, -1))
    else:
        batch = tree_map(torch.clone, without_drawing(replay, lambda: sample_once(context)))
    if draws_as_td3_does(agent) and not agent.own_numbers:
        noise = torch.zeros(*shape, agent.action_dim, dtype=agent.dtype, device=agent.device)
    else:
        noise = tree_map(torch.clone, without_drawing(agent, lambda: agent.draw_noise(size)))
    if not all(isinstance(leaf, Tensor) for leaf in tree_leaves((batch, noise))):
        raise NotTraceable("draw_noise returns something other than tensors")
    return batch, noise


def sample_once(context: UpdateContext) -> Batch:
    replay = context.replay
    return replay.gather(replay.draw(context.batch_size), context.agent.device)


def without_drawing(owner: ReplayBuffer | AgentState, draw: Callable[[], Any]) -> Any:
    """Call a function that draws random numbers, and undo its effect on the streams."""
    streams = owner.smooth if isinstance(owner, AgentState) else owner.streams
    before = [stream_state(stream) for stream in streams]
    found = draw()
    for stream, state in zip(streams, before, strict=True):
        restore_stream(stream, state)
    return found


def make_sampler(context: UpdateContext, batch: Batch, noise: Any) -> Sampler:
    """A function that writes the next batch and noise into this memory."""
    write_batch, write_noise = batch_writer(context, batch), noise_writer(context, noise)

    def sample() -> Any:
        chosen = write_batch()
        write_noise()
        return chosen

    return sample


def batch_writer(context: UpdateContext, batch: Batch) -> Sampler:
    agent, replay, size = context.agent, context.replay, context.batch_size
    if samples_as_td3_does(replay) and batch.state._base is not None:
        rows = whole_rows(batch)

        def gather_rows() -> Any:
            chosen = replay.draw(size)
            replay.gather(chosen, out=rows)
            return chosen

        return gather_rows

    leaves, structure = tree_flatten(batch)

    def gather() -> Any:
        chosen = replay.draw(size)
        copy_leaves(leaves, structure, replay.gather(chosen, agent.device))
        return chosen

    return gather


def whole_rows(batch: Batch) -> Tensor:
    """The rows, (agents · batch, width), that the parts of a batch are views of."""
    rows = batch.state._base
    assert rows is not None
    return rows.view(-1, rows.shape[-1])


def noise_writer(context: UpdateContext, noise: Any) -> Callable[[], None]:
    agent, size = context.agent, context.batch_size
    if not draws_as_td3_does(agent) or agent.own_numbers:
        leaves, structure = tree_flatten(noise)
        return lambda: copy_leaves(leaves, structure, agent.draw_noise(size))
    drawn = np.empty(noise.shape, dtype=np.float32)

    def draw() -> None:
        for stream, own in zip(agent.smooth, drawn, strict=True):
            stream.standard_normal(out=own, dtype=np.float32)
        noise.copy_(torch.from_numpy(drawn))

    return draw


def copy_leaves(targets: list[Tensor], structure: Any, found: Any) -> None:
    leaves, own = tree_flatten(found)
    if own != structure:
        raise RuntimeError("the batch or the noise changed its form during the run")
    for target, leaf in zip(targets, leaves, strict=True):
        target.copy_(leaf)
