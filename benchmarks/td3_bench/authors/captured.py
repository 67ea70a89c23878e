"""The authors' agent and replay buffer, made fast on a GPU without another line of arithmetic.

Their `train` and their actor run as CUDA graphs that are captured from their own code. The replay
buffer is a float32 table on the device; theirs converts each batch to float32 instead. The draws of
the batches are the same.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

WARM_UP = 4  # updates before capturing; they create the state of Adam, and are undone


class TableBuffer:
    """Same interface as the authors' `ReplayBuffer`, but the data stay on the device."""

    def __init__(
        self, state_dim: int, action_dim: int, size: int, batch_size: int, device: torch.device
    ) -> None:
        self.widths = [state_dim, action_dim, state_dim, 1, 1]
        self.table = torch.zeros(size, sum(self.widths), device=device)
        self.row = torch.zeros(sum(self.widths))
        self.index = torch.zeros(batch_size, dtype=torch.int64, device=device)
        self.dtype = torch.float32
        self.ptr, self.size = 0, 0

    def add(self, state: Any, action: Any, next_state: Any, reward: float, done: float) -> None:
        self.row.numpy()[:] = np.concatenate([state, action, next_state, [reward, 1.0 - done]])
        self.table[self.ptr].copy_(self.row)
        self.ptr = (self.ptr + 1) % len(self.table)
        self.size = min(self.size + 1, len(self.table))

    def draw(self) -> None:
        """Choose the next batch, with the same call as the authors' `sample`."""
        drawn = np.random.randint(0, self.size, size=len(self.index))  # noqa: NPY002
        self.index.copy_(torch.from_numpy(drawn))

    def sample(self, batch_size: int) -> tuple[Tensor, ...]:
        rows = self.table[self.index].to(self.dtype)
        return torch.split(rows, self.widths, dim=1)


class CapturedTD3:
    """The authors' agent with `train` and `select_action` as CUDA graphs."""

    def __init__(self, agent: Any, buffer: TableBuffer, state_dim: int) -> None:
        self.agent, self.buffer = agent, buffer
        make_capturable(agent)
        self.state = torch.zeros(1, state_dim, device=buffer.table.device, dtype=buffer.dtype)
        self.updates = self.capture_updates()
        self.acting = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.acting):
            self.action = agent.actor(self.state)

    def capture_updates(self) -> dict[int, torch.cuda.CUDAGraph]:
        """Capture one graph per phase of the policy delay."""
        agent, batch = self.agent, len(self.buffer.index)
        before = [tensor.clone() for tensor in weights(agent)]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                agent.train(self.buffer, batch)
        torch.cuda.current_stream().wait_stream(stream)
        graphs = {}
        for phase in range(agent.policy_freq):
            agent.total_it = phase - 1 + agent.policy_freq  # `train` counts before it decides
            graphs[phase] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[phase]):
                agent.train(self.buffer, batch)
        for tensor, old in zip(weights(agent), before, strict=True):
            tensor.copy_(old)
        for tensor in adam_state(agent):
            tensor.zero_()
        agent.total_it = 0
        return graphs

    def train(self, buffer: TableBuffer, batch_size: int) -> None:
        self.agent.total_it += 1
        buffer.draw()
        self.updates[self.agent.total_it % self.agent.policy_freq].replay()

    def select_action(self, state: NDArray[Any]) -> NDArray[Any]:
        self.state.copy_(torch.from_numpy(state.reshape(1, -1)))
        self.acting.replay()
        return self.action.cpu().numpy().flatten()  # type: ignore[no-any-return]


def weights(agent: Any) -> list[Tensor]:
    networks = agent.actor, agent.critic, agent.actor_target, agent.critic_target
    return [tensor.data for network in networks for tensor in network.parameters()]


def adam_state(agent: Any) -> list[Tensor]:
    optimizers = agent.actor_optimizer, agent.critic_optimizer
    states = [state for optimizer in optimizers for state in optimizer.state.values()]
    return [tensor for state in states for tensor in state.values()]


def make_capturable(agent: Any) -> None:
    """Let Adam count its steps on the device, which CUDA graphs need."""
    for optimizer in (agent.actor_optimizer, agent.critic_optimizer):
        for group in optimizer.param_groups:
            group["capturable"] = True
