"""Pages in a real browser: a server for them, and what the browser complains about."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from td3.serving import Find, LocalServer


@contextmanager
def serving(find: Find) -> Iterator[LocalServer]:
    """A server in a thread."""
    server = LocalServer(find)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def collect_problems(page: Any) -> list[str]:
    """Errors and warnings of a page, also those that will come."""
    problems: list[str] = []
    page.on("console", lambda m: m.type in ("error", "warning") and problems.append(m.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    return problems
