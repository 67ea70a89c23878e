"""Replace agents of a running population by new ones, while the others continue.

The others compute the same numbers, bit by bit, as if nothing had happened. So no step may be left
out or added for them: the new agent's row takes part in every update from the start, and what it
computes there is discarded. A new agent begins in three moments:

1. `replace`: it gets its settings, streams and environments, and then acts at random. Its networks
   are zeros, like those of an agent that diverged (`divergence.py`), which keeps its row finite.
2. Before its first transition is stored, its replay buffer is emptied. Until then, updates of its
   row sample transitions of the agent before it.
3. `begin_learning`, after its random steps: initial weights, and the streams of sampling and
   smoothing from their beginning. From here on it computes what it would compute alone, up to
   rounding.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from td3.algorithm.agent import TD3
from td3.config import varied
from td3.launch.assembly import make_agent
from td3.seeding import Streams, restore_stream, stream_state
from td3.training.collector import Ended
from td3.training.divergence import erase_agent
from td3.training.loop import Training
from td3.training.population import Population


class ChangingPopulation(Population):
    """A population whose agents are replaced. Its grid names the settings in which they differ."""

    def assign(self, agent: int, settings: Mapping[str, Any]) -> None:
        """Give an agent these values of the settings in which agents differ."""
        self.settings[agent] = dict(settings)
        self.members[agent] = varied(self.members[agent], settings)
        for key, values in self.tensors.items():
            values[agent] = settings[key]

    @property
    def one_left(self) -> bool:
        """Never: an agent that diverged is replaced."""
        return False


class RefillTraining(Training):
    """A training whose agents can be replaced between two steps."""

    population: ChangingPopulation

    def __post_init__(self) -> None:
        super().__post_init__()
        self.starts = np.zeros(self.agent.agents, dtype=np.int64)
        """The step after which each agent began."""
        self.replaced: set[int] = set()
        """Agents whose pending transition is that of the agent before."""
        self.emptied: set[int] = set()
        """Agents whose pending transition is their first."""

    @property
    def ages(self) -> Any:
        """How many steps each agent has made."""
        return self.step - self.starts

    def replace(self, agent: int, settings: Mapping[str, Any]) -> None:
        """Begin a new agent with the same seed and other settings."""
        self.population.frozen[agent] = False
        self.apply_settings(agent, settings)
        erase_agent(self.agent, self.interval, agent)
        fresh, own = Streams.from_seed(self.population.members[agent].seed), self.streams[agent]
        restore_stream(own.env, stream_state(fresh.env))
        self.collector.random[agent] = fresh.explore
        self.collector.begin_again(agent, self.step)
        self.learner.agents_changed()
        self.starts[agent], self.best[agent] = self.step, -np.inf
        self.replaced.add(agent)

    def apply_settings(self, agent: int, settings: Mapping[str, Any]) -> None:
        """Set the numbers that differ between agents wherever they are used."""
        population, collector = self.population, self.collector
        population.assign(agent, settings)
        member = population.members[agent]
        collector.set_reward_scale(agent, member.environment.reward_scale)
        if exploration := collector.exploration:
            rows = exploration.rows_of(agent)
            exploration.standard_deviation[rows] = member.loop.exploration_noise
        discounts = getattr(self.replay, "discount", None)  # of n-step returns
        if discounts is not None and "agent.discount" in settings:
            discounts[agent] = settings["agent.discount"]

    def advance(self) -> list[Ended]:
        for agent in list(self.collector.random):
            age = self.step + self.collector.count - self.starts[agent]
            if age > self.config.loop.random_steps:
                self.begin_learning(agent)
        ended = super().advance()
        self.emptied, self.replaced = self.replaced, set()
        return ended

    def store(self) -> None:
        for agent in self.emptied:
            self.replay.restart(agent)
        self.emptied = set()
        super().store()

    def begin_learning(self, agent: int) -> None:
        """Let an agent begin to learn, with its initial weights."""
        streams = self.learner.streams()  # undoes draws made ahead
        fresh = Streams.from_seed(self.population.members[agent].seed)
        restore_stream(streams["replay"][agent], stream_state(fresh.replay))
        restore_stream(streams["smooth"][agent], stream_state(fresh.smooth))
        explored = self.collector.random.pop(agent)
        restore_stream(self.streams[agent].explore, stream_state(explored))
        if self.collector.exploration:
            self.collector.exploration.restart(agent)
        self.write_weights(agent)
        self.replay.reset_priorities(agent)
        self.forget_losses(agent)
        self.learner.agents_changed()

    @torch.no_grad()
    def write_weights(self, agent: int) -> None:
        """Give an agent the initial weights of its seed."""
        initial = self.initial_agent(agent).tensors()
        for name, tensor in self.agent.tensors().items():
            kept = name in ("max_action", "updates") or name.startswith("normalizer.")
            if not kept and tensor.shape[:1] == (self.agent.agents,):
                tensor[agent].copy_(initial[name][0])

    def initial_agent(self, agent: int) -> TD3:
        """A new agent alone, with the seed and the settings of this one."""
        own = self.population.members[agent]
        with torch.random.fork_rng(devices=[]):
            return make_agent(own, Population(own, self.agent.device), self.environments.task)

    def forget_losses(self, agent: int) -> None:
        """Remove what an agent's row computed before it learned from the diagnostics."""
        self.interval.fold()
        for part in (self.interval.sums, self.interval.counts, self.interval.actions):
            part[agent] = 0

    def own_facts(self) -> dict[str, Any]:
        streams = self.collector.random.items()
        return {
            "refill": {
                "starts": self.starts.tolist(),
                "settings": self.population.settings,
                "replaced": sorted(self.replaced),
                "emptied": sorted(self.emptied),
                "random": {str(agent): stream_state(stream) for agent, stream in streams},
            }
        }

    def restore_own(self, facts: dict[str, Any]) -> None:
        own = facts["refill"]
        for agent, settings in enumerate(own["settings"]):
            self.apply_settings(agent, settings)
        self.starts[:] = own["starts"]
        self.replaced, self.emptied = set(own["replaced"]), set(own.get("emptied", []))
        self.collector.random = {}
        for agent, state in own["random"].items():
            stream = Streams.from_seed(0).explore
            restore_stream(stream, state)
            self.collector.random[int(agent)] = stream
