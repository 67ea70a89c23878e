"""The parts of an environment that td3 needs: action bounds and observation layout."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from td3.environments.observations import describe, observation_layout
from td3.errors import RunStopped, UserError
from td3.layout import Layout, Observation, flatten, layout_size, stacked

MAX_REWARD = float(np.finfo(np.float32).max)  # what the replay ring can hold


@dataclass(frozen=True)
class ActionBounds:
    """A Box action space, flattened, and the way from [-1, 1] into it."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    shape: tuple[int, ...]
    dtype: str

    def scale(self, action: NDArray[np.floating]) -> NDArray[Any]:
        """From [-1, 1] to the environment's own range, shape and dtype."""
        if not self.natural:
            share = (action.astype(np.float64) + 1) / 2
            # This form cannot overflow where high - low would, and meets both ends exactly.
            action = self.low * (1 - share) + self.high * share
        # np.clip costs five times this.
        kept: NDArray[Any] = np.minimum(np.maximum(action, self.low), self.high)
        return kept.astype(self.dtype).reshape(self.shape)

    @functools.cached_property
    def natural(self) -> bool:
        """Whether the environment's range is [-1, 1] itself."""
        return bool((self.low == -1).all() and (self.high == 1).all())


def action_bounds(space: spaces.Space[Any], env_id: str) -> ActionBounds:
    """The bounds of a Box action space; anything else is refused with what to do about it."""
    if not isinstance(space, spaces.Box):
        raise UserError(
            f"TD3 needs continuous actions, but {env_id} has {describe(space)}; "
            "use an environment with a Box action space (for discrete actions, DQN or PPO)."
        )
    if not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"TD3 needs continuous actions, but those of {env_id} are whole numbers "
            f"({space.dtype}); declare its Box with a float dtype."
        )
    if space.low.size == 0:
        raise UserError(
            f"The action space of {env_id} is empty; declare a Box with a number per actuator."
        )
    low, high = (bound.astype(np.float64).ravel() for bound in (space.low, space.high))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise UserError(
            f"The action bounds of {env_id} are infinite; "
            "declare its Box with the finite low and high that the actuators have."
        )
    if (low > high).any():
        raise UserError(f"The action space of {env_id} is empty: low is above high; swap them.")
    return ActionBounds(low, high, space.shape, str(space.dtype))


@dataclass(frozen=True)
class Task:
    """What td3 needs to know of an environment, whoever steps it."""

    id: str
    bounds: ActionBounds
    layout: Layout

    @property
    def state_dim(self) -> int:
        return layout_size(self.layout)

    @property
    def action_dim(self) -> int:
        return self.bounds.low.size

    @classmethod
    def of(
        cls,
        env_id: str,
        observations: spaces.Space[Any],
        actions: spaces.Space[Any],
        stack: int = 1,
    ) -> "Task":
        """Read the spaces, or refuse them in one sentence; `stack` observations make a state."""
        layout = stacked(observation_layout(observations, env_id), stack)
        task = cls(env_id, action_bounds(actions, env_id), layout)
        if task.state_dim == 0:
            raise UserError(f"{env_id} observes nothing: its observation space is empty.")
        return task

    def observation(self, observation: Any) -> Observation:
        """One observation as a flat vector; stops the run if it is not a proper one."""
        try:
            state = flatten(self.layout, observation)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            raise RunStopped(f"{self.id} gave an observation unlike its space: {error}") from error
        if np.count_nonzero(np.isfinite(state)) < state.size:  # a third of the time of all()
            where = int(np.flatnonzero(~np.isfinite(state))[0])
            raise RunStopped(
                f"{self.id} gave a non-finite observation ({state[where]} in dimension {where})"
            )
        return state

    def reward(self, reward: Any) -> float:
        """A reward as a float; stops the run if it is not finite."""
        try:
            value = float(reward) if isinstance(reward, float) else float(np.asarray(reward).item())
        except (TypeError, ValueError) as error:
            raise RunStopped(f"{self.id} gave a reward that is no number ({reward!r})") from error
        if not abs(value) < MAX_REWARD:
            raise RunStopped(f"{self.id} gave a non-finite reward ({value})")
        return value
