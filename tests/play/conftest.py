"""The playground in Debian's Chromium."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.playground import Playground

from td3.play.site import finder, make_files
from td3.play.sources import pretrained_policies
from td3.serving import LocalServer

CHROMIUM = shutil.which("chromium")
# Graphics without a graphics card.
DRAWING = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
SMALL = {"width": 480, "height": 460}


@contextmanager
def serving(files: dict[str, Any]) -> Iterator[LocalServer]:
    server = LocalServer(finder(files))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def launch() -> Iterator[Any]:
    """Starts a browser with command-line options."""
    api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as playwright:
        yield lambda *options: playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", *options]
        )


@pytest.fixture(scope="module")
def browser(launch: Any) -> Iterator[Any]:
    with launch(*DRAWING) as browser:
        yield browser


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    """Serves the pretrained policies, as `td3 play` does."""
    with serving(make_files(pretrained_policies())) as server:
        yield server


@pytest.fixture
def playground(browser: Any, server: LocalServer) -> Iterator[Playground]:
    """The page in a small window, paused at the first step of HalfCheetah by reduced motion."""
    context = browser.new_context(viewport=SMALL, reduced_motion="reduce")
    playground = Playground(context.new_page(), server).open()
    yield playground
    assert playground.problems == []
    context.close()
