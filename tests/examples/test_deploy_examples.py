"""The examples of the guide "Deploy a policy"."""

import math
import re
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from support.policies import make_policy
from test_examples import load

import td3
from td3.exports.export import make_export

BOX = spaces.Box(-np.inf, np.inf, (4,), np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported policy for four numbers."""
    folder = tmp_path_factory.mktemp("controller")
    make_export(make_policy(BOX)[0], ["numpy"], 50).write(folder)
    return folder


class Machine:
    """Gives one observation again and again; remembers commands and stops."""

    def __init__(self, observation: Any, delay: float = 0) -> None:
        self.observation, self.delay = observation, delay
        self.commands: list[Any] = []
        self.stops = 0

    def observe(self) -> Any:
        return self.observation

    def command(self, action: Any) -> None:
        self.commands.append(action)
        time.sleep(self.delay)

    def stop(self) -> None:
        self.stops += 1


def test_control_loop_runs_a_pretrained_policy_at_its_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mujoco")
    td3.export(td3.load_policy(pretrained="Hopper-v5"), "numpy", tmp_path)
    begin = time.perf_counter()
    found = load("control_loop").main([str(tmp_path), "--rate", "100", "--seconds", "1"])
    assert 0.99 < time.perf_counter() - begin < 8
    assert 0 < found["latency 50 %"] < 8
    assert found["jitter 50 %"] >= 0
    assert "Hopper-v5, policy " in capsys.readouterr().out


def test_control_loop_of_an_own_environment_says_what_to_replace() -> None:
    example = load("control_loop")
    for task in ("no_such_module:Reach", "sys:Reach", "Unknown-v0"):
        expected = f"Replace SimulatedMachine: '{task}' is not a Gymnasium id."
        with pytest.raises(SystemExit, match=f"^{re.escape(expected)}$"):
            example.SimulatedMachine(task)


def test_control_loop_stops_after_invalid_observations(folder: Path) -> None:
    example = load("control_loop")
    machine = Machine(np.float32([0, math.nan, 0, 0]))
    policy = example.load_exported(folder)
    with pytest.raises(RuntimeError, match="3 invalid observations in a row"):
        example.control(policy, machine, 200, 1)
    assert len(machine.commands) == 2
    assert machine.commands[0] == pytest.approx(policy.safe_action)
    assert machine.stops == 1


def test_control_loop_watchdog_stops_a_machine_without_commands(folder: Path) -> None:
    example = load("control_loop")
    machine = Machine(np.zeros(4, np.float32), delay=0.5)
    with pytest.raises(RuntimeError, match="no command for 5 periods"):
        example.control(example.load_exported(folder), machine, 50, 5)
    assert len(machine.commands) == 1
    assert machine.stops == 2  # by the watchdog, and at the end


def test_control_loop_stops_the_machine_if_a_sensor_fails(folder: Path) -> None:
    example = load("control_loop")
    machine = Machine(np.zeros(4, np.float32))
    calls = iter(range(110))

    def observe() -> Any:
        if next(calls) == 105:
            raise OSError("no sensor")
        return machine.observation

    machine.observe = observe  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no sensor"):
        example.control(example.load_exported(folder), machine, 20, 10)
    assert len(machine.commands) == 5
    assert machine.stops == 1


class Node:
    """What the example uses of rclpy's Node."""

    folder = ""

    def __init__(self, name: str) -> None:
        self.published: list[list[float]] = []
        self.called = 0
        self.errors: list[str] = []

    def declare_parameter(self, name: str, default: Any) -> Any:
        given = {"folder": self.folder, "joints": ["hip", "knee"]}
        return SimpleNamespace(value=given.get(name, default))

    def create_publisher(self, kind: Any, topic: str, depth: int) -> Any:
        return SimpleNamespace(publish=lambda message: self.published.append(message.data))

    def create_subscription(self, kind: Any, topic: str, callback: Any, qos: Any) -> None:
        pass

    def create_client(self, kind: Any, name: str) -> Any:
        def call_async(request: Any) -> None:
            self.called += 1

        return SimpleNamespace(call_async=call_async)

    def create_timer(self, period: float, callback: Any) -> None:
        pass

    def get_logger(self) -> Any:
        return SimpleNamespace(info=lambda text: None, error=self.errors.append)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """The node of the example, with stand-ins for the packages of ROS 2."""
    Node.folder = str(folder)
    trigger = SimpleNamespace(Request=SimpleNamespace)
    for name, members in {
        "rclpy": {},
        "rclpy.node": {"Node": Node},
        "rclpy.qos": {"qos_profile_sensor_data": None},
        "sensor_msgs": {},
        "sensor_msgs.msg": {"JointState": None},
        "std_msgs": {},
        "std_msgs.msg": {"Float64MultiArray": SimpleNamespace},
        "std_srvs": {},
        "std_srvs.srv": {"Trigger": trigger},
    }.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    return load("ros2_policy_node").PolicyNode()


def joints(*positions: float) -> Any:
    return SimpleNamespace(name=["knee", "x", "hip"], position=positions, velocity=(4.0, 5.0, 6.0))


def test_ros2_node_publishes_the_action_of_the_ordered_joints(node: Any) -> None:
    node.keep(joints(1.0, 2.0, 3.0))
    node.act()
    expected = node.policy([3, 1, 6, 4])
    assert node.published == [pytest.approx(expected.tolist())]
    assert (node.called, node.bad) == (0, 0)


def test_ros2_node_stops_for_good_without_observations(node: Any) -> None:
    for _ in range(9):
        node.act()
    safe = node.policy.safe_action.tolist()
    assert node.published == [safe] * 6
    assert (node.called, node.errors) == (1, ["stopped: late observations"])


def test_ros2_node_stops_after_invalid_observations(node: Any) -> None:
    for _ in range(9):
        node.keep(joints(math.nan, 2.0, 3.0))
        node.act()
    assert node.published == [node.policy.safe_action.tolist()] * 6
    assert node.errors == ["stopped: invalid observations"]
