"""Acting, storing and updating on a GPU, as CUDA graphs that the host launches without waiting.

The captured update is the agent's own, traced (`trace.py`). Fused kernels compute its networks
where they fit (`fused.py`); Inductor merges the other operations. In each step the host waits once,
for the actions (`transfers.py`). The actions wait for the actor only, and updates are launched
after the environments have received them. The replay buffer is on the device, and random numbers
arrive in blocks (`random_upload.py`).
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch._inductor.config
from numpy.typing import NDArray
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch, ReplayBuffer
from td3.algorithm.replay_base import Replay
from td3.algorithm.trained import Trained
from td3.algorithm.transitions import Transitions
from td3.execution.context import UpdateContext
from td3.execution.gpu.graph import Graph
from td3.execution.gpu.random_upload import AHEAD, BatchUpload, RandomUpload, current_numbers
from td3.execution.gpu.transfers import GpuActing, TransitionUpload
from td3.execution.trace import Settings, count_outputs, join_inputs, trace, update_inputs
from td3.seeding import Stream
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population


class TracedLearner(Learner):
    """A learner on a GPU with a traced update: `compiled` by Inductor, with `fused` kernels."""

    def __init__(
        self,
        agent: TD3,
        replay: Replay,
        interval: Interval,
        population: Population,
        compiled: bool = True,
        fused: bool = True,
    ) -> None:
        super().__init__(agent, replay, interval, population)
        self.compiled, self.fused = compiled, fused

    def prepare(self, agent: TD3) -> None:
        """Replace methods of the copied agent by fused kernels before tracing."""
        if self.fused:
            from td3.execution.gpu.fused import (
                fuse,  # needs Triton, which only PyTorch for CUDA includes
            )

            fuse(agent)


class GpuLearner(TracedLearner):
    """A learner that acts, stores and updates by graphs that are captured once."""

    replay: ReplayBuffer

    def __init__(
        self,
        agent: TD3,
        replay: ReplayBuffer,
        interval: Interval,
        population: Population,
        **how: bool,
    ) -> None:
        super().__init__(agent, replay, interval, population, **how)
        self.updates_of_all: GpuUpdates | None = None
        self.updates_of_member: dict[int, GpuUpdates] = {}
        self.acting: GpuActing | None = None
        self.transition_upload: TransitionUpload | None = None
        self.actor_moved = torch.cuda.Event()
        self.expected: NDArray[np.float32] | None = None
        """The states for which the device computes actions already."""
        self.sizes = torch.ones(agent.agents, 1, dtype=torch.int64, device=agent.device)
        """How many transitions of each replay buffer can be sampled; uploaded with transitions."""
        self.sizes_sent = False

    @property
    def ring_on_device(self) -> bool:
        """Whether the replay buffer is on the agent's device; otherwise it is on the host."""
        return self.replay.device == self.agent.device

    def prefetch_actions(self, states: NDArray[np.float32]) -> None:
        if self.acting and self.acting.environments == len(states):
            self.acting.begin(states)
            self.expected = states

    def act(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.acting is None or self.acting.environments != len(states):
            self.acting = GpuActing(self.acting_copy(), len(states), self.actor_moved)
        if states is not self.expected:
            self.acting.begin(states)
            self.expected = None
        return self.acting.finish()

    def store(self, transitions: Transitions) -> None:
        self.sizes_sent = self.ring_on_device and self.is_whole_step(transitions.owners)
        if not self.sizes_sent:
            super().store(transitions)
            return
        rows = transitions.rows
        if self.transition_upload is None or self.transition_upload.environments != len(rows):
            self.transition_upload = TransitionUpload(
                self.agent, self.replay, self.sizes, len(rows)
            )
        self.transition_upload(rows)

    def is_whole_step(self, owners: NDArray[np.int64]) -> bool:
        """Whether every environment has a transition; an environment that only reset has none."""
        if known := self.acting or self.transition_upload:
            return len(owners) == known.environments
        counts = np.bincount(owners, minlength=self.agent.agents)
        return bool(counts[0] and (counts == counts[0]).all())

    def learn(self, updates: int) -> None:
        self.before_learning()
        if self.updates_of_all is None:
            context = UpdateContext.for_all(self)
            self.updates_of_all = GpuUpdates(self, context, self.sizes)
        self.updates_of_all(updates)

    def learn_member(self, agent: int, updates: int) -> None:
        self.before_learning()
        if agent not in self.updates_of_member:
            context, sizes = UpdateContext.for_member(self, agent), self.sizes[agent : agent + 1]
            self.updates_of_member[agent] = GpuUpdates(self, context, sizes)
        self.updates_of_member[agent](updates)

    def before_learning(self) -> None:
        self.expected = None  # learning may change the actor
        if self.ring_on_device and not self.sizes_sent:
            self.sizes.copy_(torch.from_numpy(self.replay.sizes[:, None]))
            self.sizes_sent = True

    def acting_copy(self) -> TD3:
        """A copy of the agent on the same memory that acts with fused kernels."""
        copied = copy.copy(self.agent)
        copied.trained = {
            name: Trained(copy.copy(network.online), copy.copy(network.target), network.optimizer)
            for name, network in self.agent.trained.items()
        }
        if self.fused:
            from td3.execution.gpu.fused import fuse_networks

            fuse_networks(copied)
        return copied

    def streams(self) -> dict[str, list[Stream]]:
        for updates in self.all_updates:
            updates.random.rewind()
        return super().streams()

    def close(self) -> None:
        for updates in self.all_updates:
            updates.random.blocks.close()
            updates.graphs.clear()  # break the reference cycle
        if self.acting:
            self.acting.done.synchronize()
            del self.acting.graph
        self.acting = self.transition_upload = self.updates_of_all = None
        self.updates_of_member.clear()

    @property
    def all_updates(self) -> list["GpuUpdates"]:
        together = [self.updates_of_all] if self.updates_of_all else []
        return [*self.updates_of_member.values(), *together]


class GpuUpdates:
    """Steps 4 to 15 as two graphs: with the delayed steps and without."""

    def __init__(self, learner: GpuLearner, context: UpdateContext, sizes: Tensor) -> None:
        """Capture both graphs.

        Args:
            learner: Says how to compile; not kept, because it refers to this object.
            context: What to update.
            sizes: How many transitions of each replay buffer can be sampled, on the device.
        """
        self.agent, self.replay, self.interval = context.agent, context.replay, context.interval
        self.policy_freq, self.batch = context.policy_freq, context.batch_size
        self.fused, self.actor_moved = learner.fused, learner.actor_moved
        agent, replay = context.agent, context.replay
        self.random = RandomUpload(agent, replay, self.batch)
        self.given = {**self.random.given, "sizes": sizes}
        assert replay.rows is not None
        self.picked = torch.zeros(
            agent.agents * self.batch, replay.rows.shape[-1], dtype=agent.dtype, device=agent.device
        )
        self.offsets = torch.arange(agent.agents, device=agent.device)[:, None] * replay.capacity
        on_host = replay.device != agent.device
        self.batch_upload = BatchUpload(replay, self.picked) if on_host else None
        self.measured: dict[bool, int] = {}
        """How many diagnostics each graph adds up."""
        self.graphs = {
            delayed: self.capture(learner, context.settings, delayed) for delayed in (True, False)
        }

    def split(self, picked: Tensor) -> Batch:
        """Sampled rows as a batch."""
        return self.replay.split(picked.view(self.agent.agents, self.batch, -1))

    def capture(self, learner: TracedLearner, settings: Settings, delayed: bool) -> Graph:
        split = self.split
        given = (self.agent, split(self.picked), current_numbers(self.given, "normal"), settings)
        update = trace(*given, delayed, learner.prepare)
        self.measured[delayed] = count_outputs(update)

        def update_once(
            fixed: list[Tensor], picked: Tensor, sums: Tensor, given: dict[str, Tensor]
        ) -> None:
            seen = update(join_inputs(fixed, split(picked), current_numbers(given, "normal")))
            sums[:, : len(seen)] += torch.stack(seen, dim=1)
            given["position"].add_(1).remainder_(2 * AHEAD)

        fixed = update_inputs(*given).fixed()
        arguments = (fixed, self.picked, self.interval.sums, self.given)
        trial = clone_tensors(arguments)
        graph = make_fx(update_once)(*trial)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        function: Callable[..., Any] = compile_graph(graph) if learner.compiled else graph

        def sample_and_update() -> None:
            # Sampling is not compiled with the update: Inductor would merge the gather into every
            # operation that reads the batch.
            self.sample()
            function(*arguments)

        def try_out() -> None:
            self.sample()
            function(*trial)

        with torch.no_grad():
            return Graph(sample_and_update, warm_up=try_out)

    def sample(self) -> None:
        """Gather the batch of this update from the replay buffer on the device."""
        if self.batch_upload:
            return
        assert self.replay.rows is not None
        given = self.given
        if self.fused:
            from td3.execution.gpu.fused import pick

            pick(self.replay.rows, given, self.picked)
            return
        places = (current_numbers(given, "uniform") * given["sizes"]).long() + self.offsets
        rows = self.replay.rows.flatten(0, 1)
        torch.index_select(rows, 0, places.flatten(), out=self.picked)

    def __call__(self, updates: int) -> None:
        agent, counts = self.agent, self.interval.counts
        for _ in range(updates):
            self.random.advance()
            if self.batch_upload:
                self.batch_upload(self.random.current_uniform)
            delayed = agent.due(self.policy_freq)
            self.graphs[delayed].replay()
            if delayed:
                self.actor_moved.record()
            agent.updates += 1
            agent.flush_denormals()
            counts[:, : self.measured[delayed]] += 1
            self.random.send_ahead()


def clone_tensors(tensors: Any) -> Any:
    """Copies of all tensors, so that a trial run changes nothing."""
    return torch.utils._pytree.tree_map(torch.clone, tensors)


def compile_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let Inductor merge element-wise operations, with the same choices in every run."""
    known = hasattr(torch._inductor.config, "deterministic")
    options: dict[str, Any] = {"deterministic": True} if known else {}
    return torch.compile(function, fullgraph=True, dynamic=False, options=options)
