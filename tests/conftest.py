"""What all tests share."""

import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest

# Runs under nohup inherit that SIGHUP is ignored, and then td3 ignores it too, on purpose.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="module")
def launch() -> Iterator[Any]:
    """Starts a browser with command-line options."""
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as playwright:
        yield lambda *options: playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", *options]
        )


@pytest.fixture(scope="module")
def browser(launch: Any) -> Iterator[Any]:
    with launch() as browser:
        yield browser
