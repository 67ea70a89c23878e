"""Acting, storing and updating on a GPU, as CUDA graphs that the host launches without waiting.

The captured update is the agent's own, traced (`trace.py`). Fused kernels compute its networks
where they fit (`fused.py`); Inductor merges the other operations. In each step the host waits once,
for the actions (`transfers.py`). The actions wait for the actor only, and updates are launched
after the environments have received them. The replay buffer is on the device, and random numbers
arrive in blocks (`random_upload.py`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch._inductor.config
from numpy.typing import NDArray
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.algorithm.tensors import map_tensors
from td3.algorithm.transitions import Transitions
from td3.execution.checked import CheckedLearner
from td3.execution.context import UpdateContext
from td3.execution.gpu.graph import Graph
from td3.execution.gpu.inputs import make_inputs
from td3.execution.gpu.transfers import GpuActing, TransitionUpload
from td3.execution.guard import traceable
from td3.execution.inputs import LearningRates
from td3.execution.trace import (
    Settings,
    TracedUpdate,
    UpdateInputs,
    join_inputs,
    trace,
    update_inputs,
)
from td3.seeding import Stream
from td3.training.metrics import Interval
from td3.training.population import Population


class TracedLearner(CheckedLearner):
    """A learner on a GPU with a traced update: `compiled` by Inductor, with `fused` kernels."""

    mode = "CUDA graph"

    def __init__(
        self, *parts: Any, compiled: bool = True, fused: bool = True, **options: Any
    ) -> None:
        """`parts` and `options`: the arguments of `CheckedLearner`."""
        self.compiled, self.fused = compiled, fused
        tf32 = fused or torch.backends.cuda.matmul.allow_tf32
        self.precision = "tf32" if tf32 else "float32"
        super().__init__(*parts, **options)

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
        **options: Any,
    ) -> None:
        self.updates: dict[int | None, GpuUpdates] = {}
        """The graphs of each member, and under None those of all members together."""
        self.acting: GpuActing | None = None
        self.transition_upload: TransitionUpload | None = None
        self.actor_moved = torch.cuda.Event()
        self.expected: NDArray[np.float32] | None = None
        """The states for which the device computes actions already."""
        self.sizes = torch.ones(agent.agents, 1, dtype=torch.int64, device=agent.device)
        """How many transitions of each replay buffer can be sampled; uploaded with transitions."""
        self.sizes_sent = False
        super().__init__(agent, replay, interval, population, **options)

    @property
    def ring_on_device(self) -> bool:
        """Whether the replay buffer is on the agent's device; otherwise it is on the host."""
        return self.replay.device == self.agent.device

    def prefetch_actions(self, states: NDArray[np.float32]) -> None:
        if self.acting and self.acting.environments == len(states) and not self.acts_eagerly:
            self.acting.begin(states)
            self.expected = states

    def act_fast(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.acting is None or self.acting.environments != len(states):
            with traceable():
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

    def learn_fast(self, updates: int, member: int | None) -> None:
        if member not in self.updates:
            context = UpdateContext.of(self, member)
            rows = slice(None) if member is None else slice(member, member + 1)
            with traceable():
                self.updates[member] = GpuUpdates(self, context, self.sizes[rows])
        self.updates[member](updates)

    def learn_checked(self, updates: int, member: int | None) -> None:
        self.before_learning()
        super().learn_checked(updates, member)
        if self.learns_eagerly:
            self.actor_moved.record()

    def before_learning(self) -> None:
        self.expected = None  # learning may change the actor
        if self.ring_on_device and not self.sizes_sent:
            self.sizes.copy_(torch.from_numpy(self.replay.sizes[:, None]))
            self.sizes_sent = True

    def agents_changed(self) -> None:
        self.expected = None
        self.actor_moved.record()

    def acting_copy(self) -> TD3:
        """A copy of the agent on the same memory that acts with fused kernels."""
        copied = map_tensors(self.agent, lambda path, tensor: tensor)
        if self.fused:
            from td3.execution.gpu.fused import fuse_networks

            fuse_networks(copied)
        return copied

    def streams(self) -> dict[str, list[Stream]]:
        for updates in self.updates.values():
            updates.inputs.rewind()
        return super().streams()

    def forget_traces(self) -> None:
        for updates in self.updates.values():
            updates.close()
        if self.acting:
            self.acting.done.synchronize()
            del self.acting.graph
        self.acting, self.expected = None, None
        self.updates.clear()

    def close(self) -> None:
        self.forget_traces()
        self.transition_upload = None


class GpuUpdates:
    """Steps 4 to 15 as two graphs: with the delayed steps and without."""

    def __init__(self, learner: GpuLearner, context: UpdateContext, sizes: Tensor) -> None:
        """Capture both graphs.

        Args:
            learner: Its settings for the compilation; not kept, because it refers to this object.
            context: What to update.
            sizes: How many transitions of each replay buffer can be sampled, on the device.
        """
        self.agent, self.interval = context.agent, context.interval
        self.policy_freq, self.actor_moved = context.policy_freq, learner.actor_moved
        self.inputs = make_inputs(context, sizes, learner.fused)
        self.traced: dict[bool, TracedUpdate] = {}
        self.priorities: dict[bool, list[Tensor]] = {}
        """Where each graph puts the priorities of its batch, if there are any."""
        batch, noise = self.inputs.batch_and_noise()
        example = update_inputs(self.agent, batch, noise, context.settings)
        self.rates = LearningRates(context.whole or context.agent, example.rates, context.member)
        self.graphs = {
            delayed: self.capture(learner, example, context.settings, delayed)
            for delayed in (True, False)
        }

    def capture(
        self, learner: TracedLearner, example: UpdateInputs, settings: Settings, delayed: bool
    ) -> Graph:
        inputs, priorities = self.inputs, self.priorities
        traced = self.traced[delayed] = trace(
            self.agent, example.batch, example.noise, settings, delayed, learner.prepare
        )

        def update_once(
            fixed: list[Tensor], sums: Tensor, given: dict[str, Tensor]
        ) -> list[Tensor]:
            batch, noise = inputs.current(given)
            found = traced.graph(join_inputs(fixed, batch, noise))
            sums[:, : traced.losses] += torch.stack(found[: traced.losses], dim=1)
            inputs.step(given)
            return list(found[traced.losses :])

        arguments = (example.fixed(), self.interval.sums, inputs.given)
        trial = clone_tensors(arguments)
        graph = make_fx(update_once)(*trial)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        function: Callable[..., Any] = compile_graph(graph) if learner.compiled else graph

        def sample_and_update() -> None:
            # Sampling is not compiled with the update: Inductor would merge the gather into every
            # operation that reads the batch.
            inputs.sample()
            priorities[delayed] = function(*arguments)
            inputs.use_priorities(priorities[delayed])

        def try_out() -> None:
            inputs.sample()
            function(*trial)

        with torch.no_grad():
            return Graph(sample_and_update, warm_up=try_out)

    def __call__(self, updates: int) -> None:
        agent, counts = self.agent, self.interval.counts
        self.rates.refresh()
        for _ in range(updates):
            self.inputs.advance()
            delayed = agent.due(self.policy_freq)
            self.graphs[delayed].replay()
            if delayed:
                self.actor_moved.record()
            agent.updates += 1
            agent.flush_denormals()
            counts[:, : self.traced[delayed].losses] += 1
            self.inputs.finish(self.priorities.get(delayed, []))

    def close(self) -> None:
        self.inputs.close()
        self.graphs.clear()  # break the reference cycle


def clone_tensors(tensors: Any) -> Any:
    """Copies of all tensors, so that a trial run changes nothing."""
    return torch.utils._pytree.tree_map(torch.clone, tensors)


def compile_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let Inductor merge element-wise operations, with the same choices in every run."""
    known = hasattr(torch._inductor.config, "deterministic")
    options: dict[str, Any] = {"deterministic": True} if known else {}
    return torch.compile(function, fullgraph=True, dynamic=False, options=options)
