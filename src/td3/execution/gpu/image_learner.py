"""On a GPU, from a ring of observations: putting stacks together and learning from them, captured.

As in `captured.py` the update is the agent's own, traced; cuDNN convolves, and Inductor merges the
rest. The host draws what to sample when it is needed, and sends it along; it waits for nothing but
actions.
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
from td3.execution.gpu.learner import TracedLearner, clone_tensors, compile_graph
from td3.execution.gpu.random_upload import copy_async, pinned_zeros
from td3.execution.trace import inputs_of, trace
from td3.training.metrics import Interval
from td3.training.population import Population

SLOTS = 8  # updates that the host may be ahead


class UploadSlot(NamedTuple):
    """What one update needs, on its way."""

    drawn: Tensor
    noise: Tensor
    sent: torch.cuda.Event


class GpuImageLearner(TracedLearner):
    """A learner whose update is a graph, captured with the delayed steps and without."""

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
            UploadSlot(
                pinned_zeros(*drawn, dtype=torch.int64), pinned_zeros(*noise), torch.cuda.Event()
            )
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
        """Draw what the next update samples, and its noise, and send both to the device."""
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % SLOTS
        slot.sent.synchronize()  # long ago, unless the host ran far ahead
        slot.drawn.copy_(torch.from_numpy(self.replay.draw(self.batch)))
        for stream, out in zip(self.agent.smooth, slot.noise.numpy(), strict=True):
            stream.standard_normal(out=out, dtype=out.dtype)
        copy_async(self.drawn, slot.drawn)
        copy_async(self.noise, slot.noise)
        slot.sent.record()

    def capture(self) -> Graph:
        """The update that is due, as a graph. Trying it out changes nothing."""
        agent, sums, sample = self.agent, self.interval.sums, self.sample
        with torch.no_grad():
            example = sample()
        update = trace(
            agent, example, self.noise, self.settings, agent.due(self.policy_freq), self.prepare
        )
        tensors = inputs_of(agent, example, self.noise, self.settings)[: -len(example) - 1]
        function: Callable[..., Any] = compile_graph(update) if self.compiled else update

        def sample_and_update(tensors: list[Tensor], sums: Tensor) -> None:
            seen = function([*tensors, *sample(), self.noise])
            sums[:, : len(seen)] += torch.stack(seen, dim=1)

        trial = clone_tensors((tensors, sums))
        with torch.no_grad():
            return Graph(
                lambda: sample_and_update(tensors, sums),
                warm_up=lambda: sample_and_update(*trial),
            )

    @functools.cached_property
    def sample(self) -> Callable[[], Batch]:
        """Puts the batch that was drawn together, images by a kernel of ours.

        Apart from the update, whose convolutions want it in memory anyway.
        """
        replay = copy.copy(self.replay)
        if self.fused:
            from td3.execution.gpu.fused import fuse_pictures

            fuse_pictures(replay)
        if not self.compiled:
            return lambda: replay.collected(self.drawn)
        collected = compile_graph(make_fx(lambda drawn: list(replay.collected(drawn)))(self.drawn))
        return lambda: Batch(*collected(self.drawn))

    def sampling_alone(self) -> Callable[[], None]:
        """Puts another batch together each time, to measure how long the device takes for that."""
        self.send()
        oldest, sizes = (
            torch.from_numpy(counts).to(self.agent.device)[:, None]
            for counts in (self.replay.oldest, self.replay.sizes)
        )

        def sample() -> None:
            numbers = self.drawn[..., 0]
            numbers.copy_((numbers - oldest + self.batch) % sizes + oldest)
            self.sample()

        with torch.no_grad():
            graph = Graph(sample, warm_up=sample)
        return lambda: graph.replay()  # and keep what it works on

    def close(self) -> None:
        self.graphs.clear()
        self.__dict__.pop("sample", None)  # it refers to the ring, and to this
