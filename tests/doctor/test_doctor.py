"""Environments with one thing wrong each, and what the doctor says about them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import tyro
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from td3.cli import parse
from td3.cli.doctor import Arguments, run, show
from td3.cli.train import Arguments as TrainArguments
from td3.cli.train import default, settled
from td3.config import EnvironmentConfig
from td3.doctor import diagnosis as doctor
from td3.doctor.inspection import Check
from td3.environments.environment import Environment
from td3.errors import UserError
from td3.layout import has_images


class Sound(gym.Env[Any, Any]):
    """Nothing wrong: two numbers that wander, and a reward of the size of 1."""

    observation_space: spaces.Space[Any] = spaces.Box(-50, 50, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        self.state = self.np_random.uniform(-1, 1, 2)
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        self.state = 0.9 * self.state + 0.1 * self.np_random.normal(size=2) + 0.1 * action[0]
        return self.observation(), self.reward(action), self.terminated(), False, {}

    def observation(self) -> NDArray[np.float32]:
        return self.state.astype(np.float32)

    def reward(self, action: Any) -> float:
        return 1 + float(self.state[0])

    def terminated(self) -> bool:
        return bool(self.np_random.random() < 0.02)


class BecomesNan(Sound):
    def observation(self) -> NDArray[np.float32]:
        state = super().observation()
        return state if self.time < 40 else np.array([state[0], np.nan], np.float32)

    def terminated(self) -> bool:
        return False


class InfiniteReward(Sound):
    def reward(self, action: Any) -> float:
        return float("inf") if self.time == 5 else 1.0


class Raises(Sound):
    def reward(self, action: Any) -> float:
        if self.time == 7:
            raise ZeroDivisionError("float division by zero")
        return 1.0


class Leaves(Sound):
    def reward(self, action: Any) -> float:
        raise SystemExit("licence has expired")


class Unbounded(Sound):
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)


class DiscreteActions(Sound):
    action_space = spaces.Discrete(3)


class Films(Sound):
    observation_space = spaces.Box(0, 255, (4, 64, 64, 3), np.uint8)


class Unrepeatable(Sound):
    def observation(self) -> NDArray[np.float32]:
        noise = np.random.default_rng().normal(size=2) if self.time == 3 else 0.0
        return (self.state + noise).astype(np.float32)


class BadlyScaled(Sound):
    observation_space = spaces.Box(-1e9, 1e9, (2,), np.float32)

    def observation(self) -> NDArray[np.float32]:
        return (self.state * [1, 1e5]).astype(np.float32)


class PictureAndBadlyScaled(Sound):
    observation_space = spaces.Dict(
        view=spaces.Box(0, 255, (16, 16), np.uint8), speed=spaces.Box(-1e9, 1e9, (2,), np.float32)
    )

    def observation(self) -> dict[str, NDArray[Any]]:  # type: ignore[override]
        view = np.full((16, 16), self.time % 256, np.uint8)
        return {"view": view, "speed": (self.state * [1, 1e5]).astype(np.float32)}


class PictureOfWholeNumbers(Sound):
    observation_space = spaces.Box(0, 255, (16, 16), np.int32)

    def observation(self) -> NDArray[Any]:
        return np.full((16, 16), self.time % 256, np.int32)


class Endless(Sound):
    def terminated(self) -> bool:
        return False


class BeyondItsSpace(Sound):
    observation_space = spaces.Box(-0.1, 0.1, (2,), np.float32)


class HugeReward(Sound):
    def reward(self, action: Any) -> float:
        return 2000.0


class TinyReward(Sound):
    def reward(self, action: Any) -> float:
        return 1e-5


class NoReward(Sound):
    def reward(self, action: Any) -> float:
        return 0.0


class Frozen(Sound):
    def observation(self) -> NDArray[np.float32]:
        return np.array([3, 4], np.float32)


class LimitAsTermination(Sound):
    def terminated(self) -> bool:
        return self.time == 30


class FailsAtItsBounds(Sound):
    def reward(self, action: Any) -> float:
        if abs(action[0]) == 1:
            raise ValueError("action out of range")
        return 1.0


class FixedAction(Sound):
    action_space = spaces.Box(np.array([-1, 2], np.float32), np.array([1, 2], np.float32))


class Warns(Sound):
    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        gym.logger.warn("this task is out of date")
        return super().reset(**options)


class RemembersItsPast(Sound):
    lives = 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**options)
        self.lives += 1
        self.state = self.state + self.lives
        return self.observation(), {}


class CannotBeMade(Sound):
    def __init__(self) -> None:
        raise FileNotFoundError("no model.xml")


class Talks(Sound):
    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        print("hello from the simulator")
        return super().reset(**options)


def diagnose(
    environment: type[Sound], monkeypatch: pytest.MonkeyPatch, steps: int = 300, **spec: Any
) -> dict[str, Check]:
    """The checks of an environment by name; the machine is left alone."""
    register(environment, monkeypatch, **spec)
    monkeypatch.setattr(doctor, "check_machine", lambda rendered, sizes: [])
    found = doctor.diagnose(EnvironmentConfig(f"{environment.__name__}-v0"), steps=steps).checks
    return {check.name: check for check in found}


def register(environment: type[Sound], monkeypatch: pytest.MonkeyPatch, **spec: Any) -> str:
    env_id = f"{environment.__name__}-v0"
    monkeypatch.setitem(gym.registry, env_id, EnvSpec(env_id, environment, **spec))
    return env_id


def test_a_sound_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = diagnose(Sound, monkeypatch, max_episode_steps=100)
    assert {check.status for check in checks.values()} == {"ok"}
    assert list(checks) == [
        "actions",
        "observations",
        "stepping",
        "action bounds",
        "time limit",
        "repeatable",
        "reset",
        "speed",
        "scales",
        "constants",
        "reward",
        "episodes",
    ]
    assert "100 steps" in checks["time limit"].message


@pytest.mark.parametrize(
    ("environment", "name", "status", "words"),
    [
        (BecomesNan, "stepping", "error", "nan in observation dimension 1 at step 40"),
        (InfiniteReward, "stepping", "error", "reward of inf at step 5"),
        (Raises, "stepping", "error", "ZeroDivisionError: float division by zero"),
        (Leaves, "stepping", "error", "SystemExit: licence has expired"),
        (Unbounded, "actions", "error", "infinite"),
        (DiscreteActions, "actions", "error", "continuous actions"),
        (Films, "observations", "error", "images"),
        (FailsAtItsBounds, "action bounds", "error", "action out of range"),
        (CannotBeMade, "environment", "error", "FileNotFoundError: no model.xml"),
        (Unrepeatable, "repeatable", "warning", "at step 3 in observation dimension 0"),
        (BadlyScaled, "scales", "warning", "100 times apart"),
        (PictureOfWholeNumbers, "observations", "warning", "(16, 16) is taken for single numbers"),
        (Endless, "time limit", "warning", "no episode ended"),
        (BeyondItsSpace, "stepping", "warning", "outside their declared"),
        (HugeReward, "reward", "warning", "2,000"),
        (TinyReward, "reward", "warning", "1e-05"),
        (NoReward, "reward", "warning", "always 0"),
        (Frozen, "constants", "warning", "2 of 2 never changed"),
        (LimitAsTermination, "episodes", "warning", "after exactly 30 steps"),
        (FixedAction, "actions", "warning", "low equals high in dimension 1"),
        (Warns, "remark", "warning", "this task is out of date"),
        (RemembersItsPast, "reset", "ok", "does not undo the past"),
    ],
)
def test_what_is_wrong_is_found(
    environment: type[Sound],
    name: str,
    status: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks = diagnose(environment, monkeypatch)
    assert (checks[name].status, words in checks[name].message) == (status, True), checks[name]
    assert bool(checks[name].advice) == (status != "ok")
    others = {check.name for check in checks.values() if check.status == "error"} - {name}
    # A number that is not finite may be met at the bounds as well.
    assert others <= {"action bounds"}, others


def test_advice_beside_images_is_none_that_training_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scales = diagnose(PictureAndBadlyScaled, monkeypatch)["scales"]
    assert (scales.status, scales.advice) == (
        "warning",
        "Bring them to like sizes in the environment.",
    )


def test_where_stepping_fails_nothing_is_said_of_the_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "action bounds" not in diagnose(Raises, monkeypatch)


def test_advice_names_the_flag_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--environment.normalize-observations" in (
        diagnose(BadlyScaled, monkeypatch)["scales"].advice
    )
    assert "--environment.reward-scale 0.001" in diagnose(HugeReward, monkeypatch)["reward"].advice
    assert "--environment.reward-scale 100000" in diagnose(TinyReward, monkeypatch)["reward"].advice


def test_the_command_says_json_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env_id = register(Talks, monkeypatch)
    words = [env_id, "--steps", "50", "--json"]
    assert run(tyro.cli(Arguments, args=words)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"checks", "machine"}
    assert {"processor", "cores", "system", "versions"} <= report["machine"].keys()
    for check in report["checks"]:
        assert check.keys() == {"name", "status", "message", "advice"}
        assert check["status"] in ("ok", "warning", "error")
    names = [check["name"] for check in report["checks"]]
    assert names[:7] == ["versions", "processor", "memory", "disk", "GPU", "rendering", "extras"]


def test_pendulum_is_clean_and_the_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    diagnosis = doctor.diagnose(EnvironmentConfig("Pendulum-v1"), steps=500)
    assert {check.status for check in diagnosis.environment} == {"ok"}
    show(diagnosis, "Pendulum-v1")
    shown = capsys.readouterr().out
    assert "✓ actions       1 number in [-2, 2]" in shown
    assert "✗" not in shown


def test_exit_code_1_and_the_advice_when_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "check_machine", lambda rendered, sizes: [])
    assert run(Arguments(register(Unbounded, monkeypatch))) == 1
    shown = capsys.readouterr().out
    assert "✗ actions" in shown
    assert "→" in shown
    assert "1 to mend" in shown


def test_bad_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "check_machine", lambda rendered, sizes: [])
    with pytest.raises(UserError, match="Did you mean 'Pendulum-v1'"):
        run(Arguments("Pendulun-v1"))
    with pytest.raises(UserError, match="steps"):
        run(Arguments("Pendulum-v1", steps=0))
    words = ["Pendulum-v1", "--environment.kwargs", "gravity", "3"]
    with pytest.raises(UserError, match="Cannot make Pendulum-v1"):
        run(tyro.cli(Arguments, args=words))
    assert run(tyro.cli(Arguments, args=["Pendulum-v1", "--environment.kwargs", "g", "3"])) == 0


def test_help_is_quick() -> None:
    """Nothing heavy is imported before the arguments are read."""
    code = "import sys, td3.cli.doctor, td3.cli.bench; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_and_disk_are_held_against_the_ring(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "168 MB per seed" in doctor.check_ring(17, 6, None).message
    monkeypatch.setattr("td3.run.memory.available_bytes", lambda: 10**8)
    refused = doctor.check_ring(17, 6, None)
    assert refused.status == "error"
    assert "--loop.replay-size" in refused.advice
    assert doctor.check_folder(tmp_path, 1, 1, None).status == "ok"
    monkeypatch.setattr(doctor, "disk_free", lambda folder: 10**8)
    assert doctor.check_folder(tmp_path, 17, 6, None).status == "warning"


def test_rendering_that_fails_is_a_warning_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = doctor.EnvironmentConfig("Some-v0")
    found = {"error": "no picture", "mujoco": True, "backend": "egl"}
    monkeypatch.setattr(doctor, "render_once", lambda config, changes: found)
    check = doctor.check_rendering(broken)
    assert (check.status, "libegl1" in check.advice) == ("warning", True)

    def works_with_osmesa(config: Any, changes: dict[str, str]) -> dict[str, Any]:
        return {"shape": [4, 4, 3]} if changes.get("MUJOCO_GL") == "osmesa" else found

    monkeypatch.setattr(doctor, "render_once", works_with_osmesa)
    assert "export MUJOCO_GL=osmesa" in doctor.check_rendering(broken).advice
    monkeypatch.setitem(found, "error", "Some-v0 needs the extra 'video': pip install 'td3[video]'")
    assert doctor.check_rendering(broken).advice.startswith("pip install 'td3[video]'")
    assert doctor.check_rendering(None).status == "ok"


def test_a_renderer_that_crashes_takes_nobody_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "RENDER", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    found = doctor.render_once(doctor.EnvironmentConfig("Some-v0"), {})
    assert found["error"] == "the simulator crashed (SIGSEGV)"


def test_extras_are_read_from_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {
        "td3": [
            "numpy>=2",
            "there[fast]>=1; extra == 'one'",
            "absent; extra == 'two'",
            "absent; (python_version < '3.0') and extra == 'three'",
            'absent; python_version >= "3.0" and extra == "four"',
        ],
        "there": ['absent; extra == "slow"', 'numpy; extra == "fast"'],
    }
    monkeypatch.setattr(doctor.importlib.metadata, "requires", wanted.get)
    monkeypatch.setattr(doctor, "installed", lambda name: name != "absent")
    present = {name: doctor.satisfied("td3", name) for name in ("one", "two", "three", "four")}
    assert present == {"one": True, "two": False, "three": True, "four": False}


def test_images_are_judged_as_images() -> None:
    found = doctor.diagnose(EnvironmentConfig("support.find:Find-v0", frame_stack=2), steps=50)
    checks = {check.name: check for check in found.environment}
    assert checks["observations"].message == (
        "2 stacked observations of an image 16 × 16 and 1 number, seen through convolutions"
    )
    assert "dimension 256" in checks["scales"].message  # the number; pixels are all alike
    assert {check.status for check in found.environment} == {"ok"}
    asked = "--recipe pixels --environment.resize 0 --environment.frame-stack 2"
    assert found.options == asked
    memory = next(check for check in found.machine if check.name == "memory")
    assert "100,000 transitions" in memory.message


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (EnvironmentConfig("Pendulum-v1"), ""),
        (
            EnvironmentConfig("Pendulum-v1", pixels=True, resize=16, grey=True),
            "--recipe pixels --environment.resize 16 --environment.grey",
        ),
        (
            EnvironmentConfig("Pendulum-v1", frame_stack=3, action_repeat=2),
            "--environment.frame-stack 3 --environment.action-repeat 2",
        ),
        (EnvironmentConfig("Pendulum-v1", {"g": 5.0}), "--environment.kwargs g 5.0"),
        (EnvironmentConfig("CarRacing-v3"), "--recipe pixels"),
        (EnvironmentConfig("support.find:Find-v0"), "--recipe pixels --environment.resize 0"),
    ],
    ids=lambda given: getattr(given, "id", ""),
)
def test_the_recipe_that_is_named_fits(config: EnvironmentConfig, options: str) -> None:
    task = Environment(config).task
    assert doctor.options_for(config, task) == options
    words = [config.id, *options.split()]
    asked = settled(parse(TrainArguments, "train", words, default(words))).environment
    named = Environment(asked)
    named.reset(seed=0)
    assert has_images(named.task.layout) == has_images(task.layout)
    assert (asked.kwargs, asked.frame_stack >= config.frame_stack) == (config.kwargs, True)
