"""The collector stores what happened; no transition crosses the end of an episode."""

import copy
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from td3.algorithm.replay import ReplayBuffer
from td3.config import EnvironmentConfig
from td3.environments.base import Environments
from td3.environments.gym_vector import GymVector
from td3.environments.in_process import InProcess
from td3.environments.replayable import ReplayableEnvironment
from td3.errors import RunStopped
from td3.seeding import Stream, Streams
from td3.training.collector import Collector, Ended
from td3.training.exploration import NOISE_AHEAD, GaussianExploration

SCRIPT = "3t 2l 1t 4b 1l 2t 5l 1b 3l"
"""Lengths of the episodes, each ended by t: terminated, l: the time limit, b: both at once."""
MARKS = 90  # a multiple of the script's length
NEVER = 10**9

made: list[int] = []
"""Marks of the objects made since the list was last cleared, in order."""


class Scripted(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Observes (its seed's mark, started episodes, steps in this one, last action).

    The seed decides with which episode of the script it begins. The count of episodes continues
    over `reset(seed=…)`: a used object resets differently from a fresh one.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,))
    action_space = gym.spaces.Box(-1, 3, (1,))

    def __init__(
        self, script: str = SCRIPT, bad: str = "", bad_mark: int = 0, bad_at: int = 0
    ) -> None:
        self.script = script.split()
        self.bad, self.bad_mark, self.bad_at = bad, bad_mark, bad_at
        self.mark, self.episode, self.time, self.action, self.steps = 0, 0, 0, 0.0, 0

    def observation(self) -> NDArray[np.float32]:
        numbers = [self.mark, self.episode, self.time, self.action]
        if self.is_bad("observation"):
            numbers[3] = np.nan
        return np.array(numbers, dtype=np.float32)

    def is_bad(self, name: str) -> bool:
        """Whether this step, not the reset after it, returns NaN."""
        due = (self.bad, self.bad_mark, self.bad_at) == (name, self.mark, self.steps)
        return due and self.time > 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        if seed is not None:
            self.mark = seed % MARKS
            made.append(self.mark)
        self.episode, self.time, self.action = self.episode + 1, 0, 0.0
        return self.observation(), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.time, self.steps, self.action = self.time + 1, self.steps + 1, float(action[0])
        length, end = episode_of(self.script, self.mark, self.episode)
        over = self.time == length
        reward = reward_of(self.episode, self.time, self.action)
        if self.is_bad("reward"):
            reward = np.nan
        return self.observation(), reward, over and end in "tb", over and end in "lb", {}


def episode_of(script: list[str], mark: int, episode: int) -> tuple[int, str]:
    """Length and end of an object's episode, which counts from 1."""
    entry = script[(mark + episode) % len(script)]
    return int(entry[:-1]), entry[-1]


def reward_of(episode: int, time: int, action: float) -> float:
    return 10 * episode + time + action / 2


class Buffered(Scripted):
    """Returns the same array each time, like simulators that save memory."""

    def observation(self) -> NDArray[np.float32]:
        self.array = getattr(self, "array", np.zeros(4, dtype=np.float32))
        self.array[:] = super().observation()
        return self.array


class Unrepeatable(Scripted):
    """Every object differs from the previous one."""

    objects = 0

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        Unrepeatable.objects += 1

    def observation(self) -> NDArray[np.float32]:
        numbers = super().observation()
        numbers[1] += Unrepeatable.objects / 8 if self.time > 1 else 0
        return numbers


for kind in (Scripted, Buffered, Unrepeatable):
    gym.register(f"Collect{kind.__name__}-v0", entry_point=kind)
TASK = "CollectScripted-v0"


def streams(count: int, agents: int) -> list[Stream]:
    """One stream per environment; those of one agent are the same object, as in training."""
    own = [Streams.from_seed(seed).env for seed in range(agents)]
    return [stream for stream in own for _ in range(count)]


def make(mode: AutoresetMode | None, count: int, agents: int, **kwargs: Any) -> Environments:
    """In this process, or a Gymnasium vector in one of its modes."""
    config = EnvironmentConfig(TASK, kwargs=kwargs)
    if mode is None:
        return InProcess(config, streams(count, agents), remake_every=NEVER)
    vector = SyncVectorEnv(
        [lambda: gym.make(TASK, disable_env_checker=True, **kwargs)] * (count * agents),
        autoreset_mode=mode,
    )
    return GymVector(vector, TASK, streams(count, agents))


@dataclass
class Oracle:
    """The transitions expected from one environment, computed without it."""

    mark: int
    episode: int = 1
    time: int = 0
    action: float = 0.0
    resetting: bool = False
    episode_return: float = 0.0
    rows: list[list[float]] = field(default_factory=list)
    ended: list[tuple[float, int]] = field(default_factory=list)

    @property
    def state(self) -> list[float]:
        return [self.mark, self.episode, self.time, self.action]

    def step(
        self,
        action: float,
        mode: AutoresetMode | None,
        reward_scale: float = 1.0,
    ) -> None:
        if self.resetting:  # the action is ignored and there is no transition
            self.resetting = False
            self.begin()
            return
        length, end = episode_of(SCRIPT.split(), self.mark, self.episode)
        state, taken = self.state, 1 + 2 * action
        self.time, self.action = self.time + 1, taken
        reward = reward_of(self.episode, self.time, taken)
        self.episode_return += reward
        terminated = self.time == length and end in "tb"
        self.rows.append([*state, *self.state, action, reward_scale * reward, float(terminated)])
        if self.time == length:
            self.ended.append((self.episode_return, length))
            if mode == AutoresetMode.NEXT_STEP:
                self.resetting = True
            else:
                self.begin()

    def begin(self) -> None:
        self.episode, self.time, self.action, self.episode_return = self.episode + 1, 0, 0.0, 0.0


MODES = [None, AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]
every_mode = pytest.mark.parametrize("mode", MODES, ids=["own", "next", "same", "disabled"])


@every_mode
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("reward_scale", [1.0, 0.25])
def test_replay_buffer_contains_what_happened(
    mode: AutoresetMode | None, count: int, agents: int, reward_scale: float
) -> None:
    environments = make(mode, count, agents)
    collector = Collector(environments, agents, reward_scale=reward_scale)
    oracles = [Oracle(int(stream.integers(2**31)) % MARKS) for stream in streams(count, agents)]
    ring = ReplayBuffer(1000, seed=range(agents))
    expected: list[list[list[float]]] = [[] for _ in range(agents)]
    rng = np.random.default_rng(0)
    for time in range(1, 60):
        # Multiples of 1/8, which float32 holds exactly.
        actions = (rng.integers(-8, 9, (count * agents, 1)) / 8).astype(np.float32)
        transitions, ended = collector.step(actions, time * count)
        assert transitions is not None
        ring.store(transitions, 4, 1)
        over = []
        for index, (oracle, action) in enumerate(zip(oracles, actions[:, 0], strict=True)):
            stored, finished = len(oracle.rows), len(oracle.ended)
            oracle.step(float(action), mode, reward_scale)
            expected[index // count] += oracle.rows[stored:]
            over += [Ended(index // count, *end) for end in oracle.ended[finished:]]
        assert ended == over
        np.testing.assert_array_equal(environments.states, [oracle.state for oracle in oracles])
    assert ring.rows is not None
    for agent, rows_of_agent in enumerate(expected):
        stored = ring.rows[agent, : len(rows_of_agent)].numpy()
        assert ring.added[agent] == len(rows_of_agent)
        np.testing.assert_array_equal(stored, np.array(rows_of_agent, dtype=np.float32))
    environments.close()


@every_mode
def test_transitions_never_cross_episodes_and_done_means_terminated(
    mode: AutoresetMode | None,
) -> None:
    environments = make(mode, count=3, agents=1)
    collector = Collector(environments, 1)
    ends = []
    for time in range(1, 80):
        transitions, ended = collector.step(np.zeros((3, 1), dtype=np.float32), time)
        assert transitions is not None
        for mark, episode, step, _, *after, _, _, done in transitions.rows:
            assert [mark, episode, step + 1] == after[:3]
            length, end = episode_of(SCRIPT.split(), int(mark), int(episode))
            assert bool(done) == (step + 1 == length and end in "tb")
            ends.append(end if step + 1 == length else "")
        assert all(episode.length > 0 for episode in ended)
    assert {*ends} == {"", "t", "l", "b"}
    environments.close()


def test_environment_that_reuses_its_array_is_stored_correctly() -> None:
    config = EnvironmentConfig("CollectBuffered-v0")
    environments = InProcess(config, streams(2, 1), remake_every=NEVER)
    collector = Collector(environments, 1)
    for time in range(1, 40):
        transitions, _ = collector.step(np.zeros((2, 1), dtype=np.float32), time)
        assert transitions is not None
        for mark, episode, step, _, *after, _, _, _ in transitions.rows:
            assert [mark, episode, step + 1] == after[:3]
    environments.close()


def test_gymnasium_vector_gives_the_same_transitions() -> None:
    config = EnvironmentConfig(TASK, vectorization="sync")
    ours, theirs = make(None, 3, 1), GymVector.make(config, streams(3, 1))
    actions = np.zeros((3, 1), dtype=np.float32)
    own, gymnasium = Collector(ours, 1), Collector(theirs, 1)
    stored: list[list[NDArray[np.float32]]] = [[], []]
    for time in range(1, 60):
        for rows, collector in zip(stored, (own, gymnasium), strict=True):
            transitions, _ = collector.step(actions, time)
            assert transitions is not None
            rows.extend(transitions.rows)
    for mark in {row[0] for row in stored[0]}:
        mine, other = ([row for row in rows if row[0] == mark] for rows in stored)
        assert len(mine) > len(other) > 20  # the vector needs a step for a reset
        np.testing.assert_array_equal(mine[: len(other)], other)
    ours.close()
    theirs.close()


@every_mode
@pytest.mark.parametrize("bad_at", range(1, 8), ids=lambda step: f"step {step}")
@pytest.mark.parametrize("name", ["observation", "reward"])
def test_nan_stops_the_run_with_task_environment_step_and_field(
    mode: AutoresetMode | None, bad_at: int, name: str
) -> None:
    """Step `bad_at` of the second environment is bad, at the end of an episode or not."""
    mark = [int(stream.integers(2**31)) % MARKS for stream in streams(2, 1)][1]
    oracle, due = Oracle(mark), 0
    while len(oracle.rows) < bad_at:
        oracle.step(0.0, mode)
        due += 1
    environments = make(mode, 2, 1, bad=name, bad_mark=mark, bad_at=bad_at)
    collector = Collector(environments, 1)
    actions = np.zeros((2, 1), dtype=np.float32)
    for time in range(1, due):
        collector.step(actions, time)
    with pytest.raises(RunStopped) as caught:
        collector.step(actions, due)
    assert f"{TASK} returned a non-finite {name} (nan" in str(caught.value)
    assert str(caught.value).endswith(f"in environment 1 at step {due}")
    environments.close()


def test_random_actions_are_uniform_and_independent_per_agent() -> None:
    environments = make(None, count=3, agents=2)
    explore = [Streams.from_seed(seed).explore for seed in (4, 7)]
    collector = Collector(environments, 2, GaussianExploration(explore, 3, 1, 0.1))
    actions = np.stack([collector.random_actions() for _ in range(2000)])
    assert actions.shape == (2000, 6, 1)
    assert actions.dtype == np.float32
    assert np.abs(actions).max() <= 1
    counts, _ = np.histogram(actions, bins=10, range=(-1, 1))
    expected = actions.size / 10
    assert ((counts - expected) ** 2 / expected).sum() < 21.67  # chi-square, 9 degrees, 1 %

    alone = GaussianExploration([Streams.from_seed(7).explore], 3, 1, 0.1)
    np.testing.assert_array_equal(actions[0, 3:], alone.random_actions())
    assert len(np.unique(actions[0])) == 6


def test_exploration_noise_is_gaussian_and_clipped() -> None:
    environments = make(None, count=3, agents=1)
    exploration = GaussianExploration([Streams.from_seed(0).explore], 3, 1, 0.2)
    collector = Collector(environments, 1, exploration)
    chosen = np.array([[0.0], [1.0], [-1.0]], dtype=np.float32)
    noisy = np.stack([collector.add_noise(chosen) for _ in range(4000)])[..., 0]
    assert noisy.dtype == np.float32
    middle, top, bottom = noisy.T
    assert middle.mean() == pytest.approx(0, abs=0.015)
    assert middle.std() == pytest.approx(0.2, rel=0.05)
    assert top.max() == 1.0
    assert (top == 1.0).mean() == pytest.approx(0.5, abs=0.05)
    assert bottom.min() == -1.0
    assert len(np.unique(middle)) > 3900
    assert len(np.unique(collector.add_noise(0 * chosen))) == 3  # each has its own noise


def test_noise_drawn_ahead_equals_noise_drawn_per_step() -> None:
    explore = [Streams.from_seed(s).explore for s in (3, 4)]
    exploration = GaussianExploration(explore, 2, 1, [0.1, 0.2])
    collector = Collector(make(None, count=2, agents=2), 2, exploration)
    alone = [Streams.from_seed(s).explore for s in (3, 4)]
    nothing = np.zeros((4, 1), dtype=np.float32)
    for _ in range(2 * NOISE_AHEAD + 5):
        drawn = [0.1 * alone[0].standard_normal((2, 1)), 0.2 * alone[1].standard_normal((2, 1))]
        wanted = np.clip(np.concatenate(drawn), -1, 1).astype(np.float32)
        np.testing.assert_array_equal(collector.add_noise(nothing), wanted)


def slot(kind: str = "Scripted", seed: int = 0, remake_every: int = NEVER) -> ReplayableEnvironment:
    config = EnvironmentConfig(f"Collect{kind}-v0")
    return ReplayableEnvironment(config, Streams.from_seed(seed).env, remake_every)


def action_at(time: int) -> NDArray[np.float32]:
    return np.array([np.sin(time)], dtype=np.float32)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 7, 20, 41])
def test_slot_restored_in_the_middle_of_an_episode_continues(steps: int) -> None:
    original = slot()
    for time in range(1, steps + 1):
        original.step(action_at(time), time)
    saved = {key: array.copy() for key, array in original.snapshot().items()}

    other = slot(seed=5)  # a used object, which resets differently from a fresh one
    for time in range(1, 30):
        other.step(action_at(-time), time)
    assert other.restore(saved)
    assert other.state.tobytes() == original.state.tobytes()
    for time in range(steps + 1, steps + 40):
        mine, theirs = (each.step(action_at(time), time) for each in (original, other))
        assert mine[0].tobytes() == theirs[0].tobytes()
        assert mine[1:] == theirs[1:]
        assert original.state.tobytes() == other.state.tobytes()
    for key, array in original.snapshot().items():
        np.testing.assert_array_equal(array, other.snapshot()[key])


def test_slot_restore_of_unrepeatable_environment_fails() -> None:
    original = slot("Unrepeatable")
    for time in range(1, 4):
        original.step(action_at(time), time)
    assert original.state[2] == 3  # the middle of an episode
    assert not original.restore({key: array.copy() for key, array in original.snapshot().items()})


@pytest.mark.parametrize("kind", ["Scripted", "Unrepeatable"])
def test_collector_restore_names_environments_that_differ(kind: str) -> None:
    def collector() -> Collector:
        config = EnvironmentConfig(f"Collect{kind}-v0")
        environments = InProcess(config, streams(3, 1), remake_every=NEVER)
        return Collector(environments, 1)

    original, other = collector(), collector()
    actions = np.full((3, 1), 0.5, dtype=np.float32)
    inside: list[str] = []
    while not 0 < len(inside) < 3:  # the others have just begun an episode, where all are equal
        original.step(actions, time=1)
        states = original.environments.states
        inside = [str(index) for index in range(3) if states[index, 2] > 1]
    message = other.restore({key: array.copy() for key, array in original.snapshot().items()})
    if kind == "Scripted":
        assert message == ""
        np.testing.assert_array_equal(other.environments.states, states)
        np.testing.assert_array_equal(other.returns, original.returns)
        np.testing.assert_array_equal(other.lengths, original.lengths)
    else:
        assert f"{kind}-v0 is not deterministic: environment {', '.join(inside)} reached" in message


def remade_at(script: str, remake_every: int, steps: int) -> list[int]:
    """The steps at which a slot makes a new object, without the first."""
    config = EnvironmentConfig(TASK, kwargs={"script": script})
    one = ReplayableEnvironment(config, Streams.from_seed(0).env, remake_every)
    times = []
    for time in range(1, steps + 1):
        before = one.environment
        one.step(action_at(time), time)
        if one.environment is not before:
            times.append(time)
            assert one.state[1:3].tolist() == [1, 0]  # a fresh object's first episode
            assert one.snapshot()["actions"].shape == (0, 1)
    return times


@pytest.mark.parametrize(
    ("script", "remake_every", "expected"),
    [
        ("4t", 10, [12, 20, 32, 40, 52, 60]),
        ("4l", 10, [12, 20, 32, 40, 52, 60]),
        ("35l", 10, [35]),
        ("25b", 10, [25, 50]),
        ("1t", 25, [25, 50]),
        ("7b", NEVER, []),
        ("100l", 10, []),
    ],
)
def test_slot_remakes_its_object_at_first_episode_end_after_each_multiple(
    script: str, remake_every: int, expected: list[int]
) -> None:
    assert remade_at(script, remake_every, steps=60) == expected


def test_every_new_object_has_its_own_seed() -> None:
    made.clear()
    config = EnvironmentConfig(TASK, kwargs={"script": "2l"})
    environments = InProcess(config, streams(2, 2), remake_every=10)
    for time in range(1, 31):
        environments.step(np.zeros((4, 1), dtype=np.float32), time)
    assert len(made) == 4 * (1 + 3)
    assert made[:4] == [int(s.integers(2**31)) % MARKS for s in streams(2, 2)]
    assert len(set(made)) > 12


@pytest.mark.parametrize("steps", [9, 10, 12, 13, 27])
def test_slot_restored_after_remake_continues(steps: int) -> None:
    original, other = slot(remake_every=10), slot(seed=3, remake_every=10)
    for time in range(1, steps + 1):
        original.step(action_at(time), time)
    stream = copy.deepcopy(original.stream)
    assert other.restore({key: array.copy() for key, array in original.snapshot().items()})
    other.stream = stream
    for time in range(steps + 1, steps + 50):
        mine, theirs = (each.step(action_at(time), time) for each in (original, other))
        assert mine[0].tobytes() == theirs[0].tobytes()
        assert original.state.tobytes() == other.state.tobytes()
    assert original.made_at == other.made_at > 0
