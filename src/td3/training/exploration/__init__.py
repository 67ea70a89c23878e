"""Exploration: the random actions at the start, and the noise on the actors' actions.

One file per kind of noise. All of them have `loop.exploration_noise` as standard deviation and draw
from each agent's own stream.
"""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from numpy.typing import ArrayLike

from td3.config import Config, EnvironmentConfig
from td3.errors import UserError, first_line
from td3.seeding import Stream
from td3.training.exploration.base import Exploration
from td3.training.exploration.gaussian import NOISE_AHEAD, GaussianExploration
from td3.training.exploration.ornstein_uhlenbeck import OrnsteinUhlenbeckExploration
from td3.training.exploration.pink import PinkExploration
from td3.training.exploration.zeta import ZetaExploration
from td3.training.user_classes import load_class

__all__ = [
    "BUILT_IN",
    "NOISE_AHEAD",
    "Exploration",
    "GaussianExploration",
    "OrnsteinUhlenbeckExploration",
    "PinkExploration",
    "ZetaExploration",
    "make_exploration",
]

BUILT_IN: dict[str, type[Exploration]] = {
    "gaussian": GaussianExploration,
    "ornstein-uhlenbeck": OrnsteinUhlenbeckExploration,
    "pink": PinkExploration,
    "zeta": ZetaExploration,
}
LONGEST_BLOCK = 10_000  # steps; a checkpoint contains the block of each environment


def make_exploration(
    config: Config, streams: Sequence[Stream], action_dim: int, standard_deviation: ArrayLike
) -> Exploration:
    """The exploration that `loop.exploration` names.

    Raises:
        UserError: It cannot be imported, or does not accept `loop.exploration_kwargs`.
    """
    name, kwargs = config.loop.exploration, dict[str, Any](config.loop.exploration_kwargs)
    kind = BUILT_IN.get(name) or load_class(name, Exploration, "loop.exploration")
    if kind is PinkExploration:
        kwargs = {"length": episode_steps(config.environment)} | kwargs
    given = (streams, config.environment.count, action_dim, standard_deviation)
    try:
        inspect.signature(kind).bind(*given, **kwargs)
        return kind(*given, **kwargs)
    except UserError:
        raise
    except Exception as error:  # a class of the user may raise anything
        raise UserError(
            f"loop.exploration {name} cannot be made with loop.exploration_kwargs {kwargs}: "
            f"{first_line(error)}."
        ) from error


def episode_steps(environment: EnvironmentConfig) -> int:
    """The longest episode of an environment, in actions; 1,000 if it is unknown."""
    spec = gym.registry.get(environment.id.rpartition(":")[2])
    limit = environment.max_episode_steps or (spec.max_episode_steps if spec else None)
    if not limit:
        return 1000
    return min(max(2, math.ceil(limit / environment.action_repeat)), LONGEST_BLOCK)
