"""What td3 needs to know about an environment: action bounds and observation layout.

Inside td3 an observation is a flat float32 vector (`observations.py`) and every action component
lies in [-1, 1]. Only this package knows the shapes and bounds of the simulator.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from td3.environments.bounds import ActionBounds
from td3.environments.observations import describe, observation_layout
from td3.errors import RunStopped, UserError, first_line
from td3.layout import (
    Layout,
    Observation,
    describe_dimension,
    flatten,
    layout_size,
    stack_layout,
)

MAX_REWARD = float(np.finfo(np.float32).max)  # the replay buffer stores float32


def action_bounds(space: spaces.Space[Any], env_id: str) -> ActionBounds:
    """Return the bounds of a Box action space; raise UserError for any other space."""
    if not isinstance(space, spaces.Box):
        raise UserError(
            f"TD3 needs continuous actions, but {env_id} has {describe(space)}; "
            "use an environment with a Box action space (for discrete actions, DQN or PPO)."
        )
    if not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"TD3 needs continuous actions, but the actions of {env_id} are integers "
            f"({space.dtype}); declare its Box with a float dtype."
        )
    if space.low.size == 0:
        raise UserError(
            f"The action space of {env_id} is empty; declare a Box with one number per actuator."
        )
    low, high = (bound.astype(np.float64).ravel() for bound in (space.low, space.high))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise UserError(
            f"The action bounds of {env_id} are infinite; "
            "declare its Box with the finite low and high of the actuators."
        )
    if (low > high).any():
        raise UserError(f"The action space of {env_id} is empty: low is above high; swap them.")
    return ActionBounds(low, high, space.shape, str(space.dtype))


@dataclass(frozen=True)
class Task:
    """The id, action bounds and observation layout of an environment, wherever it runs."""

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
        """Read the spaces, or raise UserError; `stack` observations form one state."""
        layout = stack_layout(observation_layout(observations, env_id), stack)
        task = cls(env_id, action_bounds(actions, env_id), layout)
        if task.state_dim == 0:
            raise UserError(f"The observation space of {env_id} is empty.")
        return task

    def observation(self, observation: Any) -> Observation:
        """Return one observation as a flat vector; raise RunStopped if it is invalid."""
        try:
            state = flatten(self.layout, observation)
        except Exception as error:  # its objects may raise anything
            raise RunStopped(
                f"{self.id} returned an observation that does not match its space: "
                f"{first_line(error)}"
            ) from error
        # isfinite().all() takes three times as long.
        if np.count_nonzero(np.isfinite(state)) < state.size:
            where = int(np.flatnonzero(~np.isfinite(state))[0])
            place = describe_dimension(self.layout, where)
            raise RunStopped(
                f"{self.id} returned a non-finite observation ({state[where]} in {place})"
            )
        return state

    def reward(self, reward: Any) -> float:
        """Return a reward as a float; raise RunStopped if it is not a finite number."""
        try:
            value = float(reward) if isinstance(reward, float) else float(np.asarray(reward).item())
        except Exception as error:  # its objects may raise anything
            raise RunStopped(
                f"{self.id} returned a reward that is not a number ({describe_value(reward)})"
            ) from error
        if not abs(value) < MAX_REWARD:
            raise RunStopped(f"{self.id} returned a non-finite reward ({value})")
        return value

    def flag(self, name: str, value: Any) -> bool:
        """Return `terminated` or `truncated`; raise RunStopped unless it is true or false."""
        if value is True or value is False:
            return value
        with contextlib.suppress(Exception):
            array = np.asarray(value)
            if array.size == 1 and array.dtype.kind in "biuf" and array.item() in (0, 1):
                return bool(array.item())
        raise RunStopped(
            f"{self.id} returned {name} that is neither true nor false ({describe_value(value)})"
        )


def describe_value(value: Any) -> str:
    """A short description for messages."""
    try:
        return f"{value!r:.60}"
    except Exception:  # it may raise anything
        return type(value).__name__
