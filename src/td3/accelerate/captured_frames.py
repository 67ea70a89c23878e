"""On a GPU, from a ring of observations: putting stacks together and learning from them, captured.

Convolutions take most of the time here, so the update is captured as PyTorch does it. The host
draws what to sample when it is needed, and sends it along; it waits for nothing but actions.
"""

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from td3.accelerate.graph import Graph
from td3.accelerate.sending import pinned
from td3.agent import TD3
from td3.frames import FrameReplay
from td3.learner import Learner
from td3.metrics import Interval
from td3.population import Population

SLOTS = 8  # updates that the host may be ahead


class Slot(NamedTuple):
    """What one update needs, on its way."""

    drawn: Tensor
    noise: Tensor
    sent: torch.cuda.Event


class CapturedFrames(Learner):
    """A learner whose update is a graph, captured with the delayed steps and without."""

    replay: FrameReplay

    def __init__(
        self, agent: TD3, replay: FrameReplay, interval: Interval, population: Population
    ) -> None:
        super().__init__(agent, replay, interval, population)
        numbers = population.hyperparameters
        self.batch, self.policy_freq = numbers.pop("batch_size"), numbers["policy_freq"]
        self.settings: dict[str, Any] = numbers
        drawn, noise = (agent.agents, self.batch, 5), (agent.agents, self.batch, agent.action_dim)
        self.drawn = torch.zeros(drawn, dtype=torch.int64, device=agent.device)
        self.noise = torch.zeros(noise, dtype=agent.dtype, device=agent.device)
        self.slots = [
            Slot(pinned(*drawn, dtype=torch.int64), pinned(*noise), torch.cuda.Event())
            for _ in range(SLOTS)
        ]
        self.turn = 0
        self.graphs: dict[bool, Graph] = {}

    def learn(self, updates: int) -> None:
        agent, counts = self.agent, self.interval.counts
        for _ in range(updates):
            self.send()
            delayed = agent.due(self.policy_freq)
            if delayed not in self.graphs:
                self.graphs[delayed] = self.capture()
            self.graphs[delayed].replay()
            agent.updates += 1
            agent.tidy()
            counts[:, : 3 if delayed else 2] += 1

    def send(self) -> None:
        """Draw what the next update samples, and its noise, and send both to the device."""
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % SLOTS
        slot.sent.synchronize()  # long ago, unless the host ran far ahead
        slot.drawn.copy_(torch.from_numpy(self.replay.draw(self.batch)))
        for stream, out in zip(self.agent.smooth, slot.noise.numpy(), strict=True):
            stream.standard_normal(out=out, dtype=out.dtype)
        self.drawn.copy_(slot.drawn, non_blocking=True)
        self.noise.copy_(slot.noise, non_blocking=True)
        slot.sent.record()

    def capture(self) -> Graph:
        """The update that is due, as a graph. Trying it out changes nothing."""
        agent, sums = self.agent, self.interval.sums
        due, before = agent.updates.copy(), sums.clone()
        same = copy.copy(agent)  # on the same memory, but counts its updates by itself
        learnt = {name: tensor.clone() for name, tensor in agent.tensors().items()}

        @torch.enable_grad()
        def update() -> None:
            same.updates = due.copy()
            seen = same.update(self.replay.collected(self.drawn), self.noise, **self.settings)
            numbers = [number for number in seen if number is not None]
            sums[:, : len(numbers)] += torch.stack(numbers, dim=1)

        graph = Graph(update, warm_up=update)
        agent.restore(learnt)
        sums.copy_(before)
        return graph

    def close(self) -> None:
        self.graphs.clear()
