"""Acting, storing and learning for all agents; `execution` has faster versions."""

import numpy as np
import torch
from numpy.typing import NDArray

from td3.algorithm.agent import TD3
from td3.algorithm.replay_base import Replay
from td3.algorithm.transitions import Transitions
from td3.seeding import Stream
from td3.training.metrics import Interval
from td3.training.population import Population


class Learner:
    """What the loop needs of agents and replay buffers. On a GPU, only `act` waits for it."""

    def __init__(
        self, agent: TD3, replay: Replay, interval: Interval, population: Population
    ) -> None:
        self.agent, self.replay, self.interval = agent, replay, interval
        self.population = population

    def prefetch_actions(self, states: NDArray[np.float32]) -> None:
        """Start to compute the actions for these states. Learning before `act` discards them."""

    def act(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """The actors' actions for the states of all environments, without noise."""
        given = torch.from_numpy(states).view(self.agent.agents, -1, states.shape[1])
        actions: NDArray[np.float32] = (
            self.agent.act(given.to(self.agent.device, self.agent.dtype))
            .flatten(0, 1)
            .cpu()
            .numpy()
        )
        return actions

    def store(self, transitions: Transitions) -> None:
        """Put transitions into their agents' replay buffers."""
        self.replay.store(transitions, self.agent.state_dim, self.agent.action_dim)

    def learn(self, updates: int) -> None:
        """Run steps 4 to 15 this many times, for all agents together."""
        hyperparameters = self.population.hyperparameters
        for diagnostics in self.agent.train(self.replay, updates, **hyperparameters):
            self.interval.add_update(diagnostics)

    def learn_member(self, agent: int, updates: int) -> None:
        """The same for one agent."""
        member, replay = self.agent.member(agent), self.replay.member(agent)
        hyperparameters = self.population.hyperparameters_of(agent)
        for diagnostics in member.train(replay, updates, **hyperparameters):
            self.interval.add_update(diagnostics, agent)

    def plain_parts(self) -> list[str]:
        """What runs as plain PyTorch although the run asks for speed; a checkpoint stores it."""
        return []

    def resume(self, plain: list[str]) -> None:
        """Continue as before a checkpoint; `plain` is what `plain_parts` returned then."""

    def streams(self) -> dict[str, list[Stream]]:
        """The random streams that learning draws from, in their current state."""
        return {"replay": self.replay.streams, "smooth": self.agent.smooth}

    def agents_changed(self) -> None:
        """Take over networks that were changed by something other than learning."""

    def close(self) -> None:
        """Stop threads, if there are any."""
