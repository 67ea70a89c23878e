"""The running example of the lessons: Pendulum, whose state and torque can be drawn.

State: cosine and sine of the angle (0: upright) and the speed. Action: a torque from −2 to 2.
"""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer

MAX_TORQUE = 2.0
MAX_SPEED = 8.0


def random_experience(steps: int, seed: int = 0, max_size: int | None = None) -> ReplayBuffer:
    """A replay buffer with the transitions of `steps` random actions."""
    env, rng = gymnasium.make("Pendulum-v1"), np.random.default_rng(seed)
    buffer = ReplayBuffer(max_size or steps, seed=seed)
    state, _ = env.reset(seed=seed)
    for _ in range(steps):
        action = rng.uniform(-MAX_TORQUE, MAX_TORQUE, 1).astype(np.float32)
        next_state, reward, terminated, truncated, _ = env.step(action)
        buffer.add((state, next_state, action, float(reward), terminated))
        state = env.reset()[0] if terminated or truncated else next_state
    env.close()
    return buffer


def new_agent(seed: int = 0) -> TD3:
    """An untrained agent with small networks."""
    return TD3(3, 1, MAX_TORQUE, hidden_sizes=(64, 64), seed=seed)


def learn_from_random_actions(updates: int = 7000, steps: int = 10_000, seed: int = 0) -> TD3:
    """An agent that learns from random actions only; a minute or less. It nearly swings up."""
    agent = new_agent(seed)
    buffer = random_experience(steps, seed)
    agent.train(buffer, updates, batch_size=100, discount=0.98)
    return agent


def trained_agent() -> TD3:
    """What `learn_from_random_actions()` returned, from a file."""
    agent = new_agent()
    agent.load("pendulum", Path(__file__).parent)
    return agent


def states(angle: Any, speed: Any) -> Tensor:
    """States from angles and speeds of any equal shapes, (points, 3)."""
    angle, speed = np.broadcast_arrays(angle, speed)
    parts = np.cos(angle), np.sin(angle), speed
    return torch.tensor(np.stack([np.ravel(part) for part in parts], axis=1), dtype=torch.float32)


def angle_and_speed(state: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Angles and speeds of states, (points, 3)."""
    state = np.asarray(state, dtype=np.float64)
    return np.arctan2(state[..., 1], state[..., 0]), state[..., 2]


def state_grid(points: int = 61) -> tuple[NDArray[np.float64], NDArray[np.float64], Tensor]:
    """All angles and speeds as a grid: angles, speeds (points, points) and states."""
    angle, speed = np.meshgrid(
        np.linspace(-np.pi, np.pi, points), np.linspace(-MAX_SPEED, MAX_SPEED, points)
    )
    return angle, speed, states(angle, speed)


def episode_return(agent: TD3, episodes: int = 5) -> float:
    """The mean return of episodes without noise: about −1200 untrained, −150 when learned."""
    env, total = gymnasium.make("Pendulum-v1"), 0.0
    for episode in range(episodes):
        state, _ = env.reset(seed=1000 + episode)
        over = False
        while not over:
            state, reward, terminated, truncated, _ = env.step(agent.select_action(state))
            total += float(reward)
            over = terminated or truncated
    env.close()
    return total / episodes
