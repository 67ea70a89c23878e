"""A policy file never makes td3 import a module that the user did not name."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import PendulumEnv

import td3
from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.errors import UserError
from td3.policy.file import read_policy_file, save_policy
from td3.policy.from_agent import policy_card, policy_tensors
from td3.policy.video import film

MODULE = """
from pathlib import Path

import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv

Path(__file__).with_suffix(".imported").touch()
gym.register("Planted-v0", PendulumEnv, max_episode_steps=20)
gym.register("Wide-v0", "gymnasium.envs.classic_control:Continuous_MountainCarEnv")
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a module `planted` that leaves a file `planted.imported` when it is run."""
    (tmp_path / "planted.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("planted", None)
    for env_id in ("Planted-v0", "Wide-v0"):
        gym.registry.pop(env_id, None)


def policy_file(folder: Path, env_id: Any, **kwargs: Any) -> Path:
    """Write a policy for Pendulum whose card names another task."""
    config = EnvironmentConfig(id="Pendulum-v1")
    agent = td3.TD3(3, 1, hidden_sizes=(8, 8), seed=3)
    card = policy_card(agent, Environment(config).task, config, {"max_steps": 5})
    card["environment"] |= {"id": env_id, "kwargs": kwargs}
    path = folder / "policy.safetensors"
    save_policy(policy_tensors(agent)[0], card, path)
    return path


def was_imported(folder: Path) -> bool:
    return (folder / "planted.imported").exists()


def test_load_policy_with_module_task_imports_nothing(planted: Path) -> None:
    policy = td3.load_policy(policy_file(planted, "planted:Planted-v0"))
    assert policy.environment.id == "planted:Planted-v0"
    assert not was_imported(planted)


def test_evaluate_module_task_is_refused_until_the_user_repeats_it(planted: Path) -> None:
    policy = td3.load_policy(policy_file(planted, "planted:Planted-v0"))
    advice = r'module planted. If .* policy\.evaluate\(environment="planted:Planted-v0"\)$'
    with pytest.raises(UserError, match=advice):
        policy.evaluate(episodes=1)
    assert not was_imported(planted)
    assert policy.evaluate(episodes=1, environment="planted:Planted-v0").lengths == [5]
    assert was_imported(planted)


def test_film_module_task_is_refused_until_the_user_repeats_it(planted: Path) -> None:
    policy = td3.load_policy(policy_file(planted, "planted:Planted-v0"))
    with pytest.raises(UserError, match=r'environment="planted:Planted-v0"'):
        film(policy, planted / "film", seconds=0.1)
    assert not was_imported(planted)
    mp4, _ = film(policy, planted / "film", seconds=0.1, environment="planted:Planted-v0")
    assert mp4.is_file()


def test_evaluate_module_that_is_already_imported_needs_no_repeat(planted: Path) -> None:
    """As after td3.train in the same process."""
    policy = td3.load_policy(policy_file(planted, "planted:Planted-v0"))
    importlib.import_module("planted")
    assert policy.evaluate(episodes=1).lengths == [5]


def test_evaluate_function_is_refused_even_if_its_module_is_imported(tmp_path: Path) -> None:
    """A card could name os:system, with any argument."""
    witness = tmp_path / "witness"
    policy = td3.load_policy(policy_file(tmp_path, "os:system", command=f"touch {witness}"))
    with pytest.raises(UserError, match=r'repeat it: policy.evaluate\(environment="os:system"\)'):
        policy.evaluate(episodes=1)
    with pytest.raises(UserError, match="environment="):
        film(policy, tmp_path / "film", seconds=0.1)
    assert not witness.exists()


def test_evaluate_function_of_another_program_is_refused(tmp_path: Path) -> None:
    for env_id in ("__main__:main", "__main__:<lambda>", "<my_tasks:Walker>"):
        policy = td3.load_policy(policy_file(tmp_path, env_id))
        with pytest.raises(UserError, match="exists only in the program or notebook"):
            policy.evaluate(episodes=1)
        assert policy.evaluate(episodes=1, environment=PendulumEnv).lengths == [5]


def test_evaluate_function_that_the_user_repeats_is_played(planted: Path) -> None:
    policy = td3.load_policy(policy_file(planted, "planted:PendulumEnv"))
    with pytest.raises(UserError, match="repeat it"):
        policy.evaluate(episodes=1)
    advice = r'repeat it: td3\.evaluate\(…, "planted:PendulumEnv"\)$'
    with pytest.raises(UserError, match=advice):
        td3.evaluate(planted / "policy.safetensors")
    assert not was_imported(planted)
    assert policy.evaluate(episodes=1, environment="planted:PendulumEnv").lengths == [5]


def test_evaluate_given_environment_replaces_the_one_in_the_card(planted: Path) -> None:
    policy = td3.load_policy(policy_file(planted, "planted:Planted-v0"))
    policy.evaluate(episodes=1, environment="Pendulum-v1")
    assert not was_imported(planted)
    policy.evaluate(episodes=1, environment="planted:Planted")  # the newest version


def test_evaluate_given_environment_that_does_not_fit_is_refused(planted: Path) -> None:
    policy = td3.load_policy(policy_file(planted, "planted:Planted-v0"))
    with pytest.raises(UserError, match="Wide-v0 now observes 2 numbers"):
        policy.evaluate(episodes=1, environment="planted:Wide-v0")


@pytest.mark.parametrize(
    "env_id", ["planted:a:Planted-v0", "planted:$(touch x)", "planted:\x1b[2J"]
)
def test_evaluate_strange_task_is_refused_without_advice_to_paste(
    planted: Path, env_id: str
) -> None:
    policy = td3.load_policy(policy_file(planted, env_id))
    with pytest.raises(UserError, match=r"names (no valid|the) task") as caught:
        policy.evaluate(episodes=1)
    assert "$(" not in str(caught.value).partition("repeat it")[2]
    assert "\x1b" not in str(caught.value)
    assert not was_imported(planted)


@pytest.mark.parametrize(
    "facts",
    [{"id": ["planted:X"]}, {"id": 3}, {"id": "Importing-v0", "kwargs": {"a": {"b": "planted.C"}}}],
)
def test_task_that_is_no_text_or_has_nested_arguments_is_refused(
    planted: Path, facts: dict[str, Any]
) -> None:
    path = policy_file(planted, "Importing-v0")
    card, tensors = read_policy_file(path)
    save_policy(tensors, {**card, "environment": facts}, path)
    with pytest.raises(UserError, match=r"does not fit its card: .*environment.* must be"):
        td3.load_policy(path)


class Importing(PendulumEnv):
    """Imports what its argument names, as compatibility layers and configurable tasks do."""

    def __init__(self, inner: str = "", render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        if inner.startswith("planted"):
            importlib.import_module(inner.replace(":", ".").partition(".")[0])


gym.register("Importing-v0", Importing)


@pytest.mark.parametrize("inner", ["planted:Planted-v0", "planted.Class"])
def test_evaluate_argument_that_names_a_module_is_refused(planted: Path, inner: str) -> None:
    policy = td3.load_policy(policy_file(planted, "Importing-v0", inner=inner))
    for environment in ("", "Importing-v0"):
        with pytest.raises(UserError, match=r"passes 'planted.* import the Python module planted"):
            policy.evaluate(episodes=1, environment=environment)
    assert not was_imported(planted)
    importlib.import_module("planted")
    policy.evaluate(episodes=1)


@pytest.mark.parametrize("inner", ["ant.xml", "./models/ant.xml", "rgb_array", "a: b", "json.x"])
def test_evaluate_argument_that_names_no_new_module_is_accepted(planted: Path, inner: str) -> None:
    policy = td3.load_policy(policy_file(planted, "Importing-v0", inner=inner))
    assert policy.evaluate(episodes=1).lengths == [5]
