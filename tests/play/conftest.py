"""The playground in Debian's Chromium."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import serving
from support.playground import Playground

from td3.play.site import finder, make_files
from td3.play.sources import pretrained_policies
from td3.serving import LocalServer

# Graphics without a graphics card.
DRAWING = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
SMALL = {"width": 480, "height": 460}


@pytest.fixture(scope="module")
def browser(launch: Any) -> Iterator[Any]:
    with launch(*DRAWING) as browser:
        yield browser


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    """Serves the pretrained policies, as `td3 play` does."""
    with serving(finder(make_files(pretrained_policies()))) as server:
        yield server


@pytest.fixture
def playground(browser: Any, server: LocalServer) -> Iterator[Playground]:
    """The page in a small window, paused at the first step of HalfCheetah by reduced motion."""
    context = browser.new_context(viewport=SMALL, reduced_motion="reduce")
    playground = Playground(context.new_page(), server).open()
    yield playground
    assert playground.problems == []
    context.close()
