"""The driver with workers in threads: divisions, losses, failures, stops, searches."""

import contextlib
import dataclasses
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_ray import FakeRay
from support.paper_plan import make_tiny_plan
from support.run_tools import different, tiny, train_in_pieces

import td3
from benchmarks.td3_bench import best_policy, paper_cluster
from td3.cluster import run as on_cluster
from td3.cluster import tune as tune_on_cluster
from td3.cluster.connection import Share
from td3.cluster.driver import LOSSES, Driver, Population
from td3.cluster.progress import describe_saved
from td3.cluster.run import Cluster
from td3.cluster.worker import Job, Worker
from td3.config import Config, to_dict, varied
from td3.errors import RunStopped, UserError
from td3.report.summary import read_run
from td3.run.folder import read_config
from td3.signals import StopRequest


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRay:
    """A cluster in threads; temporary folders of workers are in tmp_path/nodes."""
    own = FakeRay()

    @contextlib.contextmanager
    def connected(address: str, ships: str = "") -> Iterator[FakeRay]:
        yield own

    nodes = tmp_path / "nodes"
    nodes.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(nodes))
    for module in (on_cluster, tune_on_cluster, paper_cluster):
        monkeypatch.setattr(module, "connected", connected)
    return own


def left_behind(folder: Path) -> list[Path]:
    return list((folder / "nodes").iterdir())


def populations_of(config: Config, folder: Path, count: int) -> list[Population]:
    parts = on_cluster.divide(config, count)
    return [Population(f"{k}", part, folder / f"{k}") for k, part in enumerate(parts)]


def test_lost_worker_continues_from_its_checkpoint_with_the_same_results(
    ray: FakeRay, tmp_path: Path
) -> None:
    config = tiny(seeds=2, threads=1)
    (population,) = populations_of(config, tmp_path, 1)
    seen: list[str] = []

    def notify(kind: str, own: Population, facts: dict[str, Any]) -> None:
        seen.append(kind)
        if kind == "evaluation" and facts["step"] == 300 and "lost" not in seen:
            ray.actors[-1].die()

    with StopRequest() as stop:
        Driver(ray, [population], Share(1), notify=notify).run(stop)
    assert "lost" in seen
    assert population.state == "finished"
    train_in_pieces(config, tmp_path / "alone", [])
    assert different(population.folder, tmp_path / "alone") == []


def test_population_that_always_loses_its_worker_fails(ray: FakeRay, tmp_path: Path) -> None:
    (population,) = populations_of(tiny(), tmp_path, 1)

    def notify(kind: str, own: Population, facts: dict[str, Any]) -> None:
        if kind == "placed":
            ray.actors[-1].die()

    with StopRequest() as stop:
        Driver(ray, [population], Share(1), notify=notify).run(stop)
    assert population.state == "failed"
    assert population.message.startswith(f"it lost its worker {LOSSES} times in a row")
    assert len(ray.actors) == LOSSES


def test_run_on_a_cluster_reads_as_one_run(ray: FakeRay, tmp_path: Path) -> None:
    settings = {"grid": {"agent.tau": [0.005, 0.05]}, "seeds": 2, "seed": 3}
    tables = dataclasses.asdict(tiny())
    tables = {key: tables[key] for key in ("agent", "loop", "evaluation", "checkpoint")}
    options = {"address": "fake", "populations": 2}
    run = td3.train(
        "Pendulum-v1", run=tmp_path / "out", quiet=True, cluster=options, **tables, **settings
    )
    assert run.finished
    assert sorted(set(run.evaluations["agent"])) == [0, 1, 2, 3]
    summary = read_run(run.folder)
    assert [own.seed for own in summary.evaluations.values()] == [3, 4, 3, 4]
    assert [own["agent.tau"] for own in summary.own.values()] == [0.005, 0.005, 0.05, 0.05]
    assert run.policy.evaluate(1).returns.size == 1
    parts = [read_config(tmp_path / "out" / "populations" / name)[0] for name in ("0000", "0001")]
    assert [(own.seed, own.seeds, own.agents) for own in parts] == [(3, 1, 2), (4, 1, 2)]
    assert left_behind(tmp_path) == []
    longer = td3.resume(run, steps=700, quiet=True)
    assert longer.evaluations["step"][-1] == 700


def test_stop_saves_all_and_resume_gives_results_of_an_uninterrupted_run(
    ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, folder = tiny(seeds=2, threads=1), tmp_path / "out"
    notify = on_cluster.ClusterDisplay.notify

    def stopping(self: Any, kind: str, own: Population, facts: dict[str, Any]) -> None:
        notify(self, kind, own, facts)
        if kind == "evaluation" and facts["step"] == 150:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as changed:
        changed.setattr(on_cluster.ClusterDisplay, "notify", stopping)
        changed.setattr("td3.signals.exit_now", lambda code: None)  # the signal may come twice
        _, code = on_cluster.start(config, folder, Cluster("fake", 2), quiet=True)
    assert code == 130
    assert left_behind(tmp_path) == []
    assert on_cluster.resume(folder, quiet=True) == 0
    for number in (0, 1):
        alone = tmp_path / f"alone-{number}"
        train_in_pieces(varied(config, {"seed": number, "seeds": 1}), alone, [])
        assert different(folder / "populations" / f"{number:04d}", alone) == []


def test_error_of_one_population_is_reported_and_the_others_finish(
    ray: FakeRay, tmp_path: Path
) -> None:
    good, bad = populations_of(tiny(seeds=2, threads=1), tmp_path, 2)
    bad.config = varied(bad.config, {"agent.n_step": -1})
    with StopRequest() as stop:
        Driver(ray, [good, bad], Share(1)).run(stop)
    assert (good.state, bad.state, bad.code) == ("finished", "failed", 2)
    assert bad.message.startswith("agent.n_step must be between 1 and 100")
    with pytest.raises(RunStopped, match=r"1 of 2 populations failed; the first, 1: agent\.n_step"):
        on_cluster.raise_failure(tmp_path, [bad], [good, bad])
    with pytest.raises(UserError, match=r"^agent\.n_step must be between 1 and 100"):
        on_cluster.raise_failure(tmp_path, [bad], [bad])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"checkpoint": {"keep_every": 100}}, "checkpoint.keep_every does not work with --cluster"),
        ({"track": ["wandb"]}, "track does not work with --cluster"),
        ({"device": "cuda:1"}, "device must be auto, cpu or cuda"),
    ],
)
def test_settings_that_a_cluster_cannot_have_are_refused(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        td3.train("Pendulum-v1", "quick", run=tmp_path / "out", cluster="fake", **settings)
    with pytest.raises(UserError, match="cluster has an unknown option 'nodes'"):
        td3.train("Pendulum-v1", "quick", run=tmp_path / "out", cluster={"nodes": 3})
    assert not (tmp_path / "out").exists()


def test_no_free_place_is_refused(ray: FakeRay, tmp_path: Path) -> None:
    ray.available_resources = lambda: {"CPU": 0.5}  # type: ignore[method-assign]
    options = Cluster("fake", wait="1s")
    with pytest.raises(UserError, match="no free resources: a population needs 1 CPU"):
        on_cluster.start(tiny(), tmp_path / "out", options, quiet=True)


def test_search_without_a_free_place_is_refused_and_leaves_no_folder(
    ray: FakeRay, tmp_path: Path
) -> None:
    ray.available_resources = lambda: {"CPU": 0.5}  # type: ignore[method-assign]
    cluster = {"address": "fake", "wait": "1s"}
    with pytest.raises(UserError, match="no free resources: a population needs 1 CPU"):
        td3.tune("Pendulum-v1", "quick", run=tmp_path / "out", quiet=True, cluster=cluster)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wait": "soon"}, "wait must be a duration such as 90s or 10m, got 'soon'"),
        ({"wait": 60}, "wait must be a duration such as 90s or 10m, got 60"),
        ({"populations": "two"}, "populations must be a whole number, 0 or more, got 'two'"),
        ({"storage": Path("x")}, "storage of the cluster must be text"),
    ],
)
def test_search_with_wrong_options_of_a_cluster_leaves_no_folder(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        td3.tune("Pendulum-v1", "quick", run=tmp_path / "out", quiet=True, cluster=options)
    assert not (tmp_path / "out").exists()


def test_population_stopped_while_it_loads_ends_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    worker = Worker(Job("run", "0000", to_dict(tiny())))
    worker.begin()
    while (report := worker.advance(stop=True)).end is None:
        pass
    worker.close()
    assert report.end == {"kind": "end", "code": 143, "message": ""}
    assert report.saved is None
    assert describe_saved(report.saved) == "stopped before its first checkpoint"


def test_search_on_a_cluster_survives_a_lost_worker(
    ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []
    notify = tune_on_cluster.ClusterDisplay.notify

    def losing(self: Any, kind: str, own: Population, facts: dict[str, Any]) -> None:
        notify(self, kind, own, facts)
        if kind == "step" and facts["step"] >= 200 and not lost:
            lost.append(own.name)
            ray.actors[int(own.name)].die()

    monkeypatch.setattr(tune_on_cluster.ClusterDisplay, "notify", losing)
    found = td3.tune(
        "Pendulum-v1",
        "quick",
        trials=6,
        seeds=1,
        steps=400,
        run=tmp_path / "search",
        quiet=True,
        cluster="fake",
        plan={"rows": 2, "evaluations": 4, "episodes": 1, "confirm": 0, "pruner": "none"},
        loop={"random_steps": 100},
        agent={"hidden_sizes": (16, 16), "batch_size": 16},
        threads=1,
    )
    assert lost
    assert [own.state for own in found.results] == ["complete"] * 6
    places = json.dumps(sorted(own.settings["agent.tau"] for own in found.results))
    assert len(set(json.loads(places))) == 6
    assert found.best is not None
    assert left_behind(tmp_path) == []


def test_paper_on_a_cluster_trains_keeps_and_tests_every_task(
    ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best_policy, "TEST_EPISODES", 2)
    monkeypatch.setattr(best_policy, "CHOICE_EPISODES", 1)
    plan = make_tiny_plan(tmp_path)
    progress = paper_cluster.train_tasks_on("fake", plan)
    assert progress.failed == {}
    assert sorted(progress.returns) == sorted(plan.tasks)
    assert all(read_run(plan.result_folder(task)).status == "finished" for task in plan.tasks)
    started = len(ray.actors)
    again = paper_cluster.train_tasks_on("fake", plan)
    assert again.returns == progress.returns
    assert len(ray.actors) == started
    assert left_behind(tmp_path) == []
