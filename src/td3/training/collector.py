"""Step the environments with the agents' actions and turn the results into transitions."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from td3.algorithm.transitions import Transitions
from td3.environments.base import Arrays, Environments, Steps
from td3.environments.episode_info import EpisodeInfo
from td3.errors import Diverged
from td3.seeding import Stream
from td3.training.exploration import Exploration

NOTHING = EpisodeInfo({}, {})
EXPLORATION = "explore."  # prefix of an exploration's arrays in a snapshot


class Ended(NamedTuple):
    """An episode that just ended."""

    agent: int
    episode_return: float
    length: int
    numbers: Mapping[str, float] = {}
    """What the environment reported of the names in `environment.info`."""
    info: Mapping[str, Any] = {}
    """The last `info`; empty unless `Environments.keep_info` is set."""


def raise_diverged(agent: int, why: str) -> None:
    """Stop the run: the default reaction to an agent that diverged."""
    raise Diverged(f"Agent {agent} diverged: {why}; try a smaller learning rate or reward_scale")


class PendingStep(NamedTuple):
    """One step of every environment whose transitions have not been requested yet."""

    states: NDArray[np.float32]
    actions: NDArray[np.float32]
    begins: NDArray[np.bool_]
    """Whether an episode begins with this step."""
    steps: Steps


class Collector:
    """Acts in every agent's environments and returns the transitions to store.

    The transitions of a step are made while the next step runs, so that the environments never
    wait for them.

    `reward_scale` is one number, or one number for each agent. An agent that diverges is reported
    to `on_divergence`, which marks it in `frozen`; its rows are zeros from then on.
    """

    def __init__(
        self,
        environments: Environments,
        agents: int,
        exploration: Exploration | None = None,
        reward_scale: ArrayLike = 1.0,
        frozen: NDArray[np.bool_] | None = None,
        on_divergence: Callable[[int, str], None] = raise_diverged,
    ) -> None:
        self.environments, self.exploration = environments, exploration
        self.on_divergence = on_divergence
        self.frozen = np.zeros(agents, dtype=np.bool_) if frozen is None else frozen
        self.count = len(environments.states) // agents
        """Environments of one agent."""
        self.owners = np.repeat(np.arange(agents), self.count)
        """The agent that each environment belongs to."""
        self.indices = np.arange(len(self.owners))
        self.uncounted = 0
        """Real steps of all agents that make up less than one step of each."""
        scale = np.broadcast_to(np.asarray(reward_scale, dtype=np.float64), agents)
        self.reward_scale = scale[self.owners]
        # Rewards are checked to fit into float32; multiplied by more than 1 they may not.
        self.may_overflow = bool((np.abs(scale) > 1).any())
        self.returns = np.zeros(len(self.owners))
        self.lengths = np.zeros(len(self.owners), dtype=np.int64)
        self.pending: PendingStep | None = None
        self.random: dict[int, Stream] = {}
        """Agents that act at random while others learn, and the streams of their actions."""
        self.noise_factor = 1.0
        """Factor on the exploration noise (`schedules.py`)."""

    def next_steps(self) -> int:
        """How many steps each agent takes when all environments step once.

        An environment that only resets takes none. Then it is the mean over the agents, rounded
        down; the rest counts later.
        """
        resetting = self.environments.resetting
        if resetting is None:
            return self.count
        self.uncounted += int(np.count_nonzero(~resetting))
        steps, self.uncounted = divmod(self.uncounted, len(self.frozen))
        return steps

    def acting(self) -> slice | NDArray[np.bool_]:
        """The environments that use their next action."""
        resetting = self.environments.resetting
        return slice(None) if resetting is None else ~resetting

    def random_actions(self) -> NDArray[np.float32]:
        """Uniform over the action range."""
        assert self.exploration is not None
        return self.with_random_agents(self.exploration.random_actions())

    def with_random_agents(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """The actions, with random ones for the agents in `random`."""
        for agent, stream in self.random.items():
            rows = slice(agent * self.count, (agent + 1) * self.count)
            actions[rows] = stream.uniform(-1, 1, (self.count, actions.shape[1]))
        return actions

    def add_noise(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """The actors' actions with exploration noise, clipped to the action range."""
        assert self.exploration is not None
        actions = self.finite(actions, "its action is no longer finite")
        begins = self.lengths == 0
        if np.count_nonzero(self.frozen):  # they never count a step
            begins &= ~self.frozen[self.owners]
        noise = self.exploration.draw(begins)
        noisy = (noise if self.noise_factor == 1 else noise * self.noise_factor) + actions
        clipped: NDArray[np.float64] = np.minimum(np.maximum(noisy, -1, out=noisy), 1, out=noisy)
        return self.with_random_agents(clipped.astype(np.float32))

    def finite(self, rows: NDArray[np.float32], why: str) -> NDArray[np.float32]:
        """The rows, zeros for frozen agents; reports agents with a number that is not finite."""
        if np.count_nonzero(np.isfinite(rows)) < rows.size:  # a third of the time of all()
            bad = ~np.isfinite(rows).all(axis=1) & ~self.frozen[self.owners]
            for agent in np.unique(self.owners[bad]):
                self.on_divergence(int(agent), why)
        return self.zero_where_frozen(rows)

    def zero_where_frozen(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        if not np.count_nonzero(self.frozen):
            return rows
        return np.where(self.frozen[self.owners, None], 0, rows)

    def step(
        self, actions: NDArray[np.float32], time: int
    ) -> tuple[Transitions | None, list[Ended]]:
        """`send`, `receive` and `transitions` in one call."""
        self.send(actions, time)
        ended = self.receive()
        return self.transitions(), ended

    def send(self, actions: NDArray[np.float32], time: int) -> None:
        """Start a step of all environments; do not wait for it."""
        self.sent = self.environments.states, actions
        self.environments.send(actions, time)

    def receive(
        self, on_states: Callable[[NDArray[np.float32]], None] = lambda states: None
    ) -> list[Ended]:
        """Wait for the step that was sent; returns the episodes that ended.

        `on_states` gets the new states before anything else is done with them.
        """
        if self.exploration:
            self.exploration.prepare()
        steps = self.environments.receive()
        on_states(self.environments.states)
        self.pending = PendingStep(*self.sent, self.lengths == 0, steps)
        if self.may_overflow:
            self.finite(self.scaled(steps.rewards), "its reward is too large to store")
        return self.count_step(steps)

    def count_step(self, steps: Steps) -> list[Ended]:
        """Add a step to the returns and lengths of the episodes; returns those that ended."""
        over, counted = steps.terminated | steps.truncated, steps.real
        if np.count_nonzero(self.frozen):
            active = ~self.frozen[self.owners]
            counted = active if counted is None else counted & active
        if counted is None:
            self.returns += steps.rewards
            self.lengths += 1
        else:
            self.returns += counted * steps.rewards
            self.lengths += counted
            over &= counted
        if not np.count_nonzero(over):
            return []
        infos = steps.infos or {}
        ended = [
            Ended(
                int(self.owners[i]),
                float(self.returns[i]),
                int(self.lengths[i]),
                *infos.get(int(i), NOTHING),
            )
            for i in np.flatnonzero(over)
        ]
        self.returns[over], self.lengths[over] = 0, 0
        return ended

    def transitions(self) -> Transitions | None:
        """The transitions of the pending step; None if there is no pending step."""
        if self.pending is None:
            return None
        (states, actions, begins, steps), self.pending = self.pending, None
        state_dim, action_dim = states.shape[1], actions.shape[1]
        rows = np.empty((len(states), 2 * state_dim + action_dim + 2), dtype=np.float32)
        rows[:, :state_dim], rows[:, state_dim : 2 * state_dim] = states, steps.next_states
        rows[:, 2 * state_dim : -2], rows[:, -1] = actions, steps.terminated
        rows[:, -2:-1] = self.scaled(steps.rewards)
        everything = Transitions(self.owners, self.indices, self.zero_where_frozen(rows), begins)
        if steps.real is None or steps.real.all():
            return everything
        real: list[Any] = [part[steps.real] for part in everything]
        return Transitions(*real)

    def scaled(self, rewards: NDArray[np.float64]) -> NDArray[np.float32]:
        """Scaled rewards as float32, one row each; a number that is too large becomes infinite."""
        if not self.may_overflow:
            return (self.reward_scale * rewards).astype(np.float32)[:, None]
        with np.errstate(over="ignore"):
            return (self.reward_scale * rewards).astype(np.float32)[:, None]

    def begin_again(self, agent: int, time: int) -> None:
        """Start new episodes in new environments for one agent."""
        rows = range(agent * self.count, (agent + 1) * self.count)
        self.returns[rows], self.lengths[rows] = 0, 0
        self.environments.begin_again(rows, time)

    def set_reward_scale(self, agent: int, scale: float) -> None:
        self.reward_scale[self.owners == agent] = scale
        self.may_overflow = bool((np.abs(self.reward_scale) > 1).any())

    def snapshot(self) -> Arrays:
        """Everything that a checkpoint needs, by name."""
        arrays: Arrays = {"returns": self.returns, "lengths": self.lengths}
        if self.exploration:
            arrays |= {exploration_key(k): v for k, v in self.exploration.state().items()}
        if self.pending:
            *given, steps = self.pending
            fields = zip(PendingStep._fields, given, strict=False)
            arrays |= {f"last.{name}": array for name, array in fields}
            arrays |= {
                f"last.{name}": value
                for name, value in steps._asdict().items()
                if isinstance(value, np.ndarray)
            }
        return arrays | {f"env.{k}": v for k, v in self.environments.snapshot().items()}

    def restore(self, arrays: Arrays) -> str:
        """Continue from a snapshot; returns why some environments could not, or nothing."""
        if self.exploration:
            noise = {"noise": arrays["noise"]} if "noise" in arrays else {}
            self.exploration.restore(noise | with_prefix(EXPLORATION, arrays))
        if pending := with_prefix("last.", arrays):
            given: dict[str, Any] = {name: pending.pop(name) for name in PendingStep._fields[:-1]}
            rest: dict[str, Any] = pending
            self.pending = PendingStep(**given, steps=Steps(**rest))
        self.returns, self.lengths = arrays["returns"].copy(), arrays["lengths"].copy()
        restarted, reason = self.environments.restore(with_prefix("env.", arrays))
        self.returns[restarted], self.lengths[restarted] = 0, 0
        return reason if restarted else ""


def exploration_key(name: str) -> str:
    """The name of an exploration's array in a snapshot; old checkpoints have a plain `noise`."""
    return name if name == "noise" else EXPLORATION + name


def with_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays whose names begin with `prefix`, without it."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
