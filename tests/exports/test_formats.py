"""Every format computes what the readable code computes, for every kind of observation."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from support.policies import ACTIONS, POSITION, SPACES, exact_actions, make_policy

import td3
from td3.cli import main
from td3.config import EnvironmentConfig
from td3.environments.environment import Environment
from td3.errors import UserError
from td3.exports.check import check_export, run_selftests
from td3.exports.export import WRITERS, Export, make_export
from td3.exports.program import read_inputs
from td3.exports.vectors import raw_observations
from td3.layout import flatten, unstack_layout
from td3.policy.file import save_policy
from td3.policy.from_agent import policy_card, policy_tensors
from td3.policy.policy import Policy

OWN_TASK = "from gymnasium.envs.classic_control import PendulumEnv"


def test_export_of_an_own_environment_records_it_if_the_user_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_reach.py").write_text(OWN_TASK, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    config, agent = EnvironmentConfig(id="Pendulum-v1"), td3.TD3(3, 1, hidden_sizes=(8, 8), seed=3)
    card = policy_card(agent, Environment(config).task, config, {"max_steps": 5})
    card["environment"]["id"] = task = "own_reach:PendulumEnv"
    save_policy(policy_tensors(agent)[0], card, file := tmp_path / "policy.safetensors")
    words = ["export", str(file), "--to", "numpy", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert capsys.readouterr().out.endswith(
        "The test vectors are random: td3 did not import the module own_reach of the task; name it "
        f"with --environment {task}.\n"
    )
    assert "own_reach" not in sys.modules
    assert main([*words, "--environment", "CartPole-v1"]) == 2
    capsys.readouterr()
    assert main([*words, "--environment", task, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recorded"] is True
    assert len(td3.export(file, "numpy", tmp_path / "other", environment=task)) == 2


def test_header_counts_the_numbers_of_each_part() -> None:
    space = spaces.Dict(v=spaces.Box(-1, 1, (1,)), x=spaces.Box(-1, 1, (2,)))
    header = exported(make_policy(space)[0], "c").files["policy.h"].decode()
    assert "/* 1 number: observation.v */" in header
    assert "/* 2 numbers: observation.x */" in header


def test_selftest_of_every_format_groups_the_digits_of_its_count(tmp_path: Path) -> None:
    exported(make_policy(BOX)[0], count=1_000).write(tmp_path)
    data = (tmp_path / "policy_vectors.bin").read_bytes()
    (tmp_path / "all_vectors.bin").write_bytes(data)
    checks = [check for check in run_selftests(tmp_path) if check.passed is not None]
    assert checks
    for check in checks:
        assert check.text.startswith("passed: 1,000 observations, "), check


BOX = spaces.Box(-np.inf, np.inf, (4,), np.float32)


SOURCES = ("numpy", "c", "js")  # test_graphs.py has the others


def exported(policy: Policy, *formats: str, count: int = 50) -> Export:
    return make_export(policy, formats or SOURCES, count)


NORMALIZED = ("stacked box", "stacked dictionary", "stacked images")


@pytest.mark.parametrize("name", SPACES)
def test_export_of_any_space_agrees_with_double_precision(name: str) -> None:
    space, stack = SPACES[name]
    policy, exact = make_policy(space, stack, normalize=name in NORMALIZED)
    export = exported(policy)
    states = [
        np.concatenate([export.runtime.read_vector(frame) for frame in frames])
        for frames in export.vectors.observations
    ]
    expected = exact_actions(policy, exact, np.array(states, np.float32))
    span = policy.bounds.high - policy.bounds.low
    assert np.abs((export.vectors.actions - expected) / span).max() < 1e-12
    assert np.ptp(expected, axis=0).min() > 1e-4  # the actions differ
    for check in check_export(export):
        assert check.passed is not False, check


@pytest.mark.parametrize("name", SPACES)
def test_exported_policy_reads_observations_as_the_environment_gives_them(name: str) -> None:
    space, stack = SPACES[name]
    policy, exact = make_policy(space, stack)
    runtime = exported(policy, "numpy").runtime
    space.seed(1)
    observations = [space.sample() for _ in range(4)]
    _, single = unstack_layout(policy.layout)
    flat = [flatten(single, observation) for observation in observations]
    for number, observation in enumerate(observations):
        action = runtime(observation)
        assert runtime.ok
        frames = [flat[max(0, number - age)] for age in reversed(range(stack))]
        expected = exact_actions(policy, exact, np.concatenate(frames)[None])
        assert action.dtype == np.float32
        assert action == pytest.approx(expected[0], abs=1e-6)
    raw = raw_observations(read_inputs(single, []), np.array(flat))
    again = [runtime.read_vector(vector) for vector in raw]
    assert np.array_equal(again, flat)


def test_run_selftests_of_changed_weights_fails_in_every_format(tmp_path: Path) -> None:
    policy, _ = make_policy(BOX)
    export = exported(policy)
    export.write(tmp_path)
    wrong = export.vectors._replace(actions=export.vectors.actions + 1e-5)
    (tmp_path / "all_vectors.bin").write_bytes(wrong.to_bytes())
    checks = [check for check in run_selftests(tmp_path) if check.passed is not None]
    assert checks
    for check in checks:
        assert check.passed is False, check
        assert "FAILED" in check.text


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numpy_invalid_observation_gives_safe_action_and_keeps_the_stack(bad: float) -> None:
    policy, _ = make_policy(POSITION, 2)
    runtime = exported(policy, "numpy").runtime
    good = np.float32([0.1, 0.2, 0.3])
    runtime(good)
    expected = runtime(2 * good)
    runtime.reset()
    runtime(good)
    safe = runtime(np.float32([0, bad, 0]))
    assert not runtime.ok
    assert safe == pytest.approx(np.clip(0, ACTIONS.low, ACTIONS.high))
    assert np.array_equal(runtime(2 * good), expected)
    assert runtime.ok


def test_numpy_unknown_choice_or_wrong_shape() -> None:
    policy, _ = make_policy(spaces.Dict(goal=POSITION, mode=spaces.Discrete(3)))
    runtime = exported(policy, "numpy").runtime
    runtime({"goal": np.zeros(3), "mode": 3})
    assert not runtime.ok
    with pytest.raises(ValueError, match=r"observation.goal has the shape \(2,\), not \[3\]"):
        runtime({"goal": np.zeros(2), "mode": 1})


def test_numpy_file_runs_without_td3(tmp_path: Path) -> None:
    policy, _ = make_policy(BOX)
    exported(policy, "numpy").write(tmp_path)
    code = (
        "import sys, policy; p = policy.Policy(); a = p([1, 2, 3, 4]); "
        "assert not {'td3', 'torch', 'gymnasium'} & set(sys.modules); print(a.tolist())"
    )
    command = [sys.executable, "-S", "-c", code]
    packages = str(Path(np.__file__).parents[1])
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": packages}, capture_output=True, text=True
    )
    assert json.loads(done.stdout) == pytest.approx(policy([1, 2, 3, 4]).tolist(), abs=1e-5)


def test_export_of_a_pretrained_policy_in_every_format_passes_its_selftests() -> None:
    """`python -m benchmarks.exports` is the long form: all policies, 10,000 observations."""
    pytest.importorskip("mujoco")
    pytest.importorskip("onnxscript")
    export = make_export(td3.load_policy(pretrained="Hopper-v5"), list(WRITERS))
    assert export.vectors.recorded
    assert len(export.vectors.observations) == 1_000
    assert export.rounding < 1e-5
    checks = [check for check in check_export(export) if check.passed is not None]
    assert {check.name for check in checks} >= {"numpy", "onnx", "torch"}
    for check in checks:
        assert check.passed, check


def test_python_export_writes_named_files_and_checks_them(tmp_path: Path) -> None:
    policy = td3.load_policy(pretrained="InvertedPendulum-v5")
    paths = td3.export(policy, ["numpy", "c"], tmp_path, check=True)
    assert {path.name for path in paths} >= {"policy.py", "policy.c", "policy.h"}
    assert all(path.is_file() for path in paths)
    header = (tmp_path / "policy.h").read_text()
    assert "InvertedPendulum-v5" in header
    assert f'#define POLICY_SHA256 "{policy.card["sha256"]}"' in header


def test_export_refuses_unknown_formats_and_own_actors() -> None:
    policy, _ = make_policy(BOX)
    with pytest.raises(UserError, match=r"No format 'cc'"):
        make_export(policy, ["cc"])
    with pytest.raises(UserError, match="Name a format to export to: numpy, c"):
        make_export(policy, [])
    policy.actor = lambda state: state  # of a class that only this process knows
    with pytest.raises(UserError, match="some acts with a class that its file does not name"):
        make_export(policy, ["c"])


def test_c_header_is_safe_from_text_in_a_card() -> None:
    policy, _ = make_policy(BOX)
    policy.card["environment"]["id"] = "a*/ int evil; /* ??/ é \n #error"
    text = exported(policy, "c").files["policy.h"].decode("ascii")
    assert "*/ int evil" not in text
    assert "\n #error" not in text


def test_export_follows_no_link_in_a_run(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "exports").symlink_to(tmp_path / "elsewhere")
    policy, _ = make_policy(BOX)
    with pytest.raises(UserError, match="symbolic link"):
        exported(policy, "numpy").write(tmp_path / "exports" / "agent-0")


def run_c(folder: Path, *flags: str) -> Any:
    command = ["gcc", "-std=c99", *flags, "-c", "policy.c", "-o", "policy.o"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_c_allocates_nothing_and_refuses_fast_math(tmp_path: Path) -> None:
    policy, _ = make_policy(*SPACES["image and numbers"], normalize=True)
    exported(policy, "c").write(tmp_path)
    try:
        done = run_c(tmp_path, "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
    except FileNotFoundError:
        pytest.skip("gcc is not installed")
    assert done.returncode == 0, done.stderr
    symbols = subprocess.run(["nm", "-u", "policy.o"], cwd=tmp_path, capture_output=True, text=True)
    assert set(symbols.stdout.split()) - {"U"} <= {
        "memcpy", "memmove", "memset", "tanh", "sqrt", "rintf", "_GLOBAL_OFFSET_TABLE_",
        "__stack_chk_fail",
    }  # fmt: skip
    assert "-ffast-math removes" in run_c(tmp_path, "-ffast-math").stderr


def test_cmake_builds_the_library_and_runs_the_selftest(tmp_path: Path) -> None:
    if not shutil.which("cmake") or not shutil.which("cc"):
        pytest.skip("CMake or a C compiler is not installed")
    exported(make_policy(*SPACES["stacked box"])[0], "c").write(tmp_path)
    for command in (
        ["cmake", "-B", "build"],
        ["cmake", "--build", "build"],
        ["ctest", "--test-dir", "build", "--output-on-failure"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "100% tests passed" in done.stdout
