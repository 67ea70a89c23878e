"""Environments with one problem each, and what `td3 doctor` reports about them."""

import json
import shutil
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

from td3 import doctor
from td3.cli import parse
from td3.cli.doctor import Arguments, entry, run, show
from td3.cli.train import Arguments as TrainArguments
from td3.cli.train import default, resolve_config
from td3.config import EnvironmentConfig
from td3.doctor import machine_checks
from td3.doctor.check import Check, check_from_error, summary
from td3.environments.environment import Environment
from td3.errors import UserError
from td3.layout import has_images


class Sound(gym.Env[Any, Any]):
    """No problem: two random walks, and rewards of about 1."""

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


class BadlyScaledParts(Sound):
    observation_space = spaces.Dict(
        x=spaces.Box(-1e9, 1e9, (2,), np.float32), v=spaces.Box(-50, 50, (1,), np.float32)
    )

    def observation(self) -> dict[str, NDArray[Any]]:  # type: ignore[override]
        x = self.state * [10, 1e5]
        return {"x": x.astype(np.float32), "v": self.state[:1].astype(np.float32)}


class PictureOfWholeNumbers(Sound):
    observation_space = spaces.Box(0, 255, (16, 16), np.int32)

    def observation(self) -> NDArray[Any]:
        return np.full((16, 16), self.time % 256, np.int32)


class StillImage(Sound):
    observation_space = spaces.Box(0, 255, (16, 16), np.uint8)

    def observation(self) -> NDArray[Any]:
        return np.zeros((16, 16), np.uint8)


class Endless(Sound):
    def terminated(self) -> bool:
        return False


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


class CannotBeMade(Sound):
    def __init__(self) -> None:
        raise FileNotFoundError("no model.xml")


class Prints(Sound):
    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        print("hello from the simulator")
        return super().reset(**options)


@pytest.fixture(autouse=True)
def _skip_machine(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Leave out the slow machine checks, unless the test is marked by its name."""
    if "machine" not in request.node.name:
        monkeypatch.setattr(doctor, "check_machine", lambda *task: [])


def register(environment: type[Sound], monkeypatch: pytest.MonkeyPatch, **spec: Any) -> str:
    env_id = f"{environment.__name__}-v0"
    monkeypatch.setitem(gym.registry, env_id, EnvSpec(env_id, environment, **spec))
    return env_id


def diagnose(
    environment: type[Sound], monkeypatch: pytest.MonkeyPatch, **spec: Any
) -> dict[str, Check]:
    """The checks of an environment by name."""
    env_id = register(environment, monkeypatch, **spec)
    found = doctor.diagnose(EnvironmentConfig(env_id), steps=300).checks
    return {check.name: check for check in found}


def test_diagnose_of_sound_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = diagnose(Sound, monkeypatch, max_episode_steps=100)
    assert {check.status for check in checks.values()} == {"ok"}
    names = ["actions", "observations", "stepping", "determinism", "numbers", "reward", "episodes"]
    assert list(checks) == names
    assert "time limit 100 steps" in checks["episodes"].message


@pytest.mark.parametrize(
    ("environment", "name", "status", "words"),
    [
        (BecomesNan, "stepping", "error", "nan in dimension 1) after 39 steps"),
        (InfiniteReward, "stepping", "error", "non-finite reward (inf) after 4 steps"),
        (Raises, "stepping", "error", "ZeroDivisionError: float division by zero"),
        (Leaves, "stepping", "error", "SystemExit: licence has expired"),
        (Unbounded, "actions", "error", "infinite"),
        (DiscreteActions, "actions", "error", "continuous actions"),
        (Films, "observations", "error", "images"),
        (FailsAtItsBounds, "stepping", "error", "action out of range (test_doctor.py, line "),
        (CannotBeMade, "environment", "error", "FileNotFoundError: no model.xml"),
        (Unrepeatable, "determinism", "warning", "after 3 steps in the observation, dimension 0"),
        (BadlyScaled, "numbers", "warning", "in dimension 0 to"),
        (BadlyScaledParts, "numbers", "warning", "in dimension 0 of observation.v to"),
        (BadlyScaledParts, "numbers", "warning", "in dimension 1 of observation.x"),
        (PictureOfWholeNumbers, "observations", "warning", "(16, 16) is read as single numbers"),
        (StillImage, "images", "warning", "the image never changed"),
        (Endless, "episodes", "warning", "no time limit; none ended in 300 steps"),
        (HugeReward, "reward", "warning", "2,000"),
        (TinyReward, "reward", "warning", "1e-05"),
        (NoReward, "reward", "warning", "always 0"),
        (Frozen, "numbers", "warning", "2 of 2 never changed"),
        (LimitAsTermination, "episodes", "warning", "after exactly 30 steps"),
        (FixedAction, "actions", "warning", "low equals high in dimension 1"),
        (Warns, "warning", "warning", "this task is out of date"),
    ],
)
def test_diagnose_of_faulty_environment_reports_its_fault(
    environment: type[Sound],
    name: str,
    status: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks = diagnose(environment, monkeypatch)
    assert (checks[name].status, words in checks[name].message) == (status, True), checks[name]
    assert checks[name].advice
    assert "end the episode" not in checks[name].advice
    others = {check.name for check in checks.values() if check.status == "error"} - {name}
    assert others == set()


def test_advice_contains_the_option_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    scales = diagnose(BadlyScaled, monkeypatch)["numbers"]
    assert scales.command == "--environment.normalize-observations"
    rewards = [diagnose(own, monkeypatch)["reward"].command for own in (HugeReward, TinyReward)]
    assert rewards == [
        "--environment.reward-scale 0.001",
        "--environment.reward-scale 100000",
    ]


def test_advice_for_images_does_not_suggest_normalization(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = diagnose(PictureAndBadlyScaled, monkeypatch)["numbers"]
    assert (numbers.status, numbers.command) == ("warning", "")


def test_doctor_with_json_prints_only_json_with_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env_id = register(Prints, monkeypatch)
    assert run(tyro.cli(Arguments, args=[env_id, "--steps", "50", "--json"])) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"checks", "machine"}
    assert {"processor", "cores", "system", "versions"} <= report["machine"].keys()
    for check in report["checks"]:
        assert check.keys() == {"name", "status", "message", "advice", "command"}
    names = [check["name"] for check in report["checks"]]
    assert names[:7] == ["versions", "processor", "memory", "disk", "GPU", "rendering", "extras"]


def test_show_of_pendulum_ends_with_summary_and_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = doctor.diagnose(EnvironmentConfig("Pendulum-v1"), steps=500)
    show({"Machine": found.machine, "Pendulum-v1": found.environment}, found.command)
    shown = capsys.readouterr().out
    assert "✓ actions       1 number in [-2, 2]" in shown
    assert shown.endswith("0 errors, 0 warnings.\nTrain with:\n  td3 train Pendulum-v1\n")


def test_doctor_of_faulty_environment_returns_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Arguments(register(Unbounded, monkeypatch))) == 1
    shown = capsys.readouterr().out
    assert "✗ actions" in shown
    assert "→ Declare its Box" in shown
    assert shown.endswith("1 error, 0 warnings.\n")


def test_summary_counts_errors_and_warnings() -> None:
    checks = [Check("a", "error", "")] * 3 + [Check("b", "warning", "")] * 2
    assert summary(checks) == "3 errors, 2 warnings."


def test_entry_keeps_command_on_one_line() -> None:
    command = "pip install 'td3[" + ",".join(["dm-control"] * 9) + "]'"
    message = "a long message with --a-flag-that-must-not-be-broken " * 3
    lines = entry(Check("extras", "ok", message, "Install it:", command)).splitlines()
    assert lines[-1].strip() == command
    assert all(len(line) <= 80 for line in lines[:-1])
    assert sum("--a-flag-that-must-not-be-broken" in line for line in lines) == 3


def test_check_from_error_separates_advice_and_command() -> None:
    found = check_from_error("x", UserError("X needs the extra 'a': pip install 'td3[a]'"))
    assert (found.message, found.command) == ("X needs the extra 'a'", "pip install 'td3[a]'")
    found = check_from_error("x", UserError("Too large; make it smaller."))
    assert (found.message, found.advice) == ("Too large", "Make it smaller.")


def test_doctor_with_bad_input_raises_user_error() -> None:
    with pytest.raises(UserError, match="Did you mean 'Pendulum-v1'"):
        run(Arguments("Pendulun-v1"))
    with pytest.raises(UserError, match="--steps must be 1 or more, got 0"):
        run(Arguments("Pendulum-v1", steps=0))
    words = ["Pendulum-v1", "--environment.kwargs", "gravity", "3"]
    with pytest.raises(UserError, match="Cannot make Pendulum-v1"):
        run(parse(Arguments, "doctor", words))
    words = ["Pendulum-v1", "--environment.kwargs", "g", "3"]
    assert run(parse(Arguments, "doctor", words)) == 0


def test_parsing_does_not_import_torch() -> None:
    code = "import sys, td3.cli.doctor, td3.cli.bench; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_storage_checks_compare_replay_buffer_with_memory_and_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    memory, disk = machine_checks.check_storage(tmp_path, machine_checks.HALF_CHEETAH)
    assert "takes 168 MB per seed" in memory.message
    assert (memory.status, disk.status) == ("ok", "ok")
    monkeypatch.setattr("td3.run.memory.available_bytes", lambda: 10**8)
    usage = type(shutil.disk_usage(tmp_path))(10**9, 10**9 - 10**8, 10**8)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    memory, disk = machine_checks.check_storage(tmp_path, machine_checks.HALF_CHEETAH)
    assert (memory.status, disk.status) == ("error", "warning")
    assert "--loop.replay-size" in memory.advice


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("print('noise'); print('480 × 480 pixels')", "ok", "Some-v0: 480 × 480 pixels"),
        ("import os; os.kill(os.getpid(), 11)", "warning", "the simulator crashed (-11)"),
        ("raise ValueError('no display')", "warning", "ValueError: no display"),
        ("raise SystemExit('No environment is registered')", "ok", "not tried"),
    ],
)
def test_rendering_check_reports_outcome_of_child_process(
    program: str, status: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_checks, "RENDER", program)
    check = machine_checks.check_rendering(EnvironmentConfig("Some-v0"))
    assert (check.status, words in check.message) == (status, True), check
    assert ("MUJOCO_GL" in check.advice) == (status == "warning")


def test_rendering_check_suggests_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Some-v0 needs the extra 'video': pip install 'td3[video]'"
    monkeypatch.setattr(machine_checks, "RENDER", f"import sys; sys.exit({text!r})")
    check = machine_checks.check_rendering(EnvironmentConfig("Some-v0"))
    assert check.command == "pip install 'td3[video]'"


def test_missing_extras_are_listed_with_one_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks, "has_extra", lambda package, name: name == "video")
    check = machine_checks.check_extras()
    assert check.message == "installed: video"
    assert check.advice.startswith("Not installed: ")
    assert check.advice.endswith(". Install one, e.g.:")
    assert check.command == "pip install 'td3[mujoco]'"
    assert max(map(len, entry(check).splitlines())) <= 80


def test_has_extra_follows_markers_and_nested_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {
        "td3": [
            "numpy>=2",
            "there[fast]>=1; extra == 'one'",
            "absent; extra == 'two'",
            "absent; (python_version < '3.0') and extra == 'three'",
            'absent; python_version >= "3.0" and extra == "four"',
            "there[slow]; extra == 'five'",
        ],
        "there": ['absent; extra == "slow"', 'numpy; extra == "fast"'],
    }
    monkeypatch.setattr(machine_checks.importlib.metadata, "requires", wanted.get)
    monkeypatch.setattr(machine_checks, "is_installed", lambda name: name != "absent")
    names = ("one", "two", "three", "four", "five")
    assert [machine_checks.has_extra("td3", name) for name in names] == [
        *(True, False, True, False, False)
    ]


def test_diagnose_of_image_task_is_clean_and_assumes_image_recipe_on_machine() -> None:
    found = doctor.diagnose(EnvironmentConfig("support.find:Find-v0", frame_stack=2), steps=50)
    checks = {check.name: check for check in found.environment}
    assert checks["observations"].message == (
        "2 stacked observations of an image 16 × 16 and 1 number"
    )
    assert "dimension 0 of observation.position" in checks["numbers"].message
    assert {check.status for check in found.environment} == {"ok"}
    memory = next(check for check in found.machine if check.name == "memory")
    assert "100,000 transitions" in memory.message


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (EnvironmentConfig("Pendulum-v1"), ""),
        (
            EnvironmentConfig("Pendulum-v1", pixels=True, resize=16, grey=True),
            "--recipe pixels --environment.pixels --environment.resize 16 --environment.grey",
        ),
        (
            EnvironmentConfig("Pendulum-v1", frame_stack=3, action_repeat=2),
            "--environment.frame-stack 3 --environment.action-repeat 2",
        ),
        (EnvironmentConfig("Pendulum-v1", {"g": 5.0}), "--environment.kwargs g 5.0"),
        (EnvironmentConfig("CarRacing-v3"), "--recipe pixels --environment.resize 0"),
        (EnvironmentConfig("support.find:Find-v0"), "--recipe pixels --environment.resize 0"),
    ],
    ids=lambda given: getattr(given, "id", ""),
)
def test_train_command_fits_the_task(config: EnvironmentConfig, options: str) -> None:
    task = Environment(config).task
    command = doctor.train_command(config, task)
    assert command == f"td3 train {config.id} {options}".rstrip()
    words = command.split()[2:]
    asked = resolve_config(parse(TrainArguments, "train", words, default(words))).environment
    env = Environment(asked)
    env.reset(seed=0)
    assert has_images(env.task.layout) == has_images(task.layout)
    assert (asked.kwargs, asked.frame_stack >= config.frame_stack) == (config.kwargs, True)


def test_doctor_class_with_a_time_limit_passes_and_is_in_the_command() -> None:
    config = EnvironmentConfig("gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=50)
    found = doctor.diagnose(config, 120)
    (episodes,) = (check for check in found.environment if check.name == "episodes")
    assert episodes.status == "ok"
    assert "time limit 50 steps; 2 ended" in episodes.message
    assert found.command == f"td3 train {config.id} --environment.max-episode-steps 50"
