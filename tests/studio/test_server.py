"""The studio behind its server: only its own addresses, only to its own page."""

import gzip
import json
import os
import sys
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
from support.browser import serving
from support.hostile_policies import write as write_policy
from support.studio import make_folder

from benchmarks.studio import write_run
from td3.config import read_toml, to_toml
from td3.microscope.site import ANSWERS
from td3.policy.file import read_policy_file
from td3.policy.pretrained import pretrained
from td3.serving import LocalServer
from td3.studio.site import GONE, PAGE, Studio, play_token


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    root = tmp_path_factory.mktemp("studio")
    (root / "secret.txt").write_text("only for me")
    with serving(Studio(make_folder(root / "runs")).find) as server:
        yield server


def ask(
    server: LocalServer, path: str, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=given)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_page_and_data_are_served_with_the_token(server: LocalServer) -> None:
    response, body = ask(server, f"/{server.token}/")
    assert (response.status, body) == (200, (PAGE / "index.html").read_bytes())
    response, body = ask(server, f"/{server.token}/api/runs.json")
    assert len(json.loads(body)["rows"]) == 5
    assert response.getheader("Cache-Control") == "no-store"


def test_data_are_compressed_for_who_accepts_it(server: LocalServer) -> None:
    path = f"/{server.token}/api/explanations.json"
    plain = ask(server, path)[1]
    response, body = ask(server, path, Accept_Encoding="gzip, br")
    assert response.getheader("Content-Encoding") == "gzip"
    assert len(body) < len(plain) / 2
    assert gzip.decompress(body) == plain


def test_connection_serves_several_requests(server: LocalServer) -> None:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    for _ in range(3):
        connection.request("GET", f"/{server.token}/api/runs.json")
        response = connection.getresponse()
        assert (response.status, bool(response.read())) == (200, True)
        assert connection.sock is not None
    connection.close()


def test_body_of_a_request_is_not_read_as_the_next_request(server: LocalServer) -> None:
    hidden = f"GET /{server.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n"
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request("GET", f"/{server.token}/icon.svg", body=hidden)
    response = connection.getresponse()
    assert response.getheader("Connection") == "close"
    assert response.read() == (PAGE / "icon.svg").read_bytes()
    connection.close()


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}],
)
@pytest.mark.parametrize("path", ["", "api/runs.json", "api/run.json?run=finished", "export?run=x"])
def test_request_from_elsewhere_is_refused(
    server: LocalServer, path: str, headers: dict[str, str]
) -> None:
    response, body = ask(server, f"/{server.token}/{path}", **headers)
    assert response.status == 403
    assert b"finished" not in body


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "..%2fsecret.txt",
        "finished/config.toml",
        "api/../../secret.txt",
        "film?run=finished&name=../config.toml",
        "film?run=finished&name=%2Fetc%2Fpasswd",
        "export?run=finished&policy=../config&kind=policy",
        "play/../secret.txt",
        "vendor/../../site.py",
        "site.py",
    ],
)
def test_address_of_another_file_is_not_found(server: LocalServer, path: str) -> None:
    response, body = ask(server, f"/{server.token}/{path}")
    assert response.status == 404
    assert b"only for me" not in body


@pytest.mark.parametrize("run", ["..", "../secret.txt", "/etc", "finished/.."])
def test_run_of_another_folder_is_not_found(server: LocalServer, run: str) -> None:
    body = ask(server, f"/{server.token}/api/run.json?run={run}")[1]
    assert json.loads(body) == {"error": GONE}


@pytest.mark.parametrize("query", ["since=-1", "since=x", "since=9" * 50, "runs=[[[", "runs={}"])
def test_query_that_makes_no_sense_is_answered(server: LocalServer, query: str) -> None:
    for name in ("runs", "compare", "points"):
        assert ask(server, f"/{server.token}/api/{name}.json?{query}")[0].status == 200


@pytest.mark.parametrize("agents", ["x", "9" * 5000, ",", "-1"])
def test_agent_that_makes_no_sense_is_answered(server: LocalServer, agents: str) -> None:
    path = f"/{server.token}/api/series.json?run=finished&agents={agents}"
    assert ask(server, path)[0].status == 200


def test_module_that_only_a_run_names_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by the studio nor by a process that it starts."""
    code = f"open({str(tmp_path / 'imported')!r}, 'w')"
    (tmp_path / "planted_by_run.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    run = tmp_path / "run"
    write_run(run, steps=4000)
    own = "planted_by_run:Own"
    tables = read_toml(run / "config.toml") | {"callback": [own], "variant": {"name": own}}
    tables["loop"]["exploration"] = tables["environment"]["id"] = own
    tables["environment"]["kwargs"] = {"wrapper": own}
    (run / "config.toml").write_text(to_toml(tables))
    (run / "policy").mkdir()
    card, arrays = read_policy_file(Path(pretrained("Reacher-v5")))
    environment = {**card["environment"], "id": own, "kwargs": {"wrapper": own}}
    changed = {**card, "environment": environment}
    write_policy(run / "policy" / "agent-0.safetensors", changed, arrays)
    studio = Studio(tmp_path)
    query = {"run": "run", "runs": '["run"]', "study": "run", "policy": "agent-0", "kind": "numpy"}
    pages = [f"api/{name}.json" for name in studio.answers]
    pages += [*ANSWERS, "export", f"play/{play_token('run')}/policies.json"]
    assert b"planted_by_run" in b"".join(
        found.body for path in pages if (found := studio.find(path, query))
    )
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_written(server: LocalServer, method: str) -> None:
    assert ask(server, f"/{server.token}/api/runs.json", method)[0].status == 501


def test_pages_contain_no_way_to_turn_data_into_html() -> None:
    for path in PAGE.glob("*.js"):
        text = path.read_text()
        for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert name not in text, (path.name, name)
    policy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'"
    for name in ("index.html", "microscope.html"):
        assert policy in (PAGE / name).read_text(), name
