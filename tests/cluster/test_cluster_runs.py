"""`td3 train` and `td3 tune` on a real Ray cluster, whose nodes are lost in the middle."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.long import LONG
from support.orphans import is_running
from support.ray_cluster import NODES, RayCluster
from support.run_tools import command, different, flags, tiny, train_in_pieces

from td3.cluster.mirror import newest_complete
from td3.config import Config, varied
from td3.run.folder import read_config

# Training waits in the middle until the file exists, so that the test can act there.
GATED = """
import time
from pathlib import Path
from gymnasium.envs.classic_control import PendulumEnv

STEPS = [0]

class Gated(PendulumEnv):
    def __init__(self, gate, render_mode=None):
        super().__init__(render_mode)
        self.gate, self.limit = Path(gate), Path(gate).with_name("limit")

    def step(self, action):
        STEPS[0] += 1
        while not self.gate.exists() and STEPS[0] > int(self.limit.read_text()):
            time.sleep(0.05)
        return super().step(action)
"""
SECONDS = 240.0


class Project:
    """A folder with an environment of its own, from which runs are started."""

    def __init__(self, folder: Path, cluster: RayCluster) -> None:
        self.folder, self.cluster, self.gate = folder, cluster, folder / "gate"
        (folder / "gated.py").write_text(GATED)
        self.limit = folder / "limit"  # steps of a process until it waits
        self.limit.write_text("900")
        self.runs = folder / "runs"
        self.processes: list[subprocess.Popen[bytes]] = []

    def config(self, seeds: int) -> Config:
        environment = {"id": "gated:Gated", "kwargs": {"gate": str(self.gate)}}
        limits = {"max_episode_steps": 100}
        return tiny(environment=environment | limits, seeds=seeds, threads=1)

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            command(*words),
            cwd=self.folder,
            env=self.cluster.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.processes.append(process)
        return process

    def on_cluster(self, seeds: int, run: str, *more: str) -> "subprocess.Popen[bytes]":
        config = self.config(seeds)
        gate = ["--environment.kwargs", "gate", str(self.gate)]
        place = ["--run", f"runs/{run}", "--threads", "1", "--cluster", self.cluster.address]
        return self.start("train", *flags(config), *gate, *place, *more)

    def workers(self) -> dict[str, int]:
        """Population → process that trains it."""
        folders = self.cluster.folder.glob("td3-cluster-*/*/.lock")
        found = [(path.parent.name.partition("-")[0], path.read_text().strip()) for path in folders]
        return {name: int(own) for name, own in found if own and is_running(int(own))}

    def check_equal(self, populations: Path, parts: list[tuple[int, int]]) -> None:
        """Every population has the results of its seeds on one machine, byte for byte."""
        for number, (seed, seeds) in enumerate(parts):
            alone = self.runs / f"alone-{seed}-{seeds}"
            if not alone.exists():
                train_in_pieces(varied(self.config(seeds), {"seed": seed}), alone, [])
            assert different(populations / f"{number:04d}", alone) == []


@pytest.fixture
def project(
    tmp_path: Path, cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    monkeypatch.syspath_prepend(str(tmp_path))  # comparisons make the environment
    own = Project(tmp_path, cluster)
    while len(cluster.nodes) < NODES:  # a test before this one killed some
        cluster.add()
    yield own
    for process in own.processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def until(
    condition: Callable[[], object], process: "subprocess.Popen[bytes] | None" = None
) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        if process and process.poll() is not None:
            raise AssertionError(process.communicate()[1].decode())
        time.sleep(0.1)


def end(process: "subprocess.Popen[bytes]", code: int = 0) -> str:
    """Wait for a process; its messages."""
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == code, errors.decode()
    return errors.decode()


def has_checkpoints(run: Path, populations: int) -> bool:
    folders = [run / "populations" / f"{k:04d}" for k in range(populations)]
    return all(folder.is_dir() and newest_complete(folder) for folder in folders)


def populations_in(storage: Path) -> set[str]:
    """Populations of which the storage has a checkpoint."""
    found = storage.glob("out-*/000?/checkpoints/*/manifest.json")
    return {path.parents[2].name for path in found}


def test_killed_driver_node_and_process_give_results_of_one_machine(project: Project) -> None:
    run = project.runs / "out"
    driver = project.on_cluster(5, "out")
    until(lambda: has_checkpoints(run, 3), driver)
    workers = project.workers()
    assert sorted(workers) == ["0000", "0001", "0002"]
    driver.kill()
    driver.communicate()
    until(lambda: not any(map(is_running, workers.values())))

    driver = project.start("resume", "runs/out")
    until(lambda: len(project.workers()) == 3, driver)
    os.kill(project.workers()["0001"], signal.SIGKILL)
    project.cluster.kill(project.cluster.nodes[0])
    project.gate.touch()
    messages = end(driver)
    assert "it continues from" in messages
    project.check_equal(run / "populations", [(0, 2), (2, 2), (4, 1)])
    assert list(project.cluster.folder.glob("td3-cluster-*/*")) == []

    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert {own["agent"]: own["seed"] for own in records} == {k: k for k in range(5)}
    assert [own["step"] for own in records] == sorted(own["step"] for own in records)
    assert len(list((run / "policy").glob("agent-?.safetensors"))) == 5
    assert read_config(run)[0].agents == 5


def test_ctrl_c_saves_everywhere_and_resume_takes_checkpoints_from_storage(
    project: Project,
) -> None:
    run, storage = project.runs / "out", project.folder / "storage"
    driver = project.on_cluster(2, "out", "--populations", "2", "--storage", "storage")
    until(lambda: len(populations_in(storage)) == 2, driver)
    driver.send_signal(signal.SIGINT)
    project.gate.touch()
    end(driver, 130)
    project.gate.unlink()
    assert project.workers() == {}
    assert not list(run.glob("populations/*/checkpoints"))
    project.gate.touch()
    end(project.start("resume", "runs/out", "--quiet"))
    (stored,) = storage.iterdir()
    project.check_equal(stored, [(0, 1), (1, 1)])


SEARCH = (
    "tune gated:Gated --recipe quick --trials 4 --seeds 1 --rows 4 --steps 400 --evaluations 4 "
    "--episodes 1 --pruner none --confirm 0 --device cpu --environment.max-episode-steps 50 "
    "--loop.random-steps 100 --agent.hidden-sizes 16 16 --agent.batch-size 16"
)
"""Without pruning, a trial does not depend on when the others end. So two populations have the
trials of one."""


def test_search_with_killed_driver_node_and_process_has_trials_of_one_machine(
    project: Project,
) -> None:
    words = [*SEARCH.split(), "--environment.kwargs", "gate", str(project.gate)]
    run, alone = project.runs / "out", project.runs / "alone"
    place = ["--cluster", project.cluster.address, "--populations", "2", "--json"]
    driver = project.start(*words, *place, "--run", str(run))
    until(lambda: has_checkpoints(run, 2), driver)
    workers = project.workers()
    assert sorted(workers) == ["0000", "0001"]
    if LONG:
        driver.kill()
        driver.communicate()
        until(lambda: not any(map(is_running, workers.values())))
        project.limit.write_text("20")
        driver = project.start("tune", "--resume", str(run), "--json")
        until(lambda: len(project.workers()) == 2, driver)
        os.kill(project.workers()["0001"], signal.SIGKILL)
    for node in project.cluster.nodes[1:]:  # the populations have two nodes, and one is left
        project.cluster.kill(node)
    project.gate.touch()
    output, errors = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, errors.decode()
    assert len(json.loads(output)["trials"]) == 4
    assert list(project.cluster.folder.glob("td3-cluster-*/*")) == []

    end(project.start(*words, "--run", str(alone)))
    for name in ("trials.csv", "best.toml"):
        assert (run / name).read_text() == (alone / name).read_text()


def test_no_free_place_is_one_sentence(project: Project) -> None:
    project.gate.touch()
    busy = subprocess.Popen(
        [command()[0], "-W", "ignore", "-c", OCCUPY, project.cluster.address],
        env=project.cluster.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert busy.stdout
    assert busy.stdout.readline()
    message = end(project.on_cluster(1, "out", "--wait", "1s"), 2)
    assert "The cluster has no free resources: a population needs 1 CPU" in message
    run = project.runs / "search"
    place = ["--cluster", project.cluster.address, "--wait", "1s", "--run", str(run)]
    words = [*SEARCH.split(), "--environment.kwargs", "gate", str(project.gate)]
    message = end(project.start(*words, *place), 2)
    assert "The cluster has no free resources: a population needs 1 CPU" in message
    assert not run.exists()
    busy.communicate()


OCCUPY = """
import sys
import ray

@ray.remote(num_cpus=1)
class Busy:
    def ready(self): ...

ray.init(address=sys.argv[1], log_to_driver=False)
actors = [Busy.remote() for _ in range(int(ray.cluster_resources()["CPU"]))]
ray.get([own.ready.remote() for own in actors])
print("ready", flush=True)
sys.stdin.read()
"""
