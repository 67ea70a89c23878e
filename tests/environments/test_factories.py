"""Classes and functions as environments: their names, and what is refused."""

import functools
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import PendulumEnv
from support import worker_tasks
from support.worker_tasks import Counting, make_counting

from td3.config import EnvironmentConfig
from td3.environments import factories
from td3.environments.environment import Environment
from td3.environments.factories import find_factory, is_importable, name_environment
from td3.environments.simulators import resolve_version
from td3.errors import UserError


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test begin as a new process does."""
    monkeypatch.setattr(factories, "GIVEN", factories.GIVEN)
    before = dict(factories.GIVEN)
    factories.GIVEN.clear()
    yield  # type: ignore[misc]
    factories.GIVEN.clear()
    factories.GIVEN.update(before)


class Outer:
    class Inner(Counting): ...


@pytest.mark.parametrize(
    ("given", "name", "kwargs"),
    [
        ("Pendulum-v1", "Pendulum-v1", {}),
        (Counting, "support.worker_tasks:Counting", {}),
        (make_counting, "support.worker_tasks:make_counting", {}),
        (functools.partial(Counting, at=5), "support.worker_tasks:Counting", {"at": 5}),
        (
            functools.partial(functools.partial(Counting, at=5, only=1), at=7),
            "support.worker_tasks:Counting",
            {"at": 7, "only": 1},
        ),
    ],
)
def test_name_environment_of_importable_object_is_its_import_path(
    given: Any, name: str, kwargs: dict[str, Any]
) -> None:
    assert name_environment(given) == (name, kwargs)
    assert is_importable(name)


def test_name_environment_of_nested_class_can_be_imported() -> None:
    name, _ = name_environment(Outer.Inner)
    assert name == f"{__name__}:Outer.Inner"
    factories.GIVEN.clear()
    assert find_factory(name) is Outer.Inner


class Maker:
    def __call__(self) -> gym.Env[Any, Any]:
        return Counting()


def test_name_environment_of_other_objects_is_readable_and_unique() -> None:
    one, other = (lambda: Counting(), lambda: Counting())
    names = [name_environment(own)[0] for own in (one, other, one)]
    assert names[0] == names[2]
    assert names[1] == f"{names[0]}-2"
    assert "<lambda>" in names[0]
    for made in (one, functools.partial(Counting, "raise"), Maker()):
        name, kwargs = name_environment(made)
        assert kwargs == {}
        assert not is_importable(name)
        assert Environment(EnvironmentConfig(name)).task.state_dim == 3


def test_name_environment_of_replaced_object_is_not_the_import_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker would import the other object."""
    original = worker_tasks.make_counting
    monkeypatch.setattr(worker_tasks, "make_counting", Counting)
    assert name_environment(original)[0] == "<support.worker_tasks:make_counting>"


def test_name_environment_of_main_objects_names_main(monkeypatch: pytest.MonkeyPatch) -> None:
    def make_env() -> gym.Env[Any, Any]:
        return Counting()

    make_env.__module__, make_env.__qualname__ = "__main__", "make_env"
    name, _ = name_environment(make_env)
    assert name == "__main__:make_env"
    assert not is_importable(name)
    assert find_factory(name) is make_env
    factories.GIVEN.clear()
    with pytest.raises(UserError, match="exists only in the program or notebook"):
        find_factory(name)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (Counting(), "pass its class, or a function that returns a new environment"),
        (int, "derive it from gymnasium.Env"),
        (3, "must be an id such as 'Pendulum-v1'"),
        (None, "must be an id such as 'Pendulum-v1'"),
    ],
)
def test_name_environment_of_wrong_object_is_refused(given: Any, advice: str) -> None:
    with pytest.raises(UserError, match=advice):
        name_environment(given)


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("support.worker_tasks:make_countng", "has no 'make_countng'.*mean 'make_counting'"),
        ("support.worker_tasks:MARKS", "not 1048576"),
        ("no_such_module:make", "importing no_such_module failed"),
        ("os:getpid", "returned int, not a gymnasium.Env"),
        ("support.worker_tasks:same", "returned the same environment twice"),
        ("support.worker_tasks:Counting", "unexpected keyword argument 'wrong'"),
    ],
)
def test_environment_that_cannot_be_made_is_explained(env_id: str, message: str) -> None:
    kwargs = {"wrong": 1} if env_id.endswith(":Counting") else {}
    config = EnvironmentConfig(env_id, kwargs=kwargs)  # type: ignore[arg-type]
    if env_id.endswith(":same"):
        Environment(config)
    with pytest.raises(UserError, match=message):
        Environment(config)


def test_registered_id_comes_before_an_object_of_the_same_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registered = gym.envs.registration.EnvSpec("make_counting", PendulumEnv)
    monkeypatch.setitem(gym.registry, "make_counting", registered)
    environment = Environment(EnvironmentConfig("support.worker_tasks:make_counting"))
    assert isinstance(environment.env.unwrapped, PendulumEnv)


def test_typed_name_without_version_is_the_registered_id_but_a_given_class_is_the_class() -> None:
    """Counting-v0 is registered in the module that has the class Counting."""
    typed = "support.worker_tasks:Counting"
    assert resolve_version(typed) == "support.worker_tasks:Counting-v0"
    name, _ = name_environment(Counting)
    assert resolve_version(name) == name == typed


def test_kwargs_reach_the_function_and_render_mode_only_if_it_is_taken() -> None:
    config = EnvironmentConfig("support.worker_tasks:make_counting", kwargs={"at": 9})
    environment = Environment(config, render_mode="rgb_array")
    assert environment.env.unwrapped.at == 9  # type: ignore[attr-defined]
    shown = EnvironmentConfig("gymnasium.envs.classic_control:PendulumEnv")
    assert Environment(shown, render_mode="rgb_array").env.render_mode == "rgb_array"


@pytest.mark.parametrize(
    ("env_id", "limit", "length"),
    [
        ("Pendulum-v1", 0, 200),
        ("Pendulum-v1", 30, 30),
        ("Pendulum-v1", 230, 230),
        ("gymnasium.envs.classic_control:PendulumEnv", 30, 30),
    ],
)
def test_max_episode_steps_truncates_every_environment(
    env_id: str, limit: int, length: int
) -> None:
    environment = Environment(EnvironmentConfig(env_id, max_episode_steps=limit))
    environment.reset(seed=0)
    ends = [environment.step(environment.task.bounds.low * 0)[2:] for _ in range(length)]
    assert ends[-1] == (False, True)
    assert set(ends[:-1]) == {(False, False)}


def test_class_without_time_limit_never_ends() -> None:
    environment = Environment(EnvironmentConfig("gymnasium.envs.classic_control:PendulumEnv"))
    environment.reset(seed=0)
    assert not any(any(environment.step(environment.task.bounds.low)[2:]) for _ in range(300))


def test_module_in_the_current_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "walkers.py").write_text(
        "from gymnasium.envs.classic_control import PendulumEnv\n\ndef make():\n"
        "    return PendulumEnv()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert Environment(EnvironmentConfig("walkers:make")).task.action_dim == 1
