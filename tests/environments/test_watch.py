"""Environments that raise anything, hang or end the process are named; the run ends in order."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from support.policies import make_policy

from td3.cli import main
from td3.config import Config, EnvironmentConfig
from td3.environments import watch
from td3.environments.environment import Environment
from td3.environments.factories import name_environment
from td3.environments.in_process import InProcess
from td3.environments.task import Task
from td3.environments.watch import CALL, Watch
from td3.errors import RunStopped
from td3.launch.setup import set_up
from td3.policy.file import save_policy
from td3.seeding import Streams

Act = Callable[[], object]


class Hostile(gym.Env[Any, Any]):
    """Does something at its third step, its second reset or its end."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, act: Act, at: str = "step") -> None:
        self.act, self.at, self.steps, self.resets = act, at, 0, 0

    def reset(self, **options: Any) -> Any:
        self.resets += 1
        if self.at == "reset" and self.resets == 2:
            self.act()
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        ended: object = self.steps % 2 == 0
        if self.at == "step" and self.steps == 3:
            ended = self.act()
        return np.zeros(1, np.float32), 0.0, ended, False, {}

    def close(self) -> None:
        if self.at == "close":
            self.act()


def make(act: Act, at: str = "step", patience: float = 300.0) -> InProcess:
    name, _ = name_environment(lambda: Hostile(act, at))
    config = EnvironmentConfig(name, patience=patience)
    return InProcess(config, [Streams.from_seed(0).env], 10**9)


def step(environments: InProcess, times: int) -> None:
    for now in range(1, times + 1):
        environments.step(np.zeros((1, 1), np.float32), now)


class NoException(BaseException):
    pass


class NoText(BaseException):
    def __str__(self) -> str:
        raise RuntimeError


def throw(error: BaseException) -> Act:
    def act() -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NoException("odd"), "raised NoException: odd"),
        (SystemExit(0), "raised SystemExit: 0"),
        (GeneratorExit(), "raised GeneratorExit: GeneratorExit"),
        (NoText(), "raised NoText: NoText"),
    ],
)
def test_anything_that_a_step_raises_stops_the_run_with_its_place(
    error: BaseException, expected: str
) -> None:
    with pytest.raises(RunStopped) as caught:
        step(make(throw(error)), 3)
    line = throw.__code__.co_firstlineno + 2
    place = f"(test_watch.py, line {line}) in environment 0 at step 3"
    assert str(caught.value).endswith(f"{expected} {place}")


def test_keyboard_interrupt_of_an_environment_is_not_ctrl_c() -> None:
    import signal

    before = signal.signal(signal.SIGINT, lambda *_: None)  # as during training
    try:
        with pytest.raises(RunStopped, match="raised KeyboardInterrupt"):
            step(make(throw(KeyboardInterrupt())), 3)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(KeyboardInterrupt):
        step(make(throw(KeyboardInterrupt())), 3)


def test_exit_of_the_process_in_a_step_becomes_an_error() -> None:
    with Watch(300, print), pytest.raises(RunStopped, match=r"called os._exit\(0\) in environment"):
        step(make(lambda: os._exit(0)), 3)
    assert os._exit is watch.exit_now


def refuse_exit(code: int) -> None:
    raise AssertionError("the process would have ended")


def make_at(at: str) -> gym.Env[Any, Any]:
    def end() -> None:
        os._exit(0)

    if at == "make":
        end()
    return gym.wrappers.TimeLimit(Hostile(end, at), 9)


gym.register("ExitsInMake-v0", entry_point=lambda: make_at("make"))
gym.register("ExitsInStep-v0", entry_point=lambda: make_at("step"))
gym.register("HangsInMake-v0", entry_point=lambda: time.sleep(600))


def test_hang_before_a_run_starts_is_named() -> None:
    config = Config(environment=EnvironmentConfig("HangsInMake-v0", patience=0.4), threads=1)
    with pytest.raises(RunStopped, match=r"^HangsInMake-v0 has not returned from make for 0.4 s"):
        set_up(config)


def test_exit_of_the_process_before_a_run_starts_becomes_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "_exit", refuse_exit)
    config = Config(environment=EnvironmentConfig("ExitsInMake-v0"), threads=1)
    with pytest.raises(RunStopped, match=r"^ExitsInMake-v0 called os._exit\(0\)$"):
        set_up(config)
    assert os._exit is refuse_exit


def test_commands_do_not_end_with_0_when_an_environment_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "_exit", refuse_exit)
    policy, _ = make_policy(Hostile.observation_space, actions=Hostile.action_space)
    policy.card["environment"]["id"] = "ExitsInStep-v0"
    path = tmp_path / "policy.safetensors"
    save_policy(policy.tensors, policy.card, path)
    for words in (["evaluate", str(path)], ["doctor", "ExitsInStep-v0"]):
        assert main(words) == 1
        found = capfd.readouterr()
        assert "ExitsInStep-v0 called os._exit(0)" in " ".join((found.out + found.err).split())


def spin() -> None:
    while True:
        pass


def swallow() -> None:
    while True:
        try:
            time.sleep(600)
        except Exception:
            continue


@pytest.mark.parametrize("act", [spin, swallow, lambda: time.sleep(600)])
@pytest.mark.parametrize("at", ["step", "reset"])
def test_hang_is_interrupted_and_named(act: Act, at: str) -> None:
    environments = make(act, at)
    start = time.monotonic()
    with Watch(0.4, print), pytest.raises(RunStopped) as caught:
        step(environments, 3)
    assert 0.4 <= time.monotonic() - start < 4
    message = str(caught.value)
    assert f"has not returned from {at} for 0.4 s" in message
    assert message.endswith(f"in environment 0 at step {3 if at == 'step' else 2}")
    assert CALL.method == ""


def test_hang_in_close_is_interrupted_and_ignored() -> None:
    environments = make(lambda: time.sleep(600), "close")
    start = time.monotonic()
    with Watch(0.4, print):
        environments.close()
    assert time.monotonic() - start < 4


def test_slow_steps_are_not_a_hang() -> None:
    environments = make(lambda: False)
    environments.replayable[0].environment.env.unwrapped.step = (  # type: ignore[method-assign]
        lambda action: (time.sleep(0.15), (np.zeros(1, np.float32), 0.0, False, False, {}))[1]
    )
    with Watch(0.4, print):
        step(environments, 6)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), (np.bool_(0), False), (np.array([True]), True), (1, True), (0.0, False)],
)
def test_flag_accepts_one_true_or_false(value: Any, expected: bool) -> None:
    assert pendulum().flag("terminated", value) is expected


@pytest.mark.parametrize("value", [np.array([True, False]), None, 2, float("nan"), "no", [], {}])
def test_flag_of_another_kind_stops_the_run(value: Any) -> None:
    with pytest.raises(RunStopped, match="returned truncated that is neither true nor false"):
        pendulum().flag("truncated", value)


def pendulum() -> Task:
    environment = Environment(EnvironmentConfig("Pendulum-v1"))
    environment.close()
    return environment.task
