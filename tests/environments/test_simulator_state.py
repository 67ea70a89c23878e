"""The saved state of a simulator continues exactly; histories stay short in endless episodes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv
from support.run_tools import different, tiny, train_in_pieces

from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.environments.factories import name_environment
from td3.environments.replayable import ReplayableEnvironment
from td3.environments.simulator_state import load_state, save_state
from td3.seeding import Streams

EXACT = ["Pendulum-v1", "MountainCarContinuous-v0"]
EXACT += [f"{name}-v5" for name in ("HalfCheetah", "Ant", "Humanoid", "Hopper", "Reacher")]


def action(environment: Environment, random: np.random.Generator) -> Any:
    return random.uniform(-1, 1, environment.task.action_dim).astype(np.float32)


@pytest.mark.parametrize("task", EXACT)
def test_new_simulator_with_a_saved_state_continues_byte_by_byte(task: str) -> None:
    config = EnvironmentConfig(task, max_episode_steps=150)
    one, other = Environment(config), Environment(config)
    random = np.random.default_rng(0)
    one.reset(seed=3)
    for _ in range(70):
        *_, terminated, truncated = one.step(action(one, random))
        if terminated or truncated:
            one.reset()
    saved = save_state(one)
    assert saved
    other.reset(seed=4)
    load_state(other, saved)
    for _ in range(400):
        chosen = action(one, random)
        mine, theirs = one.step(chosen), other.step(chosen)
        assert mine[0].tobytes() == theirs[0].tobytes()
        assert mine[1:] == theirs[1:]
        if mine[2] or mine[3]:
            assert one.reset().tobytes() == other.reset().tobytes()


class Endless(PendulumEnv):
    """Pendulum with noise, a memory in plain attributes, and no time limit."""

    def __init__(self, hidden: bool = False) -> None:
        super().__init__()
        self.seen: list[float] = []
        self.hidden = iter(range(10**9)) if hidden else 0

    def step(self, action: Any) -> Any:
        self.seen = [*self.seen, self.np_random.normal()][-3:]
        state, reward, *rest = super().step(np.clip(action + self.seen[0], -2, 2))
        return state, reward, *rest


class Forgetful(Endless):
    """Its state is more than its attributes tell."""

    TOTAL = 0.0

    def step(self, action: Any) -> Any:
        type(self).TOTAL += float(action[0])
        state, *rest = super().step(action)
        return state + np.float32(1e-3 * np.sin(type(self).TOTAL)), *rest


def endless(kind: type[Endless], **kwargs: Any) -> ReplayableEnvironment:
    name, _ = name_environment(lambda: kind(**kwargs))
    return ReplayableEnvironment(EnvironmentConfig(name), Streams.from_seed(0).env, 200)


def test_history_of_an_endless_episode_stays_short_and_restores_exactly() -> None:
    one, random = endless(Endless), np.random.default_rng(0)
    sizes = []
    for now in range(1, 2001):
        one.step(action(one.environment, random), now)
        if now % 200 == 0:
            saved = {key: array.copy() for key, array in one.snapshot().items()}
            sizes.append(sum(array.nbytes for array in saved.values()))
    assert len(one.actions) == 200
    assert max(sizes[6:]) <= max(sizes[:6])
    other = endless(Endless)
    assert other.restore(saved)
    for now in range(2001, 2300):
        chosen = action(one.environment, random)
        assert one.step(chosen, now)[0].tobytes() == other.step(chosen, now)[0].tobytes()


@pytest.mark.parametrize(("kind", "hidden"), [(Endless, True), (Forgetful, False)])
def test_history_stays_long_where_the_state_cannot_be_saved_exactly(
    kind: type[Endless], hidden: bool
) -> None:
    one, random = endless(kind, hidden=hidden), np.random.default_rng(0)
    for now in range(1, 1201):
        one.step(action(one.environment, random), now)
        if now % 200 == 0:
            one.snapshot()
    assert len(one.actions) == 1200
    assert not one.is_exact


@pytest.mark.parametrize("vectorization", ["own", "workers"])
def test_run_with_endless_episodes_resumes_exactly_with_flat_checkpoints(
    vectorization: str, tmp_path: Path
) -> None:
    config = tiny(
        environment={
            "id": "HalfCheetah-v5",
            "max_episode_steps": 10**6,
            "vectorization": vectorization,
            "workers": int(vectorization == "workers"),
        },
        loop={"steps": 1200},
        evaluation={"every": 5000, "max_steps": 50},
    )
    assert train_in_pieces(config, tmp_path / "whole", []) == []
    assert train_in_pieces(config, tmp_path / "pieces", [500, 800, 900]) == []
    assert different(tmp_path / "whole", tmp_path / "pieces") == []


def test_hostile_state_restarts_the_episode_instead_of_raising() -> None:
    one = endless(Endless)
    bad = np.frombuffer(b"no tensors", np.uint8)
    saved = one.snapshot() | {"origin": bad, "later": bad, "marks": np.array([0, 0])}
    assert not one.restore(saved)
