"""Tasks for worker processes, which import this module by name."""

import ctypes
import os
import random
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

MARKS = 1 << 20


class Counting(gym.Env[Any, Any]):
    """Episodes of 7 steps; observes (seed modulo MARKS, step in the episode, random number).

    `trouble` happens at step `at`, in the environment with mark `only` or in all of them.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)

    def __init__(self, trouble: str = "", at: int = 3, only: int = -1) -> None:
        self.random = random.SystemRandom().random()
        self.trouble, self.at, self.only = trouble, at, only
        self.mark = self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.mark = seed % MARKS if seed is not None else self.mark
        self.length = 0
        while self.trouble == "stuck in reset":
            time.sleep(0.01)
        return self.observe(), {}

    def observe(self) -> Any:
        third = self.random if self.trouble == "unrepeatable" else 0
        return np.array([self.mark, self.length, third], dtype=np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.length += 1
        observation = self.observe()
        if self.steps == self.at and self.only in (-1, self.mark):
            if self.trouble == "raise":
                raise ZeroDivisionError("the simulator")
            if self.trouble == "exit":
                os._exit(3)
            if self.trouble == "nan":
                observation[1] = np.nan
            if self.trouble == "holds the interpreter":
                ctypes.PyDLL(None).sleep(600)
            while self.trouble == "stuck":
                time.sleep(0.01)
        ended = self.length == 7
        info = {"pull": float(action[0]), "is_success": self.mark % 3 == 0, "lap": [self.length]}
        return observation, float(action[0]), ended and self.mark % 2 == 0, ended, info


def make_counting(at: int = 3) -> Counting:
    """A new environment."""
    return Counting(at=at)


ONE = Counting()


def same() -> Counting:
    """A mistake: the same environment at each call."""
    return ONE


gym.register("Counting-v0", entry_point="support.worker_tasks:Counting")
