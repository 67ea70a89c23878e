"""The description of an environment's code changes with the code, and only with it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.environments.source import describe_code

MODULE = """
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv
import used_by_own_task
class Task(PendulumEnv):
    def step(self, action):
        state, reward, *rest = super().step(action)
        return state, FACTOR * used_by_own_task.scale(reward), *rest
FACTOR = 1
def make(render_mode=None):
    return Task()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own_task.py").write_text(MODULE)
    (tmp_path / "used_by_own_task.py").write_text("def scale(reward):\n    return reward\n")
    yield tmp_path
    forget()


def forget() -> None:
    for name in ("own_task", "used_by_own_task"):
        sys.modules.pop(name, None)


def describe(task: str, **kwargs: str) -> str:
    environment = Environment(EnvironmentConfig(task, kwargs=dict(kwargs)))
    environment.close()
    return describe_code(environment)


@pytest.mark.parametrize("name", ["Task", "make"])
@pytest.mark.parametrize("file", ["own_task.py", "used_by_own_task.py"])
def test_description_changes_with_each_file_of_the_user(name: str, file: str, folder: Path) -> None:
    first = describe(f"own_task:{name}")
    assert first.startswith("source ")
    assert describe(f"own_task:{name}") == first
    path = folder / file
    path.write_text(path.read_text().replace("return ", "return -7 * ", 1))
    forget()
    assert describe(f"own_task:{name}") != first


def test_description_of_installed_tasks_has_versions_and_no_files() -> None:
    assert describe("Pendulum-v1") == ""
    assert "source" not in describe("HalfCheetah-v5")
    pytest.importorskip("pybullet_envs_gymnasium")
    assert describe("AntBulletEnv-v0").startswith("pybullet_envs_gymnasium ")


def test_description_covers_a_model_file_of_the_user(folder: Path) -> None:
    pytest.importorskip("mujoco")
    import gymnasium

    source = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "half_cheetah.xml"
    model = folder / "cheetah.xml"
    model.write_text(source.read_text())
    first = describe("HalfCheetah-v5", xml_file=str(model))
    model.write_text(model.read_text().replace('damping="6"', 'damping="5"'))
    assert first.startswith("source ")
    assert describe("HalfCheetah-v5", xml_file=str(model)) != first
