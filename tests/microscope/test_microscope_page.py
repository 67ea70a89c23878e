"""The microscope in a real browser, on a run of TD3 and on a variant."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import collect_problems, serving
from support.microscope import make_run

import td3
from td3.config.variants import known
from td3.microscope import background, site
from td3.serving import LocalServer
from td3.studio.site import Studio


@pytest.fixture(scope="module")
def server(run_of: Any) -> Iterator[LocalServer]:
    """The studio of some runs, one of a user's class."""
    run_of[""], run_of["lean"]
    make_run(run_of.folder / "own", "support.microscope:OwnUpdate")
    known.pop("support.microscope:OwnUpdate", None)
    with serving(Studio(run_of.folder).find) as server:
        yield server
    site.close()


class Microscope:
    """The page with short names for what tests do."""

    def __init__(self, page: Any, server: LocalServer) -> None:
        self.page, self.server, self.problems = page, server, collect_problems(page)
        page.set_default_timeout(200_000)

    def open(self, run: str) -> list[Any]:
        self.page.goto(f"{self.server.address}microscope.html?run={run}")
        return self.drawn()

    def drawn(self, *expected: Any) -> list[Any]:
        """Wait until a picture is complete; returns step, agent, ahead, sample and plane."""
        self.page.wait_for_function(
            """(expected) => {
              const drawn = document.body.dataset.drawn;
              if (!drawn || document.querySelector("#status").textContent) return false;
              return expected.every((x, k) => x === null || x === JSON.parse(drawn)[k]);
            }""",
            arg=list(expected),
        )
        return json.loads(self.page.evaluate("document.body.dataset.drawn"))  # type: ignore[no-any-return]

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_text())

    def colours(self, selector: str) -> int:
        """How many different colours a canvas shows."""
        count = """(canvas) => new Set(new Uint32Array(
          canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer
        )).size"""
        return int(self.page.locator(selector).first.evaluate(count))


@pytest.fixture(params=[(1440, 900), (390, 844)], ids=["wide", "phone"])
def microscope(request: Any, browser: Any, server: LocalServer) -> Iterator[Microscope]:
    width, height = request.param
    context = browser.new_context(viewport={"width": width, "height": height})
    microscope = Microscope(context.new_page(), server)
    yield microscope
    assert microscope.problems == []
    context.close()


def test_page_shows_every_step_of_an_update(microscope: Microscope) -> None:
    microscope.open("td3")
    titles = microscope.page.locator("#steps h2").all_inner_texts()
    assert [int(title.split(".")[0]) for title in titles] == list(range(1, 16))
    for step in (4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15):
        canvases = microscope.page.locator(f"#step-{step} .figures canvas:visible")
        assert canvases.count() >= 1
        assert microscope.colours(f"#step-{step} .figures canvas:visible") > 3, step
    equation = microscope.page.locator("#step-12 .equation")
    assert equation.inner_text() == "θQ ← Adam(θQ, ∇L)"
    assert equation.locator("sub").all_inner_texts() == ["Q", "Q"]
    assert microscope.page.locator(".batch tbody tr").count() == 32
    wide = microscope.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
    assert "Code · td3/algorithm/agent.py, line " in microscope.text("#step-8 summary")


def test_page_slider_agents_and_table_choose_what_is_shown(microscope: Microscope) -> None:
    assert microscope.open("td3")[:2] == [240, 0]
    page = microscope.page
    page.locator("#checkpoint").fill("0")
    assert microscope.drawn(80)[0] == 80
    before = microscope.text("#step-9 .now")
    page.select_option("#agent", "1")
    microscope.drawn(80, 1)
    page.locator(".batch tbody tr").nth(7).click()
    assert microscope.drawn(80, 1, None, 7)[3] == 7
    assert microscope.text("#step-9 .now").startswith("Transition 8: ")
    assert microscope.text("#step-9 .now") != before
    page.click("[data-ahead='0']")
    microscope.drawn(80, 1, 0, 7)
    page.click("[data-ahead='1']")
    microscope.drawn(80, 1, 1, 7)
    page.click("#play")
    microscope.drawn(240, 1, 1, 7)


def test_page_of_a_variant_shows_the_code_that_it_replaces(microscope: Microscope) -> None:
    microscope.open("lean")
    assert "LeanTD3.update" in microscope.text("#summary")
    summaries = microscope.page.locator("#step-11 summary").all_inner_texts()
    assert summaries[0].startswith("LeanTD3 replaces this: LeanTD3.critic_loss")
    assert "asked its networks" not in microscope.text("#summary")
    assert microscope.page.locator("#keep").is_visible()  # this run kept no checkpoints


def test_page_measures_overestimation_on_demand(microscope: Microscope) -> None:
    microscope.open("td3")
    assert microscope.page.locator("#returns").is_hidden()
    microscope.page.click("#measure-all")
    microscope.page.wait_for_function("() => !document.querySelector('#measure').disabled")
    assert "Q1 predicts" in microscope.text("#measured")
    assert microscope.colours("#returns") > 3
    assert microscope.colours("#promises") > 3


def test_page_of_a_missing_run_says_so(microscope: Microscope) -> None:
    microscope.page.goto(f"{microscope.server.address}microscope.html?run=..%2Fetc")
    microscope.page.wait_for_selector("#problem:visible")
    assert microscope.text("#problem") == "There is no run '../etc' in this folder."


def test_page_asks_before_it_imports_a_class_of_a_user(microscope: Microscope, run_of: Any) -> None:
    microscope.page.goto(f"{microscope.server.address}microscope.html?run=own")
    microscope.page.wait_for_selector("#import")
    assert "runs the code in it" in microscope.text("#problem p")
    assert microscope.page.locator("#steps .step").count() == 0
    microscope.page.click("#import")
    microscope.drawn()
    assert "OwnUpdate.update" in microscope.text("#summary")
    replaced = microscope.page.locator("#step-8 summary").first.inner_text()
    assert replaced.startswith("OwnUpdate replaces this: OwnUpdate.combine · microscope.py, line")


LONG = 100_000  # updates: the experiment must not end before the page stops it


def test_page_trains_without_a_trick_beside_td3(
    microscope: Microscope, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = background.Experiment.start
    monkeypatch.setattr(
        background.Experiment,
        "start",
        lambda self, *given: start(self, *given, updates=LONG, seeds=1),
    )
    page = microscope.page
    microscope.open("td3")
    assert page.locator("#start").is_disabled()
    assert "noise with mean 0" in microscope.text("#tricks .about:visible")
    page.select_option("#task", "pendulum")
    assert "Here the tricks change little" in microscope.text("#tricks .about:visible")
    page.select_option("#task", "noise")
    page.locator("#tricks input[name=smoothing]").uncheck()
    page.click("#start")
    page.wait_for_selector("#stop:visible")
    assert microscope.text("#progress").startswith("Training without smoothing: ")
    page.wait_for_selector("#trick-error:visible")  # live, before the end
    assert microscope.colours("#trick-error") > 3
    page.click("#stop")
    page.wait_for_selector("#stop", state="hidden")
    assert microscope.text("#progress") == "Ready."


def test_page_follows_a_run_that_goes_on(microscope: Microscope, run_of: Any) -> None:
    name = f"growing-{microscope.page.viewport_size['width']}"
    shutil.copytree(run_of[""], run_of.folder / name)
    microscope.open(name)
    slider = microscope.page.locator("#checkpoint")
    assert slider.get_attribute("max") == "2"
    td3.resume(run_of.folder / name, steps=320, quiet=True)
    microscope.page.wait_for_function("() => document.querySelector('#checkpoint').max === '3'")
    assert microscope.text("#at") == "step 240"  # what the user looks at stays
    slider.fill("3")
    assert microscope.drawn(320)[0] == 320
