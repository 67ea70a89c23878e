"""Connect to a Ray cluster, and read what it has."""

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from td3.errors import UserError, first_line

LOCAL = "local"
"""Address of a Ray that td3 starts on this machine and ends afterwards."""
# Ray starts threads and processes of its own; these only cost time here.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}


@dataclass(frozen=True)
class Node:
    """A node that is alive."""

    id: str
    address: str
    cpus: float
    gpus: float


@dataclass(frozen=True)
class Share:
    """What one population needs."""

    cpus: int
    gpus: int = 0

    @property
    def options(self) -> dict[str, float]:
        """As Ray names them."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}

    def fits(self, resources: Mapping[str, float]) -> bool:
        return resources.get("CPU", 0) >= self.cpus and resources.get("GPU", 0) >= self.gpus


def import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise UserError("--cluster needs Ray: pip install 'td3[ray]'") from error
    return ray


@contextlib.contextmanager
def connected(address: str, ships: str = "") -> Iterator[Any]:
    """The module `ray`, connected to a cluster; `ships` is a folder that the nodes get.

    Raises UserError if there is no cluster, or one of another version.
    """
    ray = import_ray()
    if ray.is_initialized():  # by the program that called td3.train
        yield ray
        return
    before = {name: os.environ.get(name) for name in QUIET}
    os.environ.update({name: value for name, value in QUIET.items() if before[name] is None})
    own = {"_node_ip_address": "127.0.0.1", "include_dashboard": False} if address == LOCAL else {}
    runtime = {"working_dir": ships, "excludes": EXCLUDES} if ships else None
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="CRITICAL",
            runtime_env=runtime,
            **own,
        )
    except Exception as error:  # Ray raises ConnectionError, RuntimeError, ValueError and others
        raise UserError(describe_refusal(address, error)) from error
    try:
        # Ray prints pages about lost nodes, also while it ends; the display reports them.
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
            try:
                yield ray
            finally:
                ray.shutdown()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


EXCLUDES = [
    "runs",
    ".git",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    "*.safetensors",
    "*.rows",
]
"""What the nodes do not need of a folder with the user's code."""


def describe_refusal(address: str, error: Exception) -> str:
    """One sentence about why Ray cannot be used."""
    text = " ".join(str(error).split())
    if "ersion mismatch" in text:
        return f"This machine and the cluster at {address} differ in version: {text.rstrip('.')}."
    if isinstance(error, ConnectionError) or "connect" in text.lower():
        hint = (
            "start one with 'ray start --head', or use --cluster local"
            if address == "auto"
            else ("check the address and that its head node runs")
        )
        return f"There is no Ray cluster at {address!r}; {hint}."
    return f"Cannot use the Ray cluster at {address!r}: {first_line(error)}."


def read_nodes(ray: Any) -> list[Node]:
    """The nodes that are alive and may train: those with a processor for Ray."""
    return [
        Node(
            own["NodeID"],
            own["NodeManagerAddress"],
            own["Resources"].get("CPU", 0),
            own["Resources"].get("GPU", 0),
        )
        for own in ray.nodes()
        if own["Alive"] and own["Resources"].get("CPU", 0) > 0
    ]


def choose_share(nodes: Sequence[Node], device: str, threads: int) -> Share:
    """What a population gets: a GPU with its part of the node's cores, or cores.

    Raises UserError if the cluster cannot have it.
    """
    if not nodes:
        raise UserError("No node of the cluster has a CPU for Ray tasks; add nodes with CPUs.")
    with_gpu = [node for node in nodes if node.gpus >= 1]
    if device.startswith("cuda") and not with_gpu:
        raise UserError("No node of the cluster has a GPU; use --device cpu or auto.")
    if device != "cpu" and with_gpu:
        return Share(max(1, math.floor(min(node.cpus / node.gpus for node in with_gpu))), 1)
    share = Share(max(1, threads))
    if max(node.cpus for node in nodes) < share.cpus:
        raise UserError(
            f"A population needs {share.cpus} CPUs (--threads), and no node has more than "
            f"{max(node.cpus for node in nodes):g}."
        )
    return share


def places(nodes: Sequence[Node], share: Share) -> int:
    """How many populations the cluster can train at the same time."""
    found = 0
    for node in nodes:
        slots = node.cpus // share.cpus
        found += int(min(slots, node.gpus // share.gpus) if share.gpus else slots)
    return max(1, found)
