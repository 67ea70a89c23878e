"""The local server answers its own pages to its own address, and refuses everything else."""

import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPResponse
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from support.browser import serving

from td3.errors import UserError
from td3.serving import Content, LocalServer

PAGES = {"index.html": Content(b"hello", "text/html"), "a/b.js": Content(b"1", "text/javascript")}


def find(path: str, query: Mapping[str, str]) -> Content | None:
    return Content(repr(dict(query)).encode(), "text/plain") if path == "echo" else PAGES.get(path)


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with serving(find) as server:
        yield server


def ask(
    server: LocalServer, path: str, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.putrequest(method, path, skip_host=True)
    host = headers.pop("Host", f"127.0.0.1:{server.server_port}")
    for name, value in {"Host": host, **headers}.items():
        if value:
            connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_server_own_page_with_token_is_answered(server: LocalServer) -> None:
    for path, body in (
        ("", b"hello"),
        ("index.html", b"hello"),
        ("a/b.js", b"1"),
        ("?x=1", b"hello"),
    ):
        response, found = ask(server, f"/{server.token}/{path}")
        assert (response.status, found) == (200, body)
    assert response.getheader("Content-Type") == "text/html"
    assert response.getheader("Referrer-Policy") == "no-referrer"
    response, found = ask(server, f"/{server.token}/", "HEAD")
    assert (response.status, found) == (200, b"")
    assert response.getheader("Content-Length") == "5"


@pytest.mark.parametrize("path", ["", "/{token}/missing"])
def test_server_head_that_is_refused_has_no_body(server: LocalServer, path: str) -> None:
    """A body would be read as the answer to the next request of the connection."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as connection:
        host = f"Host: 127.0.0.1:{server.server_port}"
        path = path.format(token=server.token) or "/"
        connection.sendall(f"HEAD {path} HTTP/1.1\r\n{host}\r\n\r\n".encode())
        good = f"GET /{server.token}/ HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n"
        connection.sendall(good.encode())
        answers = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answers.count(b"HTTP/1.1 200 OK") == 1
    assert b"\r\n\r\nHTTP/1.1 200 OK" in answers


def test_server_binds_to_loopback_only(server: LocalServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/{server.token}/"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "", "0.0.0.0:{port}"]
)
def test_server_other_host_name_is_refused(server: LocalServer, host: str) -> None:
    host = host.format(port=server.server_port)
    response, body = ask(server, f"/{server.token}/", Host=host)
    assert response.status == 403
    assert b"hello" not in body


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}"])
def test_server_other_origin_is_refused(server: LocalServer, origin: str) -> None:
    origin = origin.format(port=server.server_port)
    assert ask(server, f"/{server.token}/", Origin=origin)[0].status == 403
    own = f"http://127.0.0.1:{server.server_port}"
    assert ask(server, f"/{server.token}/", Origin=own)[0].status == 200


def test_server_request_from_another_site_is_refused(server: LocalServer) -> None:
    assert ask(server, f"/{server.token}/", Sec_Fetch_Site="cross-site")[0].status == 403
    assert ask(server, f"/{server.token}/", Sec_Fetch_Site="same-origin")[0].status == 200


@pytest.mark.parametrize("path", ["/", "/index.html", "/wrong/", "/wrong/a/b.js", "//", "/%2e/"])
def test_server_without_token_is_refused(server: LocalServer, path: str) -> None:
    response, body = ask(server, path)
    assert response.status == 403
    assert b"hello" not in body
    assert server.token.encode() not in body


def test_server_query_reaches_the_page(server: LocalServer) -> None:
    body = ask(server, f"/{server.token}/echo?run=a%2Fb&empty=")[1]
    assert body == b"{'run': 'a/b', 'empty': ''}"


def test_server_token_is_random() -> None:
    tokens = set()
    for _ in range(3):
        server = LocalServer(find)
        tokens.add(server.token)
        server.server_close()
    assert len(tokens) == 3
    assert all(len(token) >= 32 for token in tokens)


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "..%2f..%2fetc/passwd", "a/../index.html", "/etc/passwd", "a/", "a//b.js",
     "%61/b.js", "a\\b.js", "index.html%00", ".", "file:///etc/passwd"],
)  # fmt: skip
def test_server_path_that_is_no_page_is_not_found(server: LocalServer, path: str) -> None:
    assert ask(server, f"/{server.token}/{path}")[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_server_other_method_is_refused(server: LocalServer, method: str) -> None:
    assert ask(server, f"/{server.token}/", method)[0].status == 501


def test_server_garbage_does_not_stop_it(server: LocalServer) -> None:
    for garbage in (b"\0\xff\r\n\r\n", b"GET " + b"/" * 70_000, b"GET / HTTP/9.9\r\n\r\n", b""):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as raw:
            raw.sendall(garbage)
    assert ask(server, f"/{server.token}/")[0].status == 200


def test_server_port_in_use_is_one_sentence(server: LocalServer) -> None:
    with pytest.raises(UserError, match=f"port {server.server_port}: Address already"):
        LocalServer(find, server.server_port)
    with pytest.raises(UserError, match="between 0 and 65535, not 70000"):
        LocalServer(find, 70_000)


def test_server_ctrl_c_stops_it_without_traceback() -> None:
    code = """
        from td3.serving import LocalServer
        server = LocalServer(lambda path, query: None)
        print(server.address, flush=True)
        server.serve_until_interrupted()
        print("stopped")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        address = process.stdout.readline().decode().strip()
        with pytest.raises(HTTPError, match="404"):  # it serves, so Ctrl-C finds it waiting
            urlopen(address, timeout=5)
        process.send_signal(signal.SIGINT)
        out, problem = process.communicate(timeout=10)
    assert (process.returncode, out, problem) == (0, b"stopped\n", b"")
