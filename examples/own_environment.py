"""Train on an environment of your own: a cart that should stop at the origin.

python examples/own_environment.py               # a few seconds
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import td3


# --8<-- [start:environment]
class Cart(gym.Env[np.ndarray, np.ndarray]):
    """Push a cart to the origin; it falls off the track at ±2."""

    def __init__(self, friction: float = 0.1) -> None:
        self.friction = friction
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)  # sets self.np_random, the only source of randomness
        self.state = np.array([self.np_random.uniform(-1, 1), 0.0])
        return self.state.astype(np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        position, speed = self.state
        speed += 0.1 * (float(action[0]) - self.friction * speed)
        position += 0.1 * speed
        self.state = np.array([position, speed])
        terminated = bool(abs(position) > 2)  # off the track: nothing follows
        reward = 1.0 - position**2 - 0.1 * float(action[0]) ** 2
        return self.state.astype(np.float32), reward, terminated, False, {}


# The time limit is Gymnasium's: it sets `truncated`.
gym.register("Cart-v0", Cart, max_episode_steps=100)
# --8<-- [end:environment]


def main(arguments: Sequence[str] | None = None) -> td3.Run:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5_000)
    parser.add_argument("--friction", type=float, default=0.1)
    parser.add_argument("--run", type=Path, default=None, help="run folder; default: under runs/")
    given = parser.parse_args(arguments)
    run = td3.train(
        {"id": "Cart-v0", "kwargs": {"friction": given.friction}},
        recipe="quick",
        steps=given.steps,
        run=given.run,
        quiet=True,
    )
    found = td3.evaluate(run, episodes=10)
    print(f"Mean return over 10 episodes: {found.mean:.1f} (100 is the most)")
    return run


if __name__ == "__main__":
    main()
