"""Policy + environments → transitions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from td3.algorithm.transitions import Transitions
from td3.environments.base import Arrays, Environments, Steps
from td3.errors import Diverged
from td3.seeding import Stream

NOISE_AHEAD = 64  # steps


class Ended(NamedTuple):
    """An episode that just ended."""

    agent: int
    episode_return: float
    length: int


def stop(agent: int, why: str) -> None:
    """What to do about an agent that diverged, where nothing else was said."""
    raise Diverged(f"Agent {agent} diverged: {why}; try a smaller learning rate or reward_scale")


class Last(NamedTuple):
    """A step of every environment: where it started, what was done, and what came of it."""

    states: NDArray[np.float32]
    actions: NDArray[np.float32]
    begins: NDArray[np.bool_]
    steps: Steps


class Collector:
    """Acts in every agent's environments and hands back the transitions to store.

    Those of a step are made when the next one is under way, so that nothing waits for them.

    `exploration_noise` and `reward_scale` are one number, or one for each agent. An agent that
    diverges is told to `freeze`, which marks it in `frozen`; its rows are zeros from then on.
    """

    def __init__(
        self,
        environments: Environments,
        agents: int,
        explore: list[Stream],
        exploration_noise: ArrayLike,
        reward_scale: ArrayLike = 1.0,
        frozen: NDArray[np.bool_] | None = None,
        freeze: Callable[[int, str], None] = stop,
    ) -> None:
        self.environments, self.explore, self.freeze = environments, explore, freeze
        self.frozen = np.zeros(agents, dtype=np.bool_) if frozen is None else frozen
        self.count = len(environments.states) // agents
        self.owners = np.repeat(np.arange(agents), self.count)
        """Which agent each environment belongs to."""
        self.indices = np.arange(len(self.owners))
        noise, scale = (
            np.broadcast_to(np.asarray(number, dtype=np.float64), agents)[self.owners]
            for number in (exploration_noise, reward_scale)
        )
        self.exploration_noise, self.reward_scale = noise[:, None], scale
        self.may_overflow = bool((np.abs(scale) > 1).any())  # rewards themselves never do
        self.take_noise(np.empty((0, len(self.owners), environments.task.action_dim)))
        self.returns = np.zeros(len(self.owners))
        self.lengths = np.zeros(len(self.owners), dtype=np.int64)
        self.last: Last | None = None
        """The step received last, until `transitions` has taken it."""

    def random_actions(self) -> NDArray[np.float32]:
        """Uniform over the action range."""
        shape = (self.count, self.environments.task.action_dim)
        draws = [stream.uniform(-1, 1, shape) for stream in self.explore]
        return np.concatenate(draws).astype(np.float32)

    def explore_around(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """The actors' actions with Gaussian noise, kept in range."""
        actions = self.finite(actions, "its action is no longer finite")
        if self.used == len(self.noise):
            self.draw_noise()
        noisy = self.scaled_noise[self.used] + actions
        self.used += 1
        kept: NDArray[np.float64] = np.minimum(np.maximum(noisy, -1, out=noisy), 1, out=noisy)
        return kept.astype(np.float32)

    def draw_noise(self) -> None:
        """For some steps to come: a call for a few numbers takes as long as one for many."""
        shape = (NOISE_AHEAD, self.count, self.environments.task.action_dim)
        drawn = [stream.standard_normal(shape) for stream in self.explore]
        self.take_noise(np.concatenate(drawn, axis=1))

    def take_noise(self, noise: NDArray[np.float64]) -> None:
        """Normal numbers, (steps, environments, action_dim), and how many steps have used them."""
        self.noise, self.used = noise, 0
        self.scaled_noise = noise * self.exploration_noise

    def finite(self, rows: NDArray[np.float32], why: str) -> NDArray[np.float32]:
        """The rows, after freezing every agent with a number not finite; zeros for the frozen."""
        if np.count_nonzero(np.isfinite(rows)) < rows.size:  # a third of the time of all()
            bad = ~np.isfinite(rows).all(axis=1) & ~self.frozen[self.owners]
            for agent in np.unique(self.owners[bad]):
                self.freeze(int(agent), why)
        return self.zero_where_frozen(rows)

    def zero_where_frozen(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        if not np.count_nonzero(self.frozen):
            return rows
        return np.where(self.frozen[self.owners, None], 0, rows)

    def step(
        self, actions: NDArray[np.float32], time: int
    ) -> tuple[Transitions | None, list[Ended]]:
        """`send`, `receive` and `transitions`."""
        self.send(actions, time)
        ended = self.receive()
        return self.transitions(), ended

    def send(self, actions: NDArray[np.float32], time: int) -> None:
        """Let the environments take the actions."""
        self.sent = self.environments.states, actions
        self.environments.send(actions, time)

    def receive(
        self, expect: Callable[[NDArray[np.float32]], None] = lambda states: None
    ) -> list[Ended]:
        """Wait for what came of it; returns the episodes that ended. `expect` is told first."""
        if 0 < len(self.noise) == self.used:
            self.draw_noise()  # for the next actions, while nothing else is to be done
        steps = self.environments.receive()
        expect(self.environments.states)
        self.last = Last(*self.sent, self.lengths == 0, steps)
        if self.may_overflow:
            self.finite(self.scaled(steps.rewards), "its reward is too large to store")
        over, lived = steps.terminated | steps.truncated, steps.real
        if np.count_nonzero(self.frozen):
            awake = ~self.frozen[self.owners]
            lived = awake if lived is None else lived & awake
        if lived is None:
            self.returns += steps.rewards
            self.lengths += 1
        else:
            self.returns += lived * steps.rewards
            self.lengths += lived
            over &= lived
        if not np.count_nonzero(over):
            return []
        ended = [
            Ended(int(self.owners[i]), float(self.returns[i]), int(self.lengths[i]))
            for i in np.flatnonzero(over)
        ]
        self.returns[over], self.lengths[over] = 0, 0
        return ended

    def transitions(self) -> Transitions | None:
        """The last step that was received, if nobody has asked for it yet."""
        if self.last is None:
            return None
        (states, actions, begins, steps), self.last = self.last, None
        state_dim, action_dim = states.shape[1], actions.shape[1]
        rows = np.empty((len(states), 2 * state_dim + action_dim + 2), dtype=np.float32)
        rows[:, :state_dim], rows[:, state_dim : 2 * state_dim] = states, steps.next_states
        rows[:, 2 * state_dim : -2], rows[:, -1] = actions, steps.terminated
        rows[:, -2:-1] = self.scaled(steps.rewards)
        taken = Transitions(self.owners, self.indices, self.zero_where_frozen(rows), begins)
        if steps.real is None or steps.real.all():
            return taken
        some: list[Any] = [part[steps.real] for part in taken]
        return Transitions(*some)

    def scaled(self, rewards: NDArray[np.float64]) -> NDArray[np.float32]:
        """Rewards as they are stored, one row each; what is too large becomes infinite."""
        if not self.may_overflow:
            return (self.reward_scale * rewards).astype(np.float32)[:, None]
        with np.errstate(over="ignore"):
            return (self.reward_scale * rewards).astype(np.float32)[:, None]

    def snapshot(self) -> Arrays:
        own: Arrays = {"returns": self.returns, "lengths": self.lengths}
        if self.used < len(self.noise):
            own["noise"] = self.noise[self.used :]
        if self.last:
            *given, steps = self.last
            own |= {f"last.{k}": v for k, v in zip(Last._fields, given, strict=False)}
            own |= {f"last.{k}": v for k, v in steps._asdict().items() if v is not None}
        return own | {f"env.{k}": v for k, v in self.environments.snapshot().items()}

    def restore(self, arrays: Arrays) -> str:
        lives = {k.removeprefix("env."): v for k, v in arrays.items() if k.startswith("env.")}
        last = {k.removeprefix("last."): v for k, v in arrays.items() if k.startswith("last.")}
        if "noise" in arrays:
            self.take_noise(arrays["noise"].reshape(-1, *self.noise.shape[1:]))
        if last:
            given: dict[str, Any] = {name: last.pop(name) for name in Last._fields[:-1]}
            self.last = Last(**given, steps=Steps(**last))
        self.returns, self.lengths = arrays["returns"].copy(), arrays["lengths"].copy()
        anew, reason = self.environments.restore(lives)
        self.returns[anew], self.lengths[anew] = 0, 0
        return reason if anew else ""
