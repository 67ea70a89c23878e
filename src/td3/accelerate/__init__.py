"""How an update is executed: everything here wraps the agent's own `update`."""

from td3.accelerate.workspace import Workspace
from td3.agent import TD3


def accelerate(agent: TD3) -> TD3:
    """Execute this agent's updates in the fastest way there is on its device; returns the agent.

    Copies and members of it are updated plainly, until they are accelerated themselves.
    """
    if agent.device.type == "cpu":
        # An attribute of the object hides the method of its class.
        agent.__dict__["update"] = Workspace(agent)
    return agent
