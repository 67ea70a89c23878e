"""Small agents, replay buffers and batches for the tests of the update."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch, ReplayBuffer, row_width
from td3.algorithm.transitions import Transitions

STATE, ACTION, BATCH = 5, 3, 16
HIDDEN = (16, 12)


def make_agent(seed: int | Iterable[int] = 0, **changes: object) -> TD3:
    return TD3(STATE, ACTION, **{"hidden_sizes": HIDDEN, "seed": seed, **changes})  # type: ignore[arg-type]


def make_buffer(seeds: list[int], count: int = 200) -> ReplayBuffer:
    """The data of agent k depend only on seed k."""
    buffer = ReplayBuffer(1000, seed=seeds)
    for agent, seed in enumerate(seeds):
        rows = np.random.default_rng(seed).standard_normal((count, row_width(STATE, ACTION)))
        rows[:, -1] = rows[:, -1] > 1
        owners, begins = np.full(count, agent), np.zeros(count, dtype=np.bool_)
        steps = Transitions(owners, owners, rows.astype(np.float32), begins)
        buffer.store(steps, STATE, ACTION)
    return buffer


def make_batch(agents: int = 1, seed: int = 0, batch_size: int = BATCH) -> tuple[Batch, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    widths = (STATE, STATE, ACTION, 1, 1)
    parts = [torch.randn(agents, batch_size, width, generator=generator) for width in widths]
    parts[4] = (parts[4] > 1).float()
    return Batch(*parts), torch.randn(agents, batch_size, ACTION, generator=generator)


def copied(agent: TD3) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in agent.tensors().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
