"""Small policies for any observation space, and their exact actions."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from td3.algorithm.agent import TD3
from td3.config import EnvironmentConfig
from td3.environments.task import Task
from td3.policy.from_agent import policy_card, policy_tensors
from td3.policy.policy import Policy

ACTIONS = spaces.Box(np.float32([-1, -2, 0.5]), np.float32([1, 3, 4]))
POSITION = spaces.Box(-1, 1, (3,), np.float32)
FRAME = spaces.Box(0, 255, (12, 14, 3), np.uint8)
SPACES: dict[str, tuple[spaces.Space[Any], int]] = {
    "box": (spaces.Box(-np.inf, np.inf, (2, 3), np.float64), 1),
    "stacked box": (POSITION, 3),
    "choice": (spaces.Discrete(4, start=-1), 1),
    "stacked choices": (spaces.MultiDiscrete([[3, 2], [4, 5]], start=[[0, 1], [-2, 7]]), 2),
    "dictionary": (
        spaces.Dict(
            goal=POSITION,
            inner=spaces.Dict({"a b": spaces.Discrete(3), "2": spaces.MultiBinary(2)}),
            pair=spaces.Tuple([POSITION, spaces.Discrete(2, start=5)]),
        ),
        1,
    ),
    "stacked dictionary": (spaces.Dict(goal=POSITION, mode=spaces.Discrete(3)), 2),
    "image": (FRAME, 1),
    "stacked images": (FRAME, 3),
    "channels first": (spaces.Box(0, 255, (3, 12, 14), np.uint8), 2),
    "grey floats": (spaces.Box(-1, 1, (16, 17), np.float32), 2),
    "image and numbers": (spaces.Dict(camera=FRAME, goal=POSITION, mode=spaces.Discrete(3)), 2),
}
"""Name → space and number of stacked observations."""


def make_policy(
    space: spaces.Space[Any],
    stack: int = 1,
    normalize: bool = False,
    actions: Any = ACTIONS,
    kind: type[TD3] = TD3,
) -> tuple[Policy, TD3]:
    """An untrained policy with large weights, and the same agent in double precision."""
    task = Task.of("Some-v0", space, actions, stack)
    shared: dict[str, Any] = {
        "hidden_sizes": [24, 16],
        "layout": task.layout,
        "channels": [4, 5],
        "features": 6,
        "normalize_observations": normalize,
        "seed": 3,
    }
    agent = kind(task.state_dim, task.action_dim, **shared)
    exact = kind(task.state_dim, task.action_dim, dtype=torch.float64, **shared)
    generator = np.random.default_rng(5)
    if agent.normalizer and exact.normalizer:
        states = generator.normal(2, 3, (9, task.state_dim)).astype(np.float32)
        for state in states:
            agent.normalizer.observe(np.zeros(1, np.int64), state[None])
        exact.normalizer.shift.copy_(agent.normalizer.shift)
        exact.normalizer.scale.copy_(agent.normalizer.scale)
    for name, network in agent.trained.items():
        network.online.flat.data *= 2
        exact.trained[name].online.flat.data.copy_(network.online.flat.data)
    card = policy_card(agent, task, EnvironmentConfig(id="Some-v0"), {"step": 7})
    return Policy(card, policy_tensors(agent)[0], "some", variant=kind), exact


def exact_actions(policy: Policy, exact: TD3, states: NDArray[np.float32]) -> NDArray[np.float64]:
    """The actions of flat states by the readable code in double precision, in real units."""
    with torch.no_grad():
        unit = exact.act(torch.from_numpy(states.astype(np.float64))[None])[0].numpy()
    low, high = policy.bounds.low, policy.bounds.high
    share = (unit + 1) / 2
    return low * (1 - share) + high * share
