"""What a cluster must have before anything is trained on it."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from td3.cluster import connection
from td3.cluster.connection import Node, Share, choose_share, describe_refusal, places
from td3.cluster.nodes import describe_failure, describe_problem, probe
from td3.config import Config, to_dict, varied
from td3.errors import UserError

HERE = {"python": "3.11.7", "td3": "0.1.0", "torch": "2.13.0", "mujoco": "3.11.0"}


@pytest.mark.parametrize("name", ["python", "td3", "torch", "mujoco"])
def test_other_version_on_a_node_is_named(name: str) -> None:
    found = {"versions": HERE | {name: "0.0.1"}, "problem": ""}
    message = describe_problem("10.0.0.2", HERE, found)
    assert message.startswith(f"Node 10.0.0.2 has {name} 0.0.1, this machine has {HERE[name]}")
    assert describe_problem("10.0.0.2", HERE, {"versions": HERE, "problem": ""}) == ""


def test_node_without_the_simulator_is_named() -> None:
    there = {key: value for key, value in HERE.items() if key != "mujoco"}
    found = {"versions": there, "problem": "HalfCheetah-v5 needs mujoco: pip install 'td3[mujoco]'"}
    message = describe_problem("10.0.0.2", HERE, found)
    assert message == (
        "Node 10.0.0.2 cannot train: HalfCheetah-v5 needs mujoco: pip install 'td3[mujoco]'."
    )


def test_probe_reports_an_environment_that_cannot_be_made() -> None:
    known = probe(to_dict(varied(Config(), {"environment.id": "Pendulum-v1"})))
    assert known["problem"] == ""
    assert {"python", "td3", "torch"} <= known["versions"].keys()
    missing = probe(to_dict(varied(Config(), {"environment.id": "nowhere:Env-v0"})))
    assert "No module named 'nowhere'" in missing["problem"]


def test_node_without_td3_is_named() -> None:
    node = Node("id", "10.0.0.2", 1, 0)
    error = RuntimeError("The remote function failed to import: No module named 'td3'")
    assert describe_failure(node, error).startswith("Node 10.0.0.2 has no module 'td3'; install")


@pytest.mark.parametrize(
    ("device", "cpus", "gpus", "expected"),
    [
        ("auto", 16, 0, Share(1)),
        ("auto", 16, 2, Share(8, 1)),
        ("cpu", 16, 2, Share(1)),
        ("cuda", 5, 2, Share(2, 1)),
    ],
)
def test_share_of_a_population_follows_the_nodes(
    device: str, cpus: float, gpus: float, expected: Share
) -> None:
    assert choose_share([Node("id", "10.0.0.2", cpus, gpus)], device, 0) == expected


def test_places_count_whole_shares_of_each_node() -> None:
    nodes = [Node("a", "10.0.0.2", 5, 1), Node("b", "10.0.0.3", 3, 0)]
    assert places(nodes, Share(2)) == 3
    assert places(nodes, Share(2, 1)) == 1


@pytest.mark.parametrize(
    ("nodes", "device", "threads", "message"),
    [
        ([], "auto", 0, "No node of the cluster has a CPU"),
        ([Node("a", "10.0.0.2", 4, 0)], "cuda", 0, "No node of the cluster has a GPU"),
        ([Node("a", "10.0.0.2", 4, 0)], "cpu", 8, "needs 8 CPUs"),
    ],
)
def test_cluster_that_can_never_train_is_refused(
    nodes: list[Node], device: str, threads: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        choose_share(nodes, device, threads)


def test_refusals_of_ray_become_one_sentence() -> None:
    missing = describe_refusal("auto", ConnectionError("Could not find any running Ray instance."))
    assert missing.startswith(
        "There is no Ray cluster at 'auto'; start one with 'ray start --head'"
    )
    other = RuntimeError("Version mismatch: The cluster was started with:\n Ray: 2.50.0\n")
    assert "Version mismatch: The cluster was started with: Ray: 2.50.0." in describe_refusal(
        "10.0.0.1:6379", other
    )


def test_pages_of_ray_do_not_reach_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda **options: None,
        shutdown=lambda: print("(raylet) Raylet is terminated."),
    )
    monkeypatch.setattr(connection, "import_ray", lambda: ray)
    with connection.connected("auto"):
        print("(raylet) The node is dead.")
    print('{"result": 1}')
    assert capsys.readouterr().out == '{"result": 1}\n'


WITHOUT_RAY = """
import sys
sys.modules["ray"] = None
from td3.cli import main
sys.exit(main(["train", "Pendulum-v1", "--cluster", "auto"]))
"""


def test_missing_ray_is_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_RAY], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "td3: --cluster needs Ray: pip install 'td3[ray]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_import_of_td3_and_its_cluster_does_not_import_ray() -> None:
    code = "import sys, td3.cluster.run, td3.cluster.tune; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
