"""A Ray cluster of several nodes on this machine, in a process of its own.

The process reads commands from stdin: `kill K` ends node K as a power failure would. It removes
everything that Ray wrote when stdin closes.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NODES = 3
STORE_BYTES = 80 * 2**20
# Ray takes the address of the machine instead of 127.0.0.1 unless it believes to be on macOS.
LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "4",
    "OMP_NUM_THREADS": "1",
}


class RayCluster:
    """A cluster with a head that trains nothing and some nodes with one CPU each."""

    def __init__(self, nodes: int = NODES) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="td3ray-"))  # Ray's sockets need a short path
        self.environment = os.environ | LOOPBACK | {"TMPDIR": str(self.folder)}
        with (self.folder / "errors").open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", __file__, str(nodes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self.environment,
                text=True,
            )
        self.address = str(self.answer()["address"])
        self.nodes = list(range(nodes))
        """The nodes that train and are alive."""

    def answer(self) -> dict[str, object]:
        assert self.process.stdout
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                return dict(json.loads(line))
        raise RuntimeError((self.folder / "errors").read_text())

    def command(self, *words: object) -> dict[str, object]:
        assert self.process.stdin
        print(*words, file=self.process.stdin, flush=True)
        return self.answer()

    def kill(self, node: int) -> None:
        """Kill the node with this index, as a power failure would."""
        self.command("kill", node)
        self.nodes.remove(node)

    def add(self, **variables: str) -> None:
        """Add a node whose processes have these environment variables."""
        self.nodes.append(int(str(self.command("add", json.dumps(variables))["node"])))

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)
        assert self.process.stdout
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def serve(count: int) -> None:
    from ray.cluster_utils import Cluster

    common = {"node_ip_address": "127.0.0.1", "object_store_memory": STORE_BYTES}
    head = {**common, "num_cpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(num_cpus=1, **common) for _ in range(count)]
    print(json.dumps({"address": cluster.address}), flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "kill":
            cluster.remove_node(nodes[int(rest)], allow_graceful=False)
        else:
            nodes.append(cluster.add_node(num_cpus=1, env_vars=json.loads(rest), **common))
        print(json.dumps({"node": len(nodes) - 1}), flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
