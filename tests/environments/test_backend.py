"""Where environments run: in this process, in workers, or in a vector environment."""

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from support.worker_tasks import Counting

from td3.config import Config, EnvironmentConfig, from_dict
from td3.environments import backend
from td3.environments.backend import make_environments, step_seconds, worker_count
from td3.environments.environment import Environment
from td3.environments.factories import name_environment
from td3.environments.in_process import InProcess
from td3.errors import UserError
from td3.seeding import Stream, Streams
from td3.training.collector import Collector

NEVER = 10**9


def streams(count: int) -> list[Stream]:
    return [Streams.from_seed(seed).env for seed in range(count)]


def config_of(**tables: Any) -> Config:
    tables.setdefault("environment", {})["id"] = "Pendulum-v1"
    return from_dict(tables)


@pytest.mark.parametrize(
    ("cores", "microseconds", "environments", "expected"),
    [
        (16, 70, 10, 10),
        (16, 70, 32, 11),  # 3 each, as 15 would have
        (9, 70, 10, 5),
        (16, 70, 1, 0),
        (16, 10, 2, 0),
        (2, 70, 10, 0),
        (1, 70, 10, 0),
        (16, 0, 10, 0),
        (3, 1000, 10, 2),
    ],
)
def test_auto_starts_workers_if_they_save_time(
    cores: int,
    microseconds: float,
    environments: int,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend, "usable_cores", lambda: cores)
    assert (
        worker_count(config_of(seeds=environments), environments, lambda: microseconds * 1e-6)
        == expected
    )


def test_auto_keeps_a_short_run_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "usable_cores", lambda: 16)
    short = config_of(loop={"steps": 5_000, "random_steps": 9})
    assert worker_count(short, 10, lambda: 70e-6) == 0
    assert worker_count(config_of(loop={"steps": 50_000}), 10, lambda: 70e-6) == 10
    assert worker_count(config_of(threads=12), 10, lambda: 70e-6) == 4


@pytest.mark.parametrize(
    ("device", "cores", "workers"),
    [("cuda", 16, 1), ("cuda:1", 2, 1), ("cuda", 1, 0), ("cpu", 16, 0)],
)
def test_auto_with_a_gpu_starts_a_worker_for_one_environment(
    device: str, cores: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "usable_cores", lambda: cores)
    assert worker_count(config_of(device=device), 1, lambda: 70e-6) == workers
    assert worker_count(config_of(device=device), 1, lambda: 20e-6) == 0
    monkeypatch.setattr(backend, "usable_cores", lambda: min(cores, 2))
    found = worker_count(config_of(device=device), 10, lambda: 20e-6)
    assert found == workers, "one worker steps ten environments while this process works"


def test_worker_count_follows_explicit_settings() -> None:
    for environment, expected in [
        ({"workers": 3}, 3),
        ({"workers": 30}, 10),
        ({"vectorization": "workers", "workers": 4}, 4),
        ({"vectorization": "own"}, 0),
    ]:
        assert worker_count(config_of(environment=environment), 10, lambda: 1.0) == expected


def test_step_seconds_measures_a_step() -> None:
    with closing(Environment(EnvironmentConfig("Pendulum-v1"))) as environment:
        assert 1e-6 < step_seconds(environment) < 1e-2
        assert not environment.is_fresh


BACKENDS = [
    ({"vectorization": "own"}, "2 environments in this process"),
    ({"vectorization": "workers", "workers": 1}, "2 environments in 1 worker process"),
    ({"vectorization": "workers", "workers": 2}, "2 environments in 2 worker processes"),
    ({"vectorization": "sync"}, "2 environments in Gymnasium's SyncVectorEnv"),
]


@pytest.mark.parametrize(("environment", "description"), BACKENDS)
def test_environments_describe_where_they_run(
    environment: dict[str, Any], description: str
) -> None:
    environments = make_environments(config_of(environment=dict(environment)), streams(2))
    assert environments.description == description
    collector = Collector(environments, 1, [], 0.0)
    collector.step(np.zeros((2, 1), dtype=np.float32), 1)
    environments.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Environment]:
    """The environments that are made in this process."""
    found: list[Environment] = []
    original = Environment.__init__

    def note(self: Environment, *arguments: Any) -> None:
        original(self, *arguments)
        found.append(self)

    monkeypatch.setattr(Environment, "__init__", note)
    return found


def test_make_environments_steps_local_functions_here_and_says_so() -> None:
    name, _ = name_environment(lambda: Counting())
    table = {"id": name, "vectorization": "workers", "workers": 1}
    config = from_dict({"environment": table, "threads": 1, "device": "cpu"})
    with closing(make_environments(config, [Streams.from_seed(0).env])) as environments:
        assert isinstance(environments, InProcess)
        assert "exists only in this process" in environments.warning


def test_make_environments_refuses_functions_in_vectors() -> None:
    table = {"id": "support.worker_tasks:make_counting", "vectorization": "sync"}
    with pytest.raises(UserError, match="needs a registered id"):
        make_environments(from_dict({"environment": table}), [Streams.from_seed(0).env])


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(("vectorization", "here"), [("own", 2), ("workers", 1)])
def test_make_environments_makes_no_environment_only_to_read_its_task(
    vectorization: str, here: int, given: bool, made: list[Environment]
) -> None:
    config = config_of(environment={"vectorization": vectorization, "workers": 0})
    first = Environment(config.environment) if given else None
    environments = make_environments(config, streams(2), first)
    assert len(made) == here
    environments.close()
    with closing(InProcess(config.environment, streams(2), NEVER)) as expected:
        assert environments.states.tobytes() == expected.states.tobytes()


@pytest.mark.parametrize(("seconds", "here"), [(1.0, 1), (0.0, 3)])
def test_make_environments_never_trains_with_the_environment_that_it_timed(
    seconds: float, here: int, made: list[Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some simulators replay exactly only from a fresh object."""

    def pretend(environment: Environment) -> float:
        step_seconds(environment)
        return seconds

    monkeypatch.setattr(backend, "usable_cores", lambda: 8)
    monkeypatch.setattr(backend, "step_seconds", pretend)
    environments = make_environments(config_of(), streams(2))
    assert len(made) == here
    assert environments.description.endswith("processes" if seconds else "this process")
    if isinstance(environments, InProcess):
        assert made[0] not in [one.environment for one in environments.replayable]
    environments.close()
