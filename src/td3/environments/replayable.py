"""One environment that a checkpoint can restore exactly."""

import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.base import Arrays
from td3.environments.environment import Environment
from td3.environments.episode_info import EpisodeInfo
from td3.seeding import Stream


class ReplayableEnvironment:
    """An environment that records its history, so that it can be restored by replaying it.

    Few simulators can save their state, but most are deterministic: a *new object* with the same
    seed and actions reaches the same states (some used objects do not). The history holds what
    happened since the object was made. To keep it short, the object is made again at the first
    episode end after each multiple of `remake_every` steps.
    """

    KEYS = ("life", "actions", "resets", "state")  # the names in checkpoints
    ended = EpisodeInfo({}, {})
    """What was reported about the last episode that ended."""

    def __init__(
        self,
        config: EnvironmentConfig,
        stream: Stream,
        remake_every: int,
        environment: Environment | None = None,
    ) -> None:
        """Take over `environment` if it is given; it must be fresh."""
        self.config, self.stream, self.remake_every = config, stream, remake_every
        self.environment = environment or Environment(config)
        self.start(time=0)

    def start(self, time: int) -> None:
        """Seed a new object and begin its history."""
        self.begin(int(self.stream.integers(2**31)), time)

    def begin(self, seed: int, time: int) -> None:
        self.seed, self.made_at = seed, time
        self.actions: list[NDArray[np.float32]] = []
        self.resets: list[int] = []
        self.state = self.environment.reset(seed=self.seed)

    def step(
        self, action: NDArray[np.float32], time: int
    ) -> tuple[NDArray[np.float32], float, bool, bool]:
        self.actions.append(action)
        next_state, reward, terminated, truncated = self.environment.step(action)
        self.state = next_state
        if terminated or truncated:
            self.ended = EpisodeInfo(self.environment.numbers.means(), self.environment.info)
            if time // self.remake_every != self.made_at // self.remake_every:
                self.remake()
                self.start(time)
            else:
                self.resets.append(len(self.actions))
                self.state = self.environment.reset()
        return next_state, reward, terminated, truncated

    def remake(self) -> None:
        self.environment.close()
        self.environment = Environment(self.config)

    def snapshot(self) -> Arrays:
        return {
            "life": np.array([self.seed, self.made_at], dtype=np.int64),
            "actions": np.array(self.actions, dtype=np.float32).reshape(
                -1, self.environment.task.action_dim
            ),
            "resets": np.array(self.resets, dtype=np.int64),
            "state": self.state,
        }

    def restore(self, arrays: Arrays) -> bool:
        """Replay the recorded seed and actions; return whether the final state matches.

        If it does not, the environment restarts with a new seed.
        """
        self.remake()
        self.seed, self.made_at = (int(number) for number in arrays["life"])
        self.actions = list(arrays["actions"])
        self.resets = arrays["resets"].tolist()
        if self.replay() and self.state.tobytes() == arrays["state"].tobytes():
            return True
        self.remake()
        self.start(self.made_at)
        return False

    def replay(self) -> bool:
        """Repeat the history; return whether episodes ended where they ended before."""
        resets = set(self.resets)
        self.state = self.environment.reset(seed=self.seed)
        for position, action in enumerate(self.actions, start=1):
            self.state, _, terminated, truncated = self.environment.step(action)
            if (terminated or truncated) != (position in resets):
                return False  # not deterministic: the remaining actions no longer apply
            if position in resets:
                self.state = self.environment.reset()
        return True
