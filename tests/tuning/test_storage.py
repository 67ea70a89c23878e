"""A study in other storages: SQLite, PostgreSQL, and opened by optuna-dashboard."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from support.run_tools import StopAt, tiny

from td3.signals import StopRequest
from td3.tuning.journal import open_journal
from td3.tuning.plan import Plan
from td3.tuning.search import open_search

USER = "postgres"  # the server refuses to run as root
PLAN = Plan(tiny(seeds=1, threads=1), trials=4, rows=2, evaluations=3, episodes=1, owner="me")


def find_program(name: str) -> str:
    """A program of PostgreSQL; skips without it."""
    places = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    found = shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", "")]))
    if not found:
        pytest.skip("PostgreSQL is not installed (Debian package postgresql)")
    return found


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server on this machine."""
    pytest.importorskip("psycopg")
    initdb, control = find_program("initdb"), find_program("pg_ctl")
    folder = Path(tempfile.mkdtemp(prefix="td3-postgres-", dir="/tmp"))
    prefix = []
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
        prefix = ["runuser", "-u", USER, "--"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data, options = str(folder / "data"), f"-p {port} -k {folder} -h 127.0.0.1 -F"

    def call(*words: str) -> None:
        subprocess.run([*prefix, *words], check=True, stdout=subprocess.DEVNULL, cwd="/")

    try:
        call(initdb, "-A", "trust", "-U", USER, "-N", "-D", data)
        call(control, "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
        try:
            yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"
        finally:
            call(control, "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def search(plan: Plan, folder: Path, stop_at: int = 10**9) -> list[Any]:
    """Run a search, or continue it; returns its trials."""
    folder.mkdir(exist_ok=True)
    stop = StopAt(stop_at)

    def watch(training: Any) -> None:
        training.on_step = stop

    with open_search(plan, folder) as opened:
        opened.run(stop, watch)
        return [(own.value, own.params, own.intermediate_values) for own in opened.trials.all()]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The trials of the same search with a journal."""
    return search(PLAN, tmp_path_factory.mktemp("journal"))


def test_sqlite_study_has_the_trials_of_a_journal(expected: list[Any], tmp_path: Path) -> None:
    plan = replace(PLAN, storage=f"sqlite:///{tmp_path}/study.db", study="s")
    search(plan, tmp_path / "search", stop_at=250)
    assert search(plan, tmp_path / "search") == expected


def test_postgres_study_has_the_trials_of_a_journal(
    postgres: str, expected: list[Any], tmp_path: Path
) -> None:
    plan = replace(PLAN, storage=postgres, study="alone")
    search(plan, tmp_path / "search", stop_at=250)
    assert search(plan, tmp_path / "search") == expected


def test_postgres_study_is_shared_by_two_searches(postgres: str, tmp_path: Path) -> None:
    plan = replace(PLAN, storage=postgres, study="shared", trials=2)
    other = replace(plan, owner="other")
    search(plan, tmp_path / "one", stop_at=150)
    assert len(search(other, tmp_path / "other")) == 4
    assert len(search(plan, tmp_path / "one")) == 4
    with open_search(other, tmp_path / "other") as opened:
        assert len(opened.trials.places) == 2
        assert opened.run(StopRequest())
        assert all(own.state.is_finished() for own in opened.trials.all())


def test_study_opens_in_optuna_dashboard(tmp_path: Path) -> None:
    dashboard = pytest.importorskip("optuna_dashboard")
    search(replace(PLAN, trials=2), tmp_path / "search")
    app = dashboard.wsgi(open_journal(tmp_path / "search", trials=2))
    studies = get(app, "/api/studies")["study_summaries"]
    assert [study["study_name"] for study in studies] == ["td3"]
    trials = get(app, f"/api/studies/{studies[0]['study_id']}")["trials"]
    assert len(trials) == 2
    assert {own["name"] for own in trials[0]["params"]} >= {"agent.tau", "1 - agent.discount"}


def get(app: Any, path: str) -> dict[str, Any]:
    """A request without a server."""
    environ: dict[str, Any] = {"PATH_INFO": path, "REQUEST_METHOD": "GET"}
    setup_testing_defaults(environ)
    status = []
    body = b"".join(app(environ, lambda line, headers, error=None: status.append(line)))
    assert status[0].startswith("200")
    found: dict[str, Any] = json.loads(body)
    return found
