"""EnvPool: a vector that is seeded when it is made, and says that it is another simulator."""

import dataclasses
import sys
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from td3.config import Config, EnvironmentConfig
from td3.environments.backend import arranged
from td3.environments.envpool import EnvPool
from td3.errors import UserError
from td3.seeding import Stream, Streams

CONFIG = Config(EnvironmentConfig("Pendulum-v1", vectorization="envpool"))


def streams(count: int) -> list[Stream]:
    return [Streams.from_seed(seed).env for seed in range(count)]


class Pool(SyncVectorEnv):
    """What EnvPool is to us: a vector in next-step mode whose seeds are given when it is made."""

    def __init__(self, env_id: str, seeds: list[int]) -> None:
        super().__init__([lambda: gym.make(env_id)] * len(seeds))
        self.seeds = seeds

    def reset(self, **nothing: Any) -> Any:
        assert nothing == {}
        return super().reset(seed=self.seeds)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A stand-in for the library; lists what was made."""
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


def test_its_seeds_come_from_the_agents_streams(made: list[Any]) -> None:
    environments = arranged(CONFIG, streams(3))
    assert isinstance(environments, EnvPool)
    assert made == [[0, 0, 0], [int(stream.integers(2**31)) for stream in streams(3)]]
    first = environments.states
    environments.step(np.zeros((3, 1), dtype=np.float32), 1)
    strayed, reason = environments.restore({})
    assert strayed == [0, 1, 2]
    assert "began new episodes" in reason
    assert not np.array_equal(environments.states, first)
    assert made[2] != made[1]
    environments.close()


def test_it_says_that_it_is_another_simulator(made: list[Any]) -> None:
    environments = arranged(CONFIG, streams(1))
    assert environments.remark.startswith("not exact: EnvPool is another build of the simulator")
    environments.close()


def test_what_it_cannot_do_is_one_sentence(
    made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = dataclasses.replace(CONFIG.environment, id="Nothing-v0")
    with pytest.raises(UserError, match="EnvPool has no Nothing-v0; use workers"):
        EnvPool.make(strange, streams(1))
    unknown = dataclasses.replace(CONFIG.environment, kwargs={"gravity": 1.0})
    with pytest.raises(UserError, match="EnvPool cannot make Pendulum-v1: unknown"):
        EnvPool.make(unknown, streams(1))
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(UserError, match=r"pip install 'td3\[envpool\]'"):
        EnvPool.make(CONFIG.environment, streams(1))


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Pendulum-v1"])
def test_the_real_one(task: str) -> None:
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
