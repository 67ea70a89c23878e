"""A web server for one person on this machine: local pages of td3.

Other programs and web pages must not reach it. It binds to the loopback interface. The address
contains a random token. A request is refused if its Host is not this server (a foreign name that
resolves to 127.0.0.1), or if another web page sent it (Origin, Sec-Fetch-Site). It never maps a
path to a file: the caller's `find` knows every address that exists.
"""

import gzip
import secrets
import socketserver
import sys
import webbrowser
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from td3.errors import UserError

IDLE_SECONDS = 30  # a connection that sends nothing is closed
SMALL = 2**11  # bytes; a shorter answer is not compressed
COMPRESSED = ("application/json", "text/")
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address contains the token
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Content(NamedTuple):
    """The answer to a request."""

    body: bytes
    type: str
    """Media type, e.g. "text/html; charset=utf-8"."""
    download: str = ""
    """Name of the file that the browser stores instead of showing it: letters, digits, dots, -."""


Find = Callable[[str, Mapping[str, str]], Content | None]
"""Returns the content at a path such as "index.html" with the query's values, or None."""


class LocalServer(ThreadingHTTPServer):
    """Serves pages on 127.0.0.1 to programs that know its address.

    Args:
        find: Returns the content at a path with a query; called by several threads.
        port: Port; 0 chooses a free one.

    Raises:
        UserError: The port is in use or not allowed.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, find: Find, port: int = 0) -> None:
        if not 0 <= port <= 65_535:
            raise UserError(f"A port is between 0 and 65535, not {port}.")
        self.find = find
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except OSError as error:
            raise UserError(f"Cannot serve on port {port}: {error.strerror}.") from error

    def server_bind(self) -> None:
        """Bind without the search for a host name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    @property
    def address(self) -> str:
        """The address to open in a browser. Who knows it can read the pages."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> set[str]:
        return {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a browser that closed its connection early; print any other error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def show(self, name: str, in_browser: bool) -> None:
        """Print the address, open it in the default browser if wanted, and serve until Ctrl-C."""
        print(f"{name}: {self.address}\nCtrl-C stops it.", flush=True)
        if in_browser:
            webbrowser.open(self.address)
        self.serve_until_interrupted()
        print("Stopped.")

    def serve_until_interrupted(self) -> None:
        """Serve until Ctrl-C."""
        try:
            self.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            self.server_close()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: LocalServer
    timeout = IDLE_SECONDS
    server_version, sys_version = "td3", ""
    protocol_version = "HTTP/1.1"  # a page that follows a run keeps its connection

    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    def answer(self) -> None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # its body would be read as the next request
        if problem := self.problem():
            self.refuse(403, problem)
            return
        path = self.own_path()
        query = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        content = None if path is None else self.server.find(path or "index.html", query)
        if content is None:
            self.refuse(404, "There is no such page.")
            return
        self.send(200, content)

    def problem(self) -> str:
        """Why this request may not be answered; empty if it may."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            return "The Host of this request is not this server."
        origins = self.headers.get_all("Origin", [])
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return "Another web page sent this request."
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "Another web page sent this request."
        token = urlsplit(self.path).path.split("/")[1:2]
        if not token or not secrets.compare_digest(token[0].encode(), self.server.token.encode()):
            return "The address lacks the token that td3 printed."
        return ""

    def own_path(self) -> str | None:
        """The path after the token; None if the address stops before the slash."""
        _, _, rest = urlsplit(self.path).path[1:].partition(self.server.token)
        return rest[1:] if rest.startswith("/") else None

    def refuse(self, code: int, reason: str) -> None:
        self.send(code, Content(f"{reason}\n".encode(), "text/plain; charset=utf-8"))

    def send(self, code: int, content: Content) -> None:
        self.send_response(code)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        body = content.body
        accepts = "gzip" in self.headers.get("Accept-Encoding", "")
        if accepts and len(body) > SMALL and content.type.startswith(COMPRESSED):
            body = gzip.compress(body, compresslevel=1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", content.type)
        self.send_header("Content-Length", str(len(body)))
        if content.download:
            self.send_header("Content-Disposition", f'attachment; filename="{content.download}"')
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the address contains the token."""
