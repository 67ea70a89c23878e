"""The host's work of a step, without networks: constant actions, and draws without updates.

On a GPU the host acts, steps, stores and draws random numbers while the device computes. With many
agents this work decides the speed. It can be measured without a GPU.
"""

import numpy as np
from numpy.typing import NDArray

from td3.execution.gpu.random_blocks import RandomBlocks
from td3.execution.gpu.random_upload import AHEAD, draw_threads, numbers_per_update
from td3.training.learner import Learner
from td3.training.loop import Training


class HostLearner(Learner):
    """A learner that stores and draws as on a GPU, but computes nothing."""

    def __init__(self, training: Training) -> None:
        super().__init__(training.agent, training.replay, training.interval, training.population)
        agent, batch_size = training.agent, training.config.agent.batch_size
        self.actions = np.zeros((len(training.environments.states), agent.action_dim), np.float32)
        buffers = [
            {
                name: np.zeros((agent.agents, AHEAD, *shape), dtype)
                for name, (shape, dtype) in numbers_per_update(agent, batch_size).items()
            }
            for _ in range(3)
        ]
        threads = draw_threads(agent.agents)
        self.blocks = RandomBlocks(
            training.replay.streams, agent.smooth, buffers, threads, agent.draw_own
        )
        self.used = AHEAD

    def act(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.actions.copy()

    def learn(self, updates: int) -> None:
        for _ in range(updates):
            if self.used == AHEAD:
                self.blocks.take()
                self.blocks.finish()
                self.blocks.begin()
                self.used = 0
            self.used += 1
        self.agent.updates += updates

    def learn_member(self, agent: int, updates: int) -> None:
        self.agent.updates[agent] += updates

    def close(self) -> None:
        self.blocks.close()
