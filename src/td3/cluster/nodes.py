"""Check that every node can train: same versions, and the packages of the task."""

from collections.abc import Mapping, Sequence
from typing import Any

from td3.cluster.connection import Node
from td3.config import from_dict, to_dict
from td3.config.schema import Config
from td3.errors import UserError, first_line
from td3.run.versions import versions

SAME = ("python", "td3", "torch", "numpy", "gymnasium")
"""Versions that must be equal; those of simulators too, where both have them."""
SECONDS = 120.0
"""How long a node may need to answer."""


def probe(tables: dict[str, Any]) -> dict[str, Any]:
    """On a node: its versions, and why it cannot make the environment, if so."""
    from td3.config.variants import load_variant
    from td3.environments.environment import Environment

    problem = ""
    try:
        config = from_dict(tables)
        Environment(config.environment).close()
        load_variant(config.variant.name)
    except UserError as error:
        problem = str(error)
    except Exception as error:  # the environment's own code
        problem = f"{type(error).__name__}: {first_line(error)}"
    return {"versions": versions(), "problem": problem}


def check_nodes(ray: Any, nodes: Sequence[Node], configs: Sequence[Config]) -> None:
    """Raises UserError if a node has other versions than this process, or lacks a package."""
    tasks = {config.environment.id: config for config in configs}
    for config in tasks.values():
        check_task(ray, nodes, config)


def check_task(ray: Any, nodes: Sequence[Node], config: Config) -> None:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote = ray.remote(max_calls=1)(probe)
    futures = [
        remote.options(
            num_cpus=0,
            max_retries=1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        ).remote(to_dict(config))
        for node in nodes
    ]
    here = versions()
    for node, future in zip(nodes, futures, strict=True):
        try:
            found = ray.get(future, timeout=SECONDS)
        except Exception as error:
            raise UserError(describe_failure(node, error)) from error
        if problem := describe_problem(node.address, here, found):
            raise UserError(problem)


def describe_problem(node: str, here: Mapping[str, str], found: Mapping[str, Any]) -> str:
    """What is wrong with a node, in one sentence; empty if nothing is."""
    there = found["versions"]
    for name in [*SAME, *(name for name in here if name not in SAME and name != "commit")]:
        if name in there and name in here and there[name] != here[name]:
            return (
                f"Node {node} has {name} {there[name]}, this machine has {here[name]}; install the "
                "same versions on all nodes."
            )
    if found["problem"]:
        return f"Node {node} cannot train: {found['problem'].rstrip('.')}."
    return ""


def describe_failure(node: Node, error: Exception) -> str:
    text = " ".join(str(error).split())
    if "No module named" in text:
        module = text.split("No module named", 1)[1].split("'")[1]
        extra = "; install td3 and the task's packages on all nodes"
        return f"Node {node.address} has no module {module!r}{extra}."
    if type(error).__name__ == "GetTimeoutError":
        return f"Node {node.address} has not answered for {SECONDS:g} s."
    return f"Node {node.address} cannot be checked: {first_line(error)}."
