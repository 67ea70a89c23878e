"""A task with an image and a number whose best return is known: move to the bar."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

SIDE, STEPS, REACH = 16, 10, 0.5


class Find(gym.Env[dict[str, Any], NDArray[np.float32]]):
    """The image shows the goal, the number is the position; an action moves by REACH times it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Dict(
        picture=spaces.Box(0, 255, (SIDE, SIDE), np.uint8),
        position=spaces.Box(-1, 1, (1,), np.float32),
    )
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        self.goal, self.position = self.np_random.uniform(-1, 1, 2)
        return self.observe(), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.position = float(np.clip(self.position + REACH * action[0], -1, 1))
        self.time += 1
        reward = -abs(self.position - self.goal)
        return self.observe(), float(reward), False, self.time >= STEPS, {}

    def observe(self) -> dict[str, Any]:
        picture = np.zeros((SIDE, SIDE), dtype=np.uint8)
        centre = (self.goal + 1) / 2 * (SIDE - 1)
        bar = np.clip(1.5 - np.abs(np.arange(SIDE) - centre), 0, 1)
        picture[:] = 255 * bar
        return {"picture": picture, "position": np.array([self.position], dtype=np.float32)}

    def render(self) -> NDArray[np.uint8]:  # type: ignore[override]
        grey = self.observe()["picture"].repeat(8, axis=0).repeat(8, axis=1)
        return np.repeat(grey[:, :, None], 3, axis=2)


def best_return(goal: float, position: float) -> float:
    """Return of the best policy: it moves straight to the goal, at most REACH per step."""
    distance = abs(goal - position)
    return -sum(max(0.0, distance - REACH * (step + 1)) for step in range(STEPS))


gym.register("Find-v0", Find)
