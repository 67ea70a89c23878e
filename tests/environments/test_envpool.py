"""EnvPool takes its seeds when it is made and warns that its numbers differ."""

import dataclasses
import sys
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from td3.config import Config, EnvironmentConfig
from td3.environments.backend import make_environments
from td3.environments.envpool import EnvPool
from td3.errors import UserError
from td3.seeding import Stream, Streams

CONFIG = Config(EnvironmentConfig("Pendulum-v1", vectorization="envpool"))


def streams(count: int) -> list[Stream]:
    return [Streams.from_seed(seed).env for seed in range(count)]


class Pool(SyncVectorEnv):
    """Behaves like EnvPool: a vector in next-step mode that takes its seeds when it is made."""

    def __init__(self, env_id: str, seeds: list[int]) -> None:
        super().__init__([lambda: gym.make(env_id)] * len(seeds))
        self.seeds = seeds

    def reset(self, **arguments: Any) -> Any:
        assert arguments == {}
        return super().reset(seed=self.seeds)


@pytest.fixture
def seeds_made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace the library; return the seeds of each vector that is made."""
    found = []

    def make(env_id: str, env_type: str, num_envs: int, seed: list[int], **kwargs: Any) -> Pool:
        assert env_type == "gymnasium"
        if kwargs:
            raise TypeError(f"unknown {kwargs}")
        found.append(seed)
        return Pool(env_id, seed)

    fake = SimpleNamespace(make=make, list_all_envs=lambda: ["Pendulum-v1"])
    monkeypatch.setitem(sys.modules, "envpool", fake)
    return found


def test_envpool_takes_seeds_from_the_agents_streams(seeds_made: list[Any]) -> None:
    environments = make_environments(CONFIG, streams(3))
    assert isinstance(environments, EnvPool)
    assert seeds_made == [[0, 0, 0], [int(stream.integers(2**31)) for stream in streams(3)]]
    first = environments.states
    environments.step(np.zeros((3, 1), dtype=np.float32), 1)
    diverged, reason = environments.restore({})
    assert diverged == [0, 1, 2]
    assert "restarted with new episodes" in reason
    assert not np.array_equal(environments.states, first)
    assert seeds_made[2] != seeds_made[1]
    environments.close()


def test_envpool_warns_that_its_numbers_differ(seeds_made: list[Any]) -> None:
    environments = make_environments(CONFIG, streams(1))
    assert environments.warning.startswith(
        "not exact: EnvPool is a different build of the simulator"
    )
    environments.close()


def test_envpool_make_with_bad_settings_raises_user_error(
    seeds_made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown_id = dataclasses.replace(CONFIG.environment, id="Nothing-v0")
    with pytest.raises(UserError, match=r"EnvPool has no Nothing-v0; use .* workers"):
        EnvPool.make(unknown_id, streams(1))
    unknown_kwargs = dataclasses.replace(CONFIG.environment, kwargs={"gravity": 1.0})
    with pytest.raises(UserError, match="EnvPool cannot make Pendulum-v1: unknown"):
        EnvPool.make(unknown_kwargs, streams(1))
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(UserError, match=r"pip install 'td3\[envpool\]'"):
        EnvPool.make(CONFIG.environment, streams(1))


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Pendulum-v1"])
def test_installed_envpool_steps_and_resets(task: str) -> None:
    pytest.importorskip("envpool")
    config = dataclasses.replace(CONFIG.environment, id=task)
    environments = EnvPool.make(config, streams(4))
    dim = environments.task.action_dim
    resets = 0
    for now in range(1, 1010):
        before = environments.states
        steps = environments.step(np.zeros((4, dim), dtype=np.float32), now)
        assert steps.next_states.shape == before.shape
        resets += int((~steps.real).sum())
    assert resets >= 4
    environments.close()
