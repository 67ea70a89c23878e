"""NaN, infinity and divergence stop a run before they are stored or saved."""

import math
import subprocess
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from support.run_tools import command, flags, tiny, train_in_pieces

from td3.algorithm.replay import ReplayBuffer
from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.errors import RunStopped, UserError
from td3.launch.resume import resume
from td3.launch.session import open_training
from td3.launch.start import start
from td3.run.checkpoint import newest_checkpoint
from td3.run.folder import create
from td3.run.memory import check_memory, example_task
from td3.signals import StopRequest


class Faulty(gym.Env[np.ndarray[Any, Any], np.ndarray[Any, Any]]):
    """Returns a bad number once, at a given step; or is not deterministic."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    objects = 0

    def __init__(self, field: str = "", value: float = math.nan, at: int = 150) -> None:
        self.field, self.value, self.at = field, float(value), int(at)
        self.steps = 0
        type(self).objects += 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observe(), {}

    def observe(self) -> np.ndarray[Any, Any]:
        own = self.objects if self.field == "random" else 0
        return np.array([self.steps / 100, own], dtype=np.float32)

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, reward = self.observe(), float(-(action[0] ** 2))
        if self.steps == self.at:
            if self.field == "reward":
                reward = self.value
            elif self.field == "observation":
                observation[1] = self.value
        return observation, reward, False, self.steps % 40 == 0, {}


gym.register("Faulty-v0", entry_point=Faulty)


@pytest.mark.parametrize("field", ["observation", "reward"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("at", [1, 57, 117])
def test_bad_number_stops_the_run_at_its_step(
    field: str, value: float, at: int, tmp_path: Path
) -> None:
    kwargs = {"field": field, "value": value, "at": at}
    config = tiny(environment={"id": "Faulty-v0", "kwargs": kwargs}, evaluation={"every": 10_000})
    folder = create(config, tmp_path / "run")
    with open_training(config, folder, None) as training:
        training.evaluate = lambda: None  # type: ignore[method-assign]
        with pytest.raises(
            RunStopped, match=f"Faulty-v0 returned a non-finite {field}.*step {at}$"
        ):
            training.loop(StopRequest())
        assert training.replay.added[0] == at - 1
        if training.replay.rows is not None:
            assert bool(torch.isfinite(training.replay.rows).all())
    found = newest_checkpoint(folder, ReplayBuffer(400, seed=0))
    assert (found.step if found else 0) == (at - 1) // 100 * 100


def test_divergence_stops_the_run_within_one_logging_interval(tmp_path: Path) -> None:
    config = tiny(
        agent={"critic_learning_rate": 1e30, "actor_learning_rate": 1e30},
        checkpoint={"every": 10},
        loop={"log_every": 50, "random_steps": 40},
    )
    with pytest.raises(RunStopped, match=r"diverged|no longer finite") as caught:
        start(config, tmp_path / "run")
    found = newest_checkpoint(tmp_path / "run", ReplayBuffer(400, seed=0))
    assert found is not None
    # No advice to resume: it would diverge again.
    assert str(caught.value).endswith(f"Saved up to step {found.step}.")
    assert 40 <= found.step <= 100
    assert all(bool(torch.isfinite(t).all()) for t in found.tensors.values())


def test_resume_of_a_nondeterministic_environment_warns(tmp_path: Path) -> None:
    config = tiny(environment={"id": "Faulty-v0", "kwargs": {"field": "random"}})
    warnings = train_in_pieces(config, tmp_path / "run", [130])
    assert len(warnings) == 1
    assert warnings[0].startswith("not exact: Faulty-v0 is not deterministic: environment 0")


def test_resume_with_another_library_version_warns(tmp_path: Path) -> None:
    train_in_pieces(tiny(loop={"steps": 200}), tmp_path / "run", [])
    settings = tmp_path / "run" / "config.toml"
    text = settings.read_text()
    assert f'gymnasium = "{gym.__version__}"' in text
    settings.write_text(text.replace(f'gymnasium = "{gym.__version__}"', 'gymnasium = "0.0.1"'))
    assert resume(tmp_path / "run", steps=300) == 0
    events = (tmp_path / "run" / "events.jsonl").read_text()
    assert f"not exact: gymnasium was 0.0.1, is {gym.__version__}" in events


def test_replay_buffer_larger_than_memory_raises_with_the_sizes(tmp_path: Path) -> None:
    config = tiny(loop={"replay_size": 10**13})
    with pytest.raises(
        UserError, match=r"needs 360000\.0 GB .* but only [\d.]+ GB of memory are free"
    ):
        start(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    check_memory(tiny(), example_task(3, 1))


def test_faulty_environment_without_a_fault_steps() -> None:
    """Control: the tests above fail because of the bad number and nothing else."""
    environment = Environment(EnvironmentConfig(id="Faulty-v0"))
    environment.reset(seed=0)
    ends = [step for step in range(1, 301) if environment.step(np.zeros(1))[3]]
    assert ends == [40, 80, 120, 160, 200, 240, 280]


def test_resume_with_changed_code_of_the_environment_warns_even_if_quiet(tmp_path: Path) -> None:
    module = tmp_path / "changing.py"
    module.write_text(
        "from gymnasium.envs.classic_control import PendulumEnv\n"
        "class Changing(PendulumEnv):\n"
        "    def step(self, action):\n"
        "        state, reward, *rest = super().step(action)\n"
        "        return state, 1 * reward, False, False, {}\n"
    )
    config = tiny(environment={"id": "changing:Changing", "max_episode_steps": 50})

    def run(*words: str) -> str:
        done = subprocess.run(
            command(*words, "--quiet"), capture_output=True, text=True, check=True, cwd=tmp_path
        )
        return done.stderr

    assert run("train", *flags(config), "--run", "run") == ""
    assert "environment" not in run("resume", "run", "--steps", "650")
    module.write_text(module.read_text().replace("1 * reward", "-7 * reward"))
    assert "! not exact: environment was source " in run("resume", "run", "--steps", "700")
