"""Updates from images on a GPU: sampling stacks of frames and learning from them, as CUDA graphs.

As in `learner.py`, the update is the agent's own, traced. cuDNN computes the convolutions, and
Inductor merges the other operations. The host draws the indices and the noise of each update and
uploads them. It waits only for actions.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from td3.algorithm.agent import TD3
from td3.algorithm.images.frame_replay import FrameReplay
from td3.algorithm.replay import Batch
from td3.execution.checked import is_overridden
from td3.execution.gpu.graph import Graph
from td3.execution.gpu.learner import TracedLearner, clone_tensors, compile_graph
from td3.execution.gpu.random_upload import copy_async, pinned_zeros
from td3.execution.guard import NotTraceable, traceable
from td3.execution.inputs import LearningRates
from td3.execution.trace import join_inputs, trace, update_inputs
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population

SLOTS = 8  # updates that the host may be ahead of the device


class UploadSlot(NamedTuple):
    """Indices and noise of one update, in pinned memory until they are uploaded."""

    drawn: Tensor
    noise: Tensor
    sent: torch.cuda.Event


class GpuImageLearner(TracedLearner):
    """A learner with two graphs of the update: with the delayed steps and without."""

    replay: FrameReplay

    def __init__(
        self,
        agent: TD3,
        replay: FrameReplay,
        interval: Interval,
        population: Population,
        **options: Any,
    ) -> None:
        self.graphs: dict[bool, Graph] = {}
        super().__init__(agent, replay, interval, population, **options)
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
        self.losses: dict[bool, int] = {}
        """How many diagnostics each graph adds up."""

    def act_fast(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        return Learner.act(self, states)

    def learn_fast(self, updates: int, member: int | None) -> None:
        if member is not None:  # updates after episodes are long enough without graphs
            self.learn_eagerly(updates, member)
            return
        if is_overridden(self.agent, "draw_noise") or self.agent.own_numbers:
            raise NotTraceable("it draws numbers of its own, which graphs of images do not support")
        agent, counts = self.agent, self.interval.counts
        for _ in range(updates):
            delayed = agent.due(self.policy_freq)
            if delayed not in self.graphs:  # before numbers are drawn, for plain PyTorch draws them
                with traceable():
                    self.graphs[delayed] = self.capture(delayed)
            self.send()
            self.rates.refresh()
            self.graphs[delayed].replay()
            agent.updates += 1
            agent.flush_denormals()
            counts[:, : self.losses[delayed]] += 1

    def send(self) -> None:
        """Draw the indices and the noise of the next update, and upload both."""
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % SLOTS
        slot.sent.synchronize()  # no wait, unless the host is SLOTS updates ahead
        slot.drawn.copy_(torch.from_numpy(self.replay.draw(self.batch)))
        for stream, out in zip(self.agent.smooth, slot.noise.numpy(), strict=True):
            stream.standard_normal(out=out, dtype=out.dtype)
        copy_async(self.drawn, slot.drawn)
        copy_async(self.noise, slot.noise)
        slot.sent.record()

    def capture(self, delayed: bool) -> Graph:
        """The update as a graph. The trial runs before capturing work on copies."""
        agent, sums, sample = self.agent, self.interval.sums, self.sample
        with torch.no_grad():
            given = (agent, sample(), self.noise, self.settings)
        traced = trace(*given, delayed, self.prepare)
        self.losses[delayed] = losses = traced.losses
        function: Callable[..., Any] = (
            compile_graph(traced.graph) if self.compiled else traced.graph
        )

        def sample_and_update(fixed: list[Tensor], sums: Tensor) -> None:
            seen = function(join_inputs(fixed, sample(), self.noise))
            sums[:, :losses] += torch.stack(seen[:losses], dim=1)

        inputs = update_inputs(*given)
        self.rates, fixed = LearningRates(agent, inputs.rates, None), inputs.fixed()
        trial = clone_tensors((fixed, sums))
        with torch.no_grad():
            return Graph(
                lambda: sample_and_update(fixed, sums), warm_up=lambda: sample_and_update(*trial)
            )

    @functools.cached_property
    def sample(self) -> Callable[[], Batch]:
        """A function that assembles the drawn batch; a fused kernel gathers the images.

        It is not compiled with the update, whose convolutions need the batch in memory anyway.
        """
        replay = copy.copy(self.replay)
        if self.fused:
            from td3.execution.gpu.fused import fuse_image_gather

            fuse_image_gather(replay)
        if not self.compiled:
            return lambda: replay.assemble(self.drawn)
        assemble = compile_graph(make_fx(lambda drawn: list(replay.assemble(drawn)))(self.drawn))
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
        return lambda: graph.replay()  # a lambda, so that the graph and its tensors stay alive

    def forget_traces(self) -> None:
        self.graphs.clear()

    def close(self) -> None:
        self.forget_traces()
        self.__dict__.pop("sample", None)  # it refers to the replay buffer and to this learner
