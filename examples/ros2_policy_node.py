"""A ROS 2 node that runs an exported policy at a fixed rate.

td3 export runs/my-run --to numpy --out controller
python ros2_policy_node.py --ros-args -p folder:=controller -p rate:=50.0 -p joints:="[hip, knee]"

It reads sensor_msgs/JointState and publishes efforts as std_msgs/Float64MultiArray, as the
controllers of ros2_control take them. It needs rclpy, NumPy and the exported policy.py; not td3.
"""

import importlib.util
import math
import time
from pathlib import Path
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

# --8<-- [start:node]
OLDEST = 3  # periods that an observation may be old
BAD_IN_A_ROW = 5  # late or invalid observations before the machine is stopped


class PolicyNode(Node):
    """Publishes one action per period. Stops for good if observations are late or invalid."""

    def __init__(self) -> None:
        super().__init__("td3_policy")
        folder = Path(self.declare_parameter("folder", "controller").value)
        self.period = 1 / self.declare_parameter("rate", 50.0).value
        self.joints = list(self.declare_parameter("joints", ["joint"]).value)
        self.policy = load_exported(folder)
        self.policy.reset()
        self.latest, self.received, self.bad, self.stopped = [math.nan], -math.inf, 0, False
        self.commands = self.create_publisher(Float64MultiArray, "commands", 1)
        self.create_subscription(JointState, "joint_states", self.keep, qos_profile_sensor_data)
        self.stop_service = self.create_client(Trigger, "stop")  # yours: brake, remove the power
        self.timer = self.create_timer(self.period, self.act)
        self.get_logger().info(f"policy {self.policy.program['facts']}")  # which version acts

    def keep(self, message: Any) -> None:
        """Remember the newest observation: positions, then velocities, in the order of training."""
        at = {name: position for position, name in enumerate(message.name)}
        if all(name in at for name in self.joints):
            order = [at[name] for name in self.joints]
            self.latest = [
                numbers[k] for numbers in (message.position, message.velocity) for k in order
            ]
            self.received = time.monotonic()

    def act(self) -> None:
        """Once per period."""
        if self.stopped:
            return
        late = time.monotonic() - self.received > OLDEST * self.period
        action = self.policy.safe_action if late else self.policy(self.latest)
        self.bad = self.bad + 1 if late or not self.policy.ok else 0
        self.commands.publish(Float64MultiArray(data=[float(number) for number in action.ravel()]))
        if self.bad >= BAD_IN_A_ROW:
            self.stop("late observations" if late else "invalid observations")

    def stop(self, reason: str) -> None:
        """The safe action, then the stop service; a person starts the node again."""
        self.stopped = True
        safe = [float(number) for number in self.policy.safe_action]
        self.commands.publish(Float64MultiArray(data=safe))
        self.stop_service.call_async(Trigger.Request())
        self.get_logger().error(f"stopped: {reason}")


# --8<-- [end:node]


def load_exported(folder: Path) -> Any:
    """The policy in the policy.py of a folder."""
    spec = importlib.util.spec_from_file_location("policy", folder / "policy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Policy()


def main() -> None:
    rclpy.init()
    node = PolicyNode()
    try:
        rclpy.spin(node)
    finally:
        node.stop("the node ends")
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
