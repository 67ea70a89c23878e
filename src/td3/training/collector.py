"""Policy + environments → transitions."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from td3.algorithm.transitions import Transitions
from td3.config import EnvironmentConfig
from td3.environments.environment import Environment, Task
from td3.errors import Diverged, RunStopped
from td3.seeding import Stream

NOISE_AHEAD = 64  # steps
Arrays = dict[str, NDArray[Any]]


class Steps(NamedTuple):
    """One step of every environment, one row each."""

    next_states: NDArray[np.float32]
    """Where the action led; at an episode's end its last state, not the next one's first."""
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    real: NDArray[np.bool_] | None = None
    """False where the environment only reset and nothing was experienced; None: nowhere."""

    @classmethod
    def empty(cls, count: int, state_dim: int) -> "Steps":
        """To be filled, one row per environment."""
        terminated, truncated = np.empty((2, count), dtype=np.bool_)
        states = np.empty((count, state_dim), dtype=np.float32)
        return cls(states, np.empty(count), terminated, truncated)


class Environments(Protocol):
    """Several environments stepped together; those that end start anew by themselves."""

    task: Task
    states: NDArray[np.float32]
    arrangement: str
    """How many there are and who steps them, in words."""
    remark: str
    """What a reader of the results should know of that; mostly nothing."""

    def step(self, actions: NDArray[np.float32], time: int) -> Steps:
        """`send` and `receive`."""

    def send(self, actions: NDArray[np.float32], time: int) -> None:
        """Begin a step; what is done until `receive` may overlap with it."""

    def receive(self) -> Steps: ...
    def snapshot(self) -> Arrays: ...
    def restore(self, arrays: Arrays) -> tuple[list[int], str]: ...
    def close(self) -> None: ...


class Slot:
    """One environment that can be brought back exactly.

    Simulators seldom let themselves be saved, but they repeat: the same seed and the same actions
    from a *fresh object* give the same states (from a used object some do not). So a slot keeps
    what it did since its object was made, and restoring it means doing that again. To keep this
    short, the object is remade at the first episode end after each multiple of `remake_every`.
    """

    KEYS = ("life", "actions", "resets", "state")

    def __init__(self, config: EnvironmentConfig, stream: Stream, remake_every: int) -> None:
        self.config, self.stream, self.remake_every = config, stream, remake_every
        self.environment = Environment(config)
        self.start(time=0)

    def start(self, time: int) -> None:
        """Begin the life of a fresh object, with a seed of its own."""
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
            if time // self.remake_every != self.made_at // self.remake_every:
                self.environment.close()
                self.environment = Environment(self.config)
                self.start(time)
            else:
                self.resets.append(len(self.actions))
                self.state = self.environment.reset()
        return next_state, reward, terminated, truncated

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
        """Live the same life again; says whether it led to the same state."""
        self.environment.close()
        self.environment = Environment(self.config)
        self.seed, self.made_at = (int(number) for number in arrays["life"])
        self.actions = list(arrays["actions"])
        self.resets = arrays["resets"].tolist()
        resets = set(self.resets)
        self.state = self.environment.reset(seed=self.seed)
        for position, action in enumerate(self.actions, start=1):
            self.state, _, terminated, truncated = self.environment.step(action)
            if (terminated or truncated) != (position in resets):
                break  # it does not repeat itself: what follows would be another story
            if position in resets:
                self.state = self.environment.reset()
        else:
            if self.state.tobytes() == arrays["state"].tobytes():
                return True
        self.environment.close()
        self.environment = Environment(self.config)
        self.start(self.made_at)
        return False


def located(error: RunStopped, index: int, time: int) -> RunStopped:
    """The same error, saying in which environment and when."""
    return RunStopped(f"{error} in environment {index} at step {time}")


def strayed_sentence(env_id: str, strayed: list[int]) -> str:
    """Why these environments began anew instead of going on."""
    return (
        f"{env_id} did not repeat itself: environment {', '.join(map(str, strayed))} came to "
        "another state from the same seed and actions, and began a new episode"
    )


class InProcess:
    """Environments in this process, one after the other."""

    remark = ""

    def __init__(self, config: EnvironmentConfig, streams: list[Stream], remake_every: int) -> None:
        """One environment per stream."""
        self.slots = [Slot(config, stream, remake_every) for stream in streams]
        self.task = self.slots[0].environment.task
        self.states = np.stack([slot.state for slot in self.slots])
        plural = "s" if len(streams) > 1 else ""
        self.arrangement = f"{len(streams)} environment{plural} in this process"

    def step(self, actions: NDArray[np.float32], time: int) -> Steps:
        self.send(actions, time)
        return self.receive()

    def send(self, actions: NDArray[np.float32], time: int) -> None:
        self.sent = actions, time

    def receive(self) -> Steps:
        actions, time = self.sent
        steps = Steps.empty(*self.states.shape)
        states = np.empty_like(self.states)
        for index, (slot, action) in enumerate(zip(self.slots, actions, strict=True)):
            try:
                next_state, reward, terminated, truncated = slot.step(action, time)
            except RunStopped as error:
                raise located(error, index, time) from error
            steps.next_states[index], states[index] = next_state, slot.state
            steps.rewards[index] = reward
            steps.terminated[index], steps.truncated[index] = terminated, truncated
        self.states = states
        return steps

    def snapshot(self) -> Arrays:
        return {
            f"{index}.{key}": array
            for index, slot in enumerate(self.slots)
            for key, array in slot.snapshot().items()
        }

    def restore(self, arrays: Arrays) -> tuple[list[int], str]:
        """Bring every environment back; returns those that began anew instead, and why."""
        strayed = [
            index
            for index, slot in enumerate(self.slots)
            if not slot.restore({key: arrays[f"{index}.{key}"] for key in slot.KEYS})
        ]
        self.states = np.stack([slot.state for slot in self.slots])
        return strayed, strayed_sentence(self.task.id, strayed)

    def close(self) -> None:
        for slot in self.slots:
            slot.environment.close()


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
