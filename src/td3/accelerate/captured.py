"""On a GPU: acting, storing and updating as CUDA graphs, launched without waiting for any.

The update that is captured is the agent's own, traced (`trace.py`), its networks computed by fused
kernels where those fit (`fused.py`) and the rest merged by Inductor. The host waits at one place,
for the actions; the ring lives on the device, and random numbers arrive in blocks.
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

from td3.accelerate.sending import AHEAD, Fetching, Sending, at_hand, pinned
from td3.accelerate.trace import Prepare, inputs_of, trace
from td3.agent import TD3
from td3.learner import Learner
from td3.metrics import Interval
from td3.population import Population
from td3.replay import Batch, ReplayBuffer
from td3.seeding import Stream


class Captured(Learner):
    """A learner whose every action is a graph that was captured once."""

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
        self.updating: Updating | None = None
        self.acting: Acting | None = None
        self.storing: Storing | None = None
        self.alone: dict[int, Updating] = {}

    def act(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.acting is None:
            self.acting = Acting(self.acting_copy(), states.shape)
        return self.acting(states)

    def store(self, owners: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        if self.replay.device != self.agent.device:
            super().store(owners, rows)
            return
        if self.storing is None:
            self.storing = Storing(self.replay, self.agent, len(rows))
        self.storing(owners, rows)

    def learn(self, updates: int) -> None:
        if self.updating is None:
            numbers = self.population.hyperparameters
            self.updating = self.update_graphs(self.agent, self.replay, self.interval, numbers)
        self.updating(updates)

    def learn_alone(self, agent: int, updates: int) -> None:
        if agent not in self.alone:
            self.alone[agent] = self.update_graphs(
                self.agent.member(agent), self.replay.member(agent), self.interval.member(agent),
                self.population.hyperparameters_of(agent),
            )  # fmt: skip
        self.alone[agent](updates)

    def update_graphs(
        self, agent: TD3, replay: ReplayBuffer, interval: Interval, numbers: dict[str, Any]
    ) -> "Updating":
        return Updating(agent, replay, interval, numbers, self.prepare, self.compiled)

    def prepare(self, agent: TD3) -> None:
        if self.fused:
            from td3.accelerate.fused import fuse  # Triton comes with PyTorch for CUDA only

            fuse(agent)

    def acting_copy(self) -> TD3:
        """The agent on the same memory, acting by fused kernels without being changed itself."""
        copied = copy.copy(self.agent)
        for name in ("actor", "critic", "actor_target", "critic_target"):
            setattr(copied, name, copy.copy(getattr(self.agent, name)))
        if self.fused:
            from td3.accelerate.fused import fuse_networks

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
        self.acting = self.storing = self.updating = None
        self.alone.clear()

    @property
    def all_updating(self) -> list["Updating"]:
        return [*self.alone.values(), *([self.updating] if self.updating else [])]


class Acting:
    """States in, actions out: the one place where the host waits for the device."""

    def __init__(self, agent: TD3, shape: tuple[int, ...]) -> None:
        rows, width = shape
        self.states, self.actions = pinned(rows, width), pinned(rows, agent.action_dim)
        given = torch.empty(rows, width, device=agent.device)

        def act() -> None:
            given.copy_(self.states, non_blocking=True)
            actions = agent.act(given.view(agent.agents, -1, width))
            self.actions.copy_(actions.flatten(0, 1), non_blocking=True)

        self.graph = Graph(act, warm_up=act)
        self.done = torch.cuda.Event()

    def __call__(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        self.states.numpy()[:] = states
        self.graph.replay()
        self.done.record()
        self.done.synchronize()
        actions: NDArray[np.float32] = self.actions.numpy().copy()
        return actions


class Storing:
    """One row per environment into the rings on the device."""

    def __init__(self, replay: ReplayBuffer, agent: TD3, rows: int) -> None:
        if replay.rows is None:
            replay.allocate(agent.state_dim, agent.action_dim)
        assert replay.rows is not None
        self.replay, self.agent = replay, agent
        ring = replay.rows.flatten(0, 1)
        self.rows = pinned(rows, ring.shape[1])
        self.places = pinned(rows, dtype=torch.int64)
        given = torch.empty_like(self.rows, device=ring.device)
        where = torch.empty_like(self.places, device=ring.device)

        def store() -> None:
            given.copy_(self.rows, non_blocking=True)
            where.copy_(self.places, non_blocking=True)
            ring.index_copy_(0, where, given)

        # While it warms up, it writes back what stands in the first row.
        self.rows.copy_(ring[:1].expand(rows, -1))
        self.graph = Graph(store, warm_up=store)
        self.done = torch.cuda.Event()

    def __call__(self, owners: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        replay = self.replay
        if len(rows) != len(self.rows):  # an environment only reset
            replay.add_rows(owners, rows, self.agent.state_dim, self.agent.action_dim)
            return
        self.done.synchronize()  # the host's copy may not be overwritten before it was read
        self.rows.numpy()[:] = rows
        per_agent = len(rows) // replay.agents
        places = replay.added[:, None] + np.arange(per_agent)
        places = places % replay.capacity + np.arange(replay.agents)[:, None] * replay.capacity
        self.places.numpy()[:] = places.ravel()
        self.graph.replay()
        self.done.record()
        replay.added += per_agent


class Updating:
    """Steps 4 to 15 as two graphs: with the delayed steps, and without."""

    def __init__(
        self, agent: TD3, replay: ReplayBuffer, interval: Interval, numbers: dict[str, Any],
        prepare: Prepare, compiled: bool,
    ) -> None:  # fmt: skip
        self.agent, self.replay, self.interval = agent, replay, interval
        settings = {k: v for k, v in numbers.items() if k not in ("batch_size", "policy_freq")}
        self.policy_freq, batch = numbers["policy_freq"], numbers["batch_size"]
        self.sending = Sending(agent, replay, batch)
        self.sizes = pinned(agent.agents, 1, dtype=torch.int64)
        self.sized = torch.cuda.Event()
        self.given = {
            **self.sending.given,
            "sizes": torch.ones(agent.agents, 1, dtype=torch.int64, device=agent.device),
        }
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
    ) -> "Graph":
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
        places = (at_hand(given, "uniform") * given["sizes"]).long() + self.offsets
        rows = self.replay.rows.flatten(0, 1)
        torch.index_select(rows, 0, places.flatten(), out=self.picked)

    def __call__(self, updates: int) -> None:
        agent, counts = self.agent, self.interval.counts
        self.tell_sizes()
        for _ in range(updates):
            self.sending.advance()
            if self.fetching:
                self.fetching(self.sending.uniform_at_hand)
            delayed = agent.due(self.policy_freq)
            self.graphs[delayed].replay()
            agent.updates += 1
            agent.tidy()
            counts[:, : 3 if delayed else 2] += 1

    def tell_sizes(self) -> None:
        """Let the device know how much of each ring can be sampled."""
        sizes = self.replay.sizes[:, None]
        if (self.sizes.numpy() != sizes).any():
            self.sized.synchronize()
            self.sizes.numpy()[:] = sizes
            self.given["sizes"].copy_(self.sizes, non_blocking=True)
            self.sized.record()


def cloned(tensors: Any) -> Any:
    """The same numbers elsewhere, so that a trial run changes nothing."""
    return torch.utils._pytree.tree_map(torch.clone, tensors)


def inductor(function: Callable[..., Any]) -> Callable[..., Any]:
    """Merge element-wise operations; the same choices on every run."""
    known = hasattr(torch._inductor.config, "deterministic")
    options: dict[str, Any] = {"deterministic": True} if known else {}
    return torch.compile(function, fullgraph=True, dynamic=False, options=options)


class Graph:
    """What a function asks of the device, recorded after it has run twice off the record.

    It keeps the function, and with it all tensors that it works on: a recording knows addresses.
    """

    def __init__(self, function: Callable[[], None], warm_up: Callable[[], None]) -> None:
        self.function = function
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            warm_up()
            warm_up()
        torch.cuda.current_stream().wait_stream(stream)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            function()
        self.replay = recorded.replay
