"""On a GPU: acting, storing and updating as CUDA graphs, launched without waiting for any.

The update that is captured is the agent's own, traced (`trace.py`), its networks computed by fused
kernels where those fit (`fused.py`) and the rest merged by Inductor. In a step the host waits once,
for the actions (`traffic.py`), and they wait for the actor alone; updates are launched when the
environments have those. The ring lives on the device, and random numbers arrive in blocks
(`sending.py`).
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
from td3.algorithm.transitions import Transitions
from td3.execution.gpu.graph import Graph
from td3.execution.gpu.random_upload import AHEAD, Fetching, Sending, at_hand
from td3.execution.gpu.transfers import Acting, Storing
from td3.execution.trace import Prepare, inputs_of, trace
from td3.seeding import Stream
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population


class Traced(Learner):
    """A learner on a GPU whose update is traced; Inductor may merge it, our kernels compute it."""

    def __init__(
        self,
        agent: TD3,
        replay: ReplayBuffer,
        interval: Interval,
        population: Population,
        compiled: bool = True,
        fused: bool = True,
    ) -> None:
        super().__init__(agent, replay, interval, population)
        self.compiled, self.fused = compiled, fused

    def prepare(self, agent: TD3) -> None:
        if self.fused:
            from td3.execution.gpu.fused import fuse  # Triton comes with PyTorch for CUDA only

            fuse(agent)


class Captured(Traced):
    """A learner whose every action is a graph that was captured once."""

    def __init__(
        self,
        agent: TD3,
        replay: ReplayBuffer,
        interval: Interval,
        population: Population,
        **how: bool,
    ) -> None:
        super().__init__(agent, replay, interval, population, **how)
        self.updating: CapturedUpdates | None = None
        self.alone: dict[int, CapturedUpdates] = {}
        self.acting: Acting | None = None
        self.storing: Storing | None = None
        self.actor_moved = torch.cuda.Event()
        self.expected: NDArray[np.float32] | None = None
        """The states for which actions are being chosen."""
        self.sizes = torch.ones(agent.agents, 1, dtype=torch.int64, device=agent.device)
        """How much of each ring can be sampled; goes to the device together with transitions."""
        self.sizes_sent = False

    @property
    def ring_on_device(self) -> bool:
        """Whether the ring is where the agent is; else it stayed on the host."""
        return self.replay.device == self.agent.device

    def prefetch_actions(self, states: NDArray[np.float32]) -> None:
        if self.acting and self.acting.environments == len(states):
            self.acting.begin(states)
            self.expected = states

    def act(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.acting is None or self.acting.environments != len(states):
            self.acting = Acting(self.acting_copy(), len(states), self.actor_moved)
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
        if self.storing is None or self.storing.environments != len(rows):
            self.storing = Storing(self.agent, self.replay, self.sizes, len(rows))
        self.storing(rows)

    def is_whole_step(self, owners: NDArray[np.int64]) -> bool:
        """Whether there is a row of every environment; some may only have reset."""
        if known := self.acting or self.storing:
            return len(owners) == known.environments
        counts = np.bincount(owners, minlength=self.agent.agents)
        return bool(counts[0] and (counts == counts[0]).all())

    def learn(self, updates: int) -> None:
        self.before_learning()
        if self.updating is None:
            self.updating = self.update_graphs(
                self.agent, self.replay, self.interval, self.population.hyperparameters, self.sizes
            )
        self.updating(updates)

    def learn_member(self, agent: int, updates: int) -> None:
        self.before_learning()
        if agent not in self.alone:
            self.alone[agent] = self.update_graphs(
                self.agent.member(agent),
                self.replay.member(agent),
                self.interval.member(agent),
                self.population.hyperparameters_of(agent),
                self.sizes[agent : agent + 1],
            )
        self.alone[agent](updates)

    def before_learning(self) -> None:
        self.expected = None  # it may act otherwise from now on
        if self.ring_on_device and not self.sizes_sent:
            self.sizes.copy_(torch.from_numpy(self.replay.sizes[:, None]))
            self.sizes_sent = True

    def update_graphs(
        self,
        agent: TD3,
        replay: ReplayBuffer,
        interval: Interval,
        numbers: dict[str, Any],
        sizes: Tensor,
    ) -> "CapturedUpdates":
        return CapturedUpdates(
            agent,
            replay,
            interval,
            numbers,
            sizes,
            self.actor_moved,
            self.prepare,
            self.compiled,
            self.fused,
        )

    def acting_copy(self) -> TD3:
        """The agent on the same memory, acting by fused kernels without being changed itself."""
        copied = copy.copy(self.agent)
        for name in ("actor", "critic", "actor_target", "critic_target"):
            setattr(copied, name, copy.copy(getattr(self.agent, name)))
        if self.fused:
            from td3.execution.gpu.fused import fuse_networks

            fuse_networks(copied)
        return copied

    def streams(self) -> dict[str, list[Stream]]:
        for updating in self.all_updating:
            updating.sending.rewind()
        return super().streams()

    def close(self) -> None:
        for updating in self.all_updating:
            updating.sending.draws.close()
            updating.graphs.clear()  # they and what they work on refer to each other
        if self.acting:
            self.acting.done.synchronize()
            del self.acting.graph
        self.acting = self.storing = self.updating = None
        self.alone.clear()

    @property
    def all_updating(self) -> list["CapturedUpdates"]:
        return [*self.alone.values(), *([self.updating] if self.updating else [])]


class CapturedUpdates:
    """Steps 4 to 15 as two graphs: with the delayed steps, and without."""

    def __init__(
        self,
        agent: TD3,
        replay: ReplayBuffer,
        interval: Interval,
        numbers: dict[str, Any],
        sizes: Tensor,
        actor_moved: torch.cuda.Event,
        prepare: Prepare,
        compiled: bool,
        fused: bool,
    ) -> None:
        self.agent, self.replay, self.interval, self.fused = agent, replay, interval, fused
        self.actor_moved = actor_moved
        settings = {k: v for k, v in numbers.items() if k not in ("batch_size", "policy_freq")}
        self.policy_freq, batch = numbers["policy_freq"], numbers["batch_size"]
        self.sending = Sending(agent, replay, batch)
        self.given = {**self.sending.given, "sizes": sizes}
        assert replay.rows is not None
        self.picked = torch.zeros(
            agent.agents * batch, replay.rows.shape[-1], dtype=agent.dtype, device=agent.device
        )
        self.offsets = torch.arange(agent.agents, device=agent.device)[:, None] * replay.capacity
        self.fetching = Fetching(replay, self.picked) if replay.device != agent.device else None
        self.graphs = {
            delayed: self.capture(settings, batch, delayed, prepare, compiled)
            for delayed in (True, False)
        }

    def capture(
        self, settings: dict[str, Any], batch: int, delayed: bool, prepare: Prepare, compiled: bool
    ) -> Graph:
        agent, replay, sums = self.agent, self.replay, self.interval.sums
        parts = self.picked.view(agent.agents, batch, -1).split(replay.widths, dim=-1)
        noise = at_hand(self.given, "normal")
        update = trace(agent, Batch(*parts), noise, settings, delayed, prepare)
        tensors = inputs_of(agent, Batch(*parts), noise, settings)[: -len(Batch._fields) - 1]

        def update_once(
            tensors: list[Tensor], picked: Tensor, sums: Tensor, given: dict[str, Tensor]
        ) -> None:
            parts = picked.view(agent.agents, batch, -1).split(replay.widths, dim=-1)
            seen = update([*tensors, *parts, at_hand(given, "normal")])
            sums[:, : len(seen)] += torch.stack(seen, dim=1)
            given["position"].add_(1).remainder_(2 * AHEAD)

        arguments = (tensors, self.picked, sums, self.given)
        trial = cloned(arguments)
        graph = make_fx(update_once)(*trial)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        function: Callable[..., Any] = inductor(graph) if compiled else graph

        def sample_and_update() -> None:
            # Apart from the update, which would pick each number from the ring when it needs it.
            self.sample()
            function(*arguments)

        def try_out() -> None:
            self.sample()
            function(*trial)

        with torch.no_grad():
            return Graph(sample_and_update, warm_up=try_out)

    def sample(self) -> None:
        """Pick the batch at hand from the ring on the device."""
        if self.fetching:
            return
        assert self.replay.rows is not None
        given = self.given
        if self.fused:
            from td3.execution.gpu.fused import pick

            pick(self.replay.rows, given, self.picked)
            return
        places = (at_hand(given, "uniform") * given["sizes"]).long() + self.offsets
        rows = self.replay.rows.flatten(0, 1)
        torch.index_select(rows, 0, places.flatten(), out=self.picked)

    def __call__(self, updates: int) -> None:
        agent, counts = self.agent, self.interval.counts
        for _ in range(updates):
            self.sending.advance()
            if self.fetching:
                self.fetching(self.sending.uniform_at_hand)
            delayed = agent.due(self.policy_freq)
            self.graphs[delayed].replay()
            if delayed:
                self.actor_moved.record()
            agent.updates += 1
            agent.tidy()
            counts[:, : 3 if delayed else 2] += 1
            self.sending.look_ahead()


def cloned(tensors: Any) -> Any:
    """The same numbers elsewhere, so that a trial run changes nothing."""
    return torch.utils._pytree.tree_map(torch.clone, tensors)


def inductor(function: Callable[..., Any]) -> Callable[..., Any]:
    """Merge element-wise operations; the same choices on every run."""
    known = hasattr(torch._inductor.config, "deterministic")
    options: dict[str, Any] = {"deterministic": True} if known else {}
    return torch.compile(function, fullgraph=True, dynamic=False, options=options)
