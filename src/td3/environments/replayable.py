"""One environment that a checkpoint can restore exactly."""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.environments.base import Arrays
from td3.environments.environment import Environment
from td3.environments.episode_info import EpisodeInfo
from td3.environments.simulator_state import load_state, save_state
from td3.seeding import Stream

LONG = 3  # multiples of `remake_every` after which an episode probably never ends
LONG_KEYS = {"origin", "later", "marks"}
FEWEST = 100  # actions that show whether a saved state is exact


class ReplayableEnvironment:
    """An environment that records its history, so that it can be restored by replaying it.

    Few simulators can save their state, but most are deterministic: a *new object* with the same
    seed and actions reaches the same states (some used objects do not). The history holds what
    happened since the object was made. To keep it short, the object is made again at the first
    episode end after each multiple of `remake_every` steps.

    An episode that never ends would make it grow. So the state of the simulator is remembered, if
    it can be saved, at each multiple of `remake_every`; at the next one the history begins there.
    """

    KEYS = ("life", "actions", "resets", "state", "origin", "later", "marks")
    """The names in checkpoints. Only a long history has the last three."""
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
        self.forget_states()
        self.state = self.environment.reset(seed=self.seed)

    def step(
        self, action: NDArray[np.float32], time: int, scaled: NDArray[Any] | None = None
    ) -> tuple[NDArray[np.float32], float, bool, bool]:
        self.actions.append(action)
        next_state, reward, terminated, truncated = self.environment.step(action, scaled)
        self.state = next_state
        if terminated or truncated:
            self.ended = EpisodeInfo(self.environment.numbers.means(), self.environment.info)
            if time // self.remake_every != self.made_at // self.remake_every:
                self.remake()
                self.start(time)
            else:
                self.resets.append(len(self.actions))
                self.state = self.environment.reset()
        elif time >= self.next_mark:
            self.mark(time)
        return next_state, reward, terminated, truncated

    def remake(self) -> None:
        self.environment.close()
        self.environment = Environment(self.config)

    def forget_states(self) -> None:
        self.origin = b""
        """The simulator's state before the first action of the history; empty: after a reset."""
        self.later, self.later_at = b"", 0
        """A later state, and how many actions came before it."""
        self.is_exact: bool | None = None
        """Whether a saved state leads to the same states as the simulator; None: not tried yet."""
        self.next_mark = (self.made_at // self.remake_every + LONG) * self.remake_every
        """The time at which a history is long. An episode that ends before it is not affected."""

    def mark(self, time: int) -> None:
        """Begin a long history at its later state, and remember the present one instead."""
        self.next_mark = (time // self.remake_every + 1) * self.remake_every
        if self.is_exact is False or len(self.actions) - self.later_at < FEWEST:
            return
        if self.later:
            if self.is_exact is None:
                self.is_exact = self.leads_here()
            if self.is_exact:
                self.origin, (self.actions, self.resets) = self.later, self.since(self.later_at)
        state = save_state(self.environment) if self.is_exact is not False else None
        self.later, self.later_at = state or b"", len(self.actions) if state else 0

    def since(self, begin: int) -> tuple[list[NDArray[np.float32]], list[int]]:
        """The actions and resets of the history after its first `begin` actions."""
        return self.actions[begin:], [own - begin for own in self.resets if own > begin]

    def leads_here(self) -> bool:
        """Whether a new object in the later state reaches the present one by the later actions."""
        twin = copy.copy(self)
        twin.environment = Environment(self.config)
        twin.origin, (twin.actions, twin.resets) = self.later, self.since(self.later_at)
        equal = twin.replay() and twin.state.tobytes() == self.state.tobytes()
        twin.environment.close()
        return equal

    def snapshot(self) -> Arrays:
        long: Arrays = {}
        if self.later:
            long = {
                "origin": np.frombuffer(bytearray(self.origin), np.uint8),
                "later": np.frombuffer(bytearray(self.later), np.uint8),
                "marks": np.array([self.later_at, self.next_mark], dtype=np.int64),
            }
        return {
            "life": np.array([self.seed, self.made_at], dtype=np.int64),
            "actions": np.array(self.actions, dtype=np.float32).reshape(
                -1, self.environment.task.action_dim
            ),
            "resets": np.array(self.resets, dtype=np.int64),
            "state": self.state,
            **long,
        }

    def restore(self, arrays: Arrays) -> bool:
        """Replay the recorded seed and actions; return whether the final state matches.

        If it does not, the environment restarts with a new seed.
        """
        self.remake()
        self.seed, self.made_at = (int(number) for number in arrays["life"])
        self.actions = list(arrays["actions"])
        self.resets = arrays["resets"].tolist()
        self.forget_states()
        if arrays.keys() >= LONG_KEYS:
            self.origin, self.later = arrays["origin"].tobytes(), arrays["later"].tobytes()
            self.later_at, self.next_mark = (int(number) for number in arrays["marks"])
        if self.replay() and self.state.tobytes() == arrays["state"].tobytes():
            return True
        self.remake()
        self.start(self.made_at)
        return False

    def replay(self) -> bool:
        """Repeat the history; return whether episodes ended where they ended before."""
        resets = set(self.resets)
        self.state = self.environment.reset(seed=self.seed)
        try:
            if self.origin:
                load_state(self.environment, self.origin)
        except Exception:  # it is of another version of the environment
            return False
        for position, action in enumerate(self.actions, start=1):
            self.state, _, terminated, truncated = self.environment.step(action)
            if (terminated or truncated) != (position in resets):
                return False  # not deterministic: the remaining actions no longer apply
            if position in resets:
                self.state = self.environment.reset()
        return True


def with_index(index: int, arrays: Arrays) -> Arrays:
    """The arrays of one environment, from those of several."""
    names = {key: f"{index}.{key}" for key in ReplayableEnvironment.KEYS}
    return {key: arrays[name] for key, name in names.items() if name in arrays}
