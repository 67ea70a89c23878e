"""Learning from frames on a GPU: sampling and the update, captured as CUDA graphs.

As in `learner.py`, the update is traced from the agent; cuDNN convolves, and Inductor merges the
other operations. The host draws the indices of each batch and uploads them. It waits for the
device only when it needs actions.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from td3.algorithm.agent import TD3
from td3.algorithm.images.frame_replay import FrameReplay
from td3.algorithm.replay import Batch
from td3.execution.gpu.graph import Graph
from td3.execution.gpu.learner import Traced, cloned, inductor
from td3.execution.gpu.random_upload import across, pinned
from td3.execution.trace import inputs_of, trace
from td3.training.metrics import Interval
from td3.training.population import Population

SLOTS = 8  # how many updates the host may be ahead of the device


class Slot(NamedTuple):
    """Pinned memory for the random numbers of one update."""

    drawn: Tensor
    noise: Tensor
    sent: torch.cuda.Event


class CapturedFrames(Traced):
    """A learner whose update is one of two graphs, with and without the delayed steps."""

    replay: FrameReplay

    def __init__(
        self,
        agent: TD3,
        replay: FrameReplay,
        interval: Interval,
        population: Population,
        **how: bool,
    ) -> None:
        super().__init__(agent, replay, interval, population, **how)
        numbers = population.hyperparameters
        self.batch, self.policy_freq = numbers.pop("batch_size"), numbers.pop("policy_freq")
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
            agent.flush_denormals()
            counts[:, : 3 if delayed else 2] += 1

    def send(self) -> None:
        """Draw the batch and the noise of the next update, and upload both."""
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % SLOTS
        slot.sent.synchronize()  # waits only if the host is far ahead
        slot.drawn.copy_(torch.from_numpy(self.replay.draw(self.batch)))
        for stream, out in zip(self.agent.smooth, slot.noise.numpy(), strict=True):
            stream.standard_normal(out=out, dtype=out.dtype)
        across(self.drawn, slot.drawn)
        across(self.noise, slot.noise)
        slot.sent.record()

    def capture(self) -> Graph:
        """The update that is due, as a graph. The warm-up works on copies."""
        agent, sums, sample = self.agent, self.interval.sums, self.sample
        with torch.no_grad():
            example = sample()
        update = trace(
            agent, example, self.noise, self.settings, agent.due(self.policy_freq), self.prepare
        )
        tensors = inputs_of(agent, example, self.noise, self.settings)[: -len(example) - 1]
        function: Callable[..., Any] = inductor(update) if self.compiled else update

        def sample_and_update(tensors: list[Tensor], sums: Tensor) -> None:
            seen = function([*tensors, *sample(), self.noise])
            sums[:, : len(seen)] += torch.stack(seen, dim=1)

        trial = cloned((tensors, sums))
        with torch.no_grad():
            return Graph(
                lambda: sample_and_update(tensors, sums),
                warm_up=lambda: sample_and_update(*trial),
            )

    @functools.cached_property
    def sample(self) -> Callable[[], Batch]:
        """Rebuilds the drawn batch, on the fused path with our kernel for images.

        Not part of the traced update: its convolutions need the batch in memory anyway.
        """
        replay = copy.copy(self.replay)
        if self.fused:
            from td3.execution.gpu.fused import fuse_image_gather

            fuse_image_gather(replay)
        if not self.compiled:
            return lambda: replay.assemble(self.drawn)
        assemble = inductor(make_fx(lambda drawn: list(replay.assemble(drawn)))(self.drawn))
        return lambda: Batch(*assemble(self.drawn))

    def sampling_alone(self) -> Callable[[], None]:
        """A function that samples another batch at each call, for measuring."""
        self.send()
        oldest, sizes = (
            torch.from_numpy(counts).to(self.agent.device)[:, None]
            for counts in (self.replay.index.oldest, self.replay.sizes)
        )

        def sample() -> None:
            numbers = self.drawn[..., 0]
            numbers.copy_((numbers - oldest + self.batch) % sizes + oldest)
            self.sample()

        with torch.no_grad():
            graph = Graph(sample, warm_up=sample)
        return lambda: graph.replay()  # the closure keeps its tensors alive

    def close(self) -> None:
        self.graphs.clear()
        self.__dict__.pop("sample", None)  # it refers to the replay buffer, and to this object
