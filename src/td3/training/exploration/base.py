"""The interface of exploration: random actions at the start, then noise on the actors' actions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from td3.environments.base import Arrays
from td3.errors import UserError
from td3.seeding import Stream


class Exploration(ABC):
    """A source of random actions and noise for all environments of all agents.

    Subclass it in your own file and name it with `--loop.exploration my_module:MyNoise`. Only
    `draw` is needed; `state` and `restore` make resume exact if noise depends on earlier noise.
    Draw an agent's numbers from its own stream only, so that it explores the same way alone and in
    a population. `loop.exploration_schedule` scales the noise after `draw`.

    Args:
        streams: The random stream of each agent. Checkpoints save their positions.
        environments_per_agent: Environments of one agent. Rows of arrays are ordered by agent.
        action_dim: Number of action components.
        standard_deviation: `loop.exploration_noise`; one number, or one number for each agent.

    The entries of `loop.exploration_kwargs` are passed as further keyword arguments.

    Example:
        class UniformNoise(td3.Exploration):
            def draw(self, begins):
                limit = 3**0.5 * self.standard_deviation
                unit = [stream.uniform(-1, 1, self.shape) for stream in self.streams]
                return limit * np.concatenate(unit)
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        environments_per_agent: int,
        action_dim: int,
        standard_deviation: ArrayLike,
    ) -> None:
        self.streams, self.shape = streams, (environments_per_agent, action_dim)
        each = np.broadcast_to(np.asarray(standard_deviation, dtype=np.float64), len(streams))
        self.standard_deviation = np.repeat(each, environments_per_agent)[:, None]
        """One row for each environment."""

    def random_actions(self) -> NDArray[np.float32]:
        """Uniform actions for the random steps, (environments, action_dim), within [-1, 1]."""
        draws = [stream.uniform(-1, 1, self.shape) for stream in self.streams]
        return np.concatenate(draws).astype(np.float32)

    @abstractmethod
    def draw(self, begins: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return noise for the next step, (environments, action_dim).

        Args:
            begins: Whether an episode begins with this step, (environments,). The first call may
                be in the middle of an episode, after the random steps.
        """

    def prepare(self) -> None:  # noqa: B027 - optional
        """Do work ahead; the collector calls this while the environments step."""

    def restart(self, agent: int) -> None:
        """Begin again for one agent, whose stream and standard deviation are new.

        Needed by `td3 tune`, where a new agent takes the place of another. Noise that remembers
        anything must override it.
        """
        if type(self).state is not Exploration.state:
            raise UserError(
                f"{type(self).__name__} needs a method restart(agent), because its noise depends "
                "on earlier noise."
            )

    def rows_of(self, agent: int) -> slice:
        """The rows of the environments of an agent."""
        return slice(agent * self.shape[0], (agent + 1) * self.shape[0])

    def state(self) -> Arrays:
        """Return what `restore` needs, by name; streams are saved elsewhere."""
        return {}

    def restore(self, arrays: Arrays) -> None:  # noqa: B027 - optional
        """Continue from `state`. Other names, or none, come from a run with other exploration."""
