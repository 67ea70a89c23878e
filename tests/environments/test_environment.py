"""Environments: made from ids and user modules; their errors stop the run in order."""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.environments.factories import name_environment
from td3.environments.simulators import SIMULATORS, resolve_version
from td3.errors import RunStopped, UserError


@pytest.mark.parametrize(
    ("env_id", "meant"),
    [
        ("Pendulm-v1", "Pendulum-v1"),
        ("Pendulum-v99", "Pendulum-v1"),
        ("HalfCheeta-v5", "HalfCheetah-v5"),
        ("MountainCarContinous-v0", "MountainCarContinuous-v0"),
        ("halfcheetah-v5", "HalfCheetah-v5"),
        ("antbulletenv-v0", "AntBulletEnv-v0"),
    ],
)
def test_unknown_id_suggests_the_nearest_name(env_id: str, meant: str) -> None:
    with pytest.raises(UserError) as caught:
        Environment(EnvironmentConfig(env_id))
    assert str(caught.value) == f"No environment {env_id!r} is registered. Did you mean {meant!r}?"


@pytest.mark.parametrize("env_id", ["no_such_module:Mine-v0", "two:many:Colons-v0"])
def test_id_with_missing_module_raises_user_error(env_id: str) -> None:
    with pytest.raises(UserError) as caught:
        Environment(EnvironmentConfig(env_id))
    message = str(caught.value)
    assert env_id in message
    assert message.endswith(".")
    assert not message.endswith("..")
    assert "\n" not in message


def test_unknown_keyword_argument_raises_user_error() -> None:
    with pytest.raises(UserError, match=r"Pendulum-v1.*gravty"):
        Environment(EnvironmentConfig("Pendulum-v1", kwargs={"gravty": 1.0}))


OWN_TASK = '''
import gymnasium as gym
import numpy as np


class Mine(gym.Env):
    """Asserts that every action lies in its action space."""

    observation_space = gym.spaces.Dict(
        place=gym.spaces.Box(-9, 9, (1, 2)), lap=gym.spaces.Discrete(3)
    )
    action_space = gym.spaces.Box(np.array([0.0, -5.0]), np.array([1.0, 10.0]), dtype=np.float64)

    def __init__(self, length=3, bad=""):
        self.length, self.bad = length, bad

    def observation(self):
        place = np.full((1, 2), self.time + 0.5, dtype=np.float32)
        if self.bad == "observation" and self.time == 2:
            place[0, 1] = np.nan
        return {"place": place, "lap": self.time % 3}

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observation(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        reward = np.nan if self.bad == "reward" and self.time == 2 else float(action.sum())
        return self.observation(), reward, self.time == self.length, False, {}


gym.register("Mine-v0", entry_point=Mine)
'''


@pytest.fixture
def own_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The id of an environment in a user module."""
    (tmp_path / "my_tasks.py").write_text(OWN_TASK, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_tasks:Mine-v0"
    sys.modules.pop("my_tasks", None)
    gym.registry.pop("Mine-v0", None)


def test_environment_from_a_user_module_works(own_task: str) -> None:
    environment = Environment(EnvironmentConfig(own_task, kwargs={"length": 2}))
    assert environment.task.state_dim == 5
    assert environment.task.action_dim == 2
    lap_then_place = spaces.flatten(
        environment.env.observation_space, {"lap": 0, "place": np.full((1, 2), 0.5)}
    )
    np.testing.assert_array_equal(environment.reset(seed=0), lap_then_place)
    state, reward, terminated, truncated = environment.step(np.array([-1, 1], dtype=np.float32))
    assert sorted(state.tolist()) == [0, 0, 1, 1.5, 1.5]
    assert (reward, terminated, truncated) == (10.0, False, False)
    assert environment.step(np.array([1, -1], dtype=np.float32))[1:] == (-4.0, True, False)
    environment.close()


@pytest.mark.parametrize("field", ["observation", "reward"])
def test_nan_from_a_simulator_stops_at_that_step(own_task: str, field: str) -> None:
    environment = Environment(EnvironmentConfig(own_task, kwargs={"bad": field}))
    environment.reset(seed=0)
    environment.step(np.zeros(2, dtype=np.float32))
    with pytest.raises(RunStopped, match=rf"my_tasks:Mine-v0 returned a non-finite {field} \(nan"):
        environment.step(np.zeros(2, dtype=np.float32))
    environment.close()


class Exiting(gym.Env[Any, Any]):
    """Exits Python when stepped."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        sys.exit(0)


class Returns(Exiting):
    """Returns something else than Gymnasium's tuples."""

    def __init__(self, first: Any, then: Any) -> None:
        self.first, self.then = first, then

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.first

    def step(self, action: Any) -> Any:
        return self.then


ZERO = np.zeros(1, np.float32)
STEP = "step() must return observation, reward, terminated, truncated, info; it returned "
RESET = "reset() must return observation, info; it returned "


@pytest.mark.parametrize("limit", [0, 10], ids=["bare", "wrapped"])
@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        ((ZERO, {}), (ZERO, 0.0, False, {}), STEP + "4 values"),
        ((ZERO, {}), None, STEP + "NoneType"),
        (ZERO, None, RESET + "ndarray"),
        (None, None, RESET + "NoneType"),
        ((ZERO, {}, 1), None, RESET + "3 values"),
    ],
)
def test_environment_with_old_returns_is_told_what_to_return(
    first: Any, then: Any, expected: str, limit: int
) -> None:
    name, _ = name_environment(lambda: Returns(first, then))
    environment = Environment(EnvironmentConfig(name, max_episode_steps=limit))

    def play() -> None:
        environment.reset(seed=0)
        environment.step(np.zeros(1, np.float32))

    with pytest.raises(RunStopped) as caught:
        play()
    assert str(caught.value) == f"{name}: {expected}"


class FailsInNumpy(Exiting):
    def step(self, action: Any) -> Any:
        return np.stack([])  # raised in a file of NumPy


def test_environment_that_raises_in_a_library_is_placed_in_its_own_file() -> None:
    name, _ = name_environment(lambda: FailsInNumpy())
    environment = Environment(EnvironmentConfig(name))
    environment.reset(seed=0)
    line = FailsInNumpy.step.__code__.co_firstlineno + 1
    with pytest.raises(
        RunStopped, match=rf"raised ValueError: .* \(test_environment\.py, line {line}\)$"
    ):
        environment.step(np.zeros(1, np.float32))


class ChangesFilters(Exiting):
    """Changes the global warning filters."""

    def __init__(self) -> None:
        warnings.simplefilter("always", DeprecationWarning)


def test_making_an_environment_keeps_the_warning_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "import warnings\nwarnings.simplefilter('always', DeprecationWarning)\n"
    (tmp_path / "loud_simulator.py").write_text(lines)  # dm_control does this
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(SIMULATORS, "ChangesFilters", ("loud_simulator", "dm-control"))
    monkeypatch.setitem(
        gym.registry, "ChangesFilters-v0", EnvSpec("ChangesFilters-v0", ChangesFilters)
    )
    before = list(warnings.filters)
    assert resolve_version("ChangesFilters-v0") == "ChangesFilters-v0"
    assert warnings.filters == before
    Environment(EnvironmentConfig("ChangesFilters-v0"))
    assert warnings.filters == before


def test_simulator_that_exits_python_stops_the_run() -> None:
    gym.register("Exiting-v0", Exiting)
    environment = Environment(EnvironmentConfig("Exiting-v0"))
    environment.reset(seed=0)
    with pytest.raises(
        RunStopped, match=r"^Exiting-v0 raised SystemExit: 0 \(test_environment\.py, line \d+\)$"
    ):
        environment.step(np.zeros(1, np.float32))
    gym.registry.pop("Exiting-v0")


@pytest.mark.parametrize(
    ("env_id", "full"),
    [
        ("Pendulum", "Pendulum-v1"),
        ("Pendulum-v1", "Pendulum-v1"),
        ("support.find:Find", "support.find:Find-v0"),
        ("dm_control/cheetah-run", "dm_control/cheetah-run-v0"),
        ("NoSuch", "NoSuch"),
        ("no_such_module:Task", "no_such_module:Task"),
        ("not an id!", "not an id!"),
    ],
)
def test_resolve_version_appends_the_highest_version(env_id: str, full: str) -> None:
    assert resolve_version(env_id) == full


@pytest.mark.parametrize("line", ["1 / 0", "import sys; sys.exit(3)", "not python"])
def test_broken_user_module_is_reported_by_make(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_task.py").write_text(line)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert resolve_version("broken_task:Some") == "broken_task:Some"
    with pytest.raises(UserError, match="Cannot make broken_task:Some"):
        Environment(EnvironmentConfig("broken_task:Some"))


def test_simulator_package_that_fails_to_import_raises_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no_renderer.py").write_text("None.glGetError")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(SIMULATORS, "drawn", ("no_renderer", "dm-control"))
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(UserError, match=r"^Cannot import no_renderer, which Drawn-v0 needs: "):
        Environment(EnvironmentConfig("Drawn-v0"))
    with pytest.raises(UserError, match=r"glGetError' \(MUJOCO_GL=osmesa: is its library"):
        resolve_version("Drawn-v0")
