"""The playground fits its window, can be used by everybody, offline, and not from other pages."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from play.conftest import DRAWING, SMALL
from support.browser import serving
from support.playground import Playground

from td3.play.site import finder, make_files
from td3.play.sources import pretrained_policies
from td3.serving import LocalServer

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture
def open_page(browser: Any, server: LocalServer) -> Iterator[Any]:
    """Opens the page with options of the browser."""
    contexts = []

    def open_one(**options: Any) -> Playground:
        options = {"viewport": SMALL, "reduced_motion": "reduce"} | options  # starts paused
        contexts.append(browser.new_context(**options))
        return Playground(contexts[-1].new_page(), server).open()

    yield open_one
    for context in contexts:
        context.close()


def boxes(playground: Playground, selector: str) -> list[dict[str, float]]:
    """Positions and sizes of what is visible."""
    places = playground.page.locator(selector).evaluate_all(
        "all => all.map((e) => e.getBoundingClientRect().toJSON())"
    )
    return [place for place in places if place["width"] > 0]


@pytest.mark.parametrize("window", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("count", [1, 2])
def test_layout_fits_the_window(open_page: Any, window: dict[str, int], count: int) -> None:
    playground = open_page(viewport=window)
    if count == 2:
        playground.press("c")
        playground.page.wait_for_function("document.querySelectorAll('.stage').length == 2")
    width = playground.page.evaluate("document.documentElement.scrollWidth")
    assert width == window["width"]
    worlds, controls = boxes(playground, ".world"), boxes(playground, "#controls > *")
    assert len(worlds) == count
    assert all(world["width"] > 300 and world["height"] > 240 for world in worlds)
    assert worlds[0]["bottom"] < window["height"]
    assert all(0 < box["top"] < box["bottom"] <= window["height"] for box in controls)
    if window is WIDE:
        assert boxes(playground, ".readings")[0]["bottom"] < window["height"]
    parts = boxes(playground, "button, select, input, table, .bars figure, .world")
    assert all(box["left"] >= 0 and box["right"] <= window["width"] for box in parts)
    for one, two in itertools.combinations(controls, 2):
        assert (
            one["right"] <= two["left"]
            or two["right"] <= one["left"]
            or (one["bottom"] <= two["top"] or two["bottom"] <= one["top"])
        )


def test_touch_targets_are_large_enough(open_page: Any) -> None:
    playground = open_page(viewport=NARROW, has_touch=True)
    assert all(box["height"] >= 40 for box in boxes(playground, "button, select"))
    assert all(box["height"] >= 30 for box in boxes(playground, "input"))


# The lowest contrast of a text with what is behind it, by the formula of WCAG 2.
CONTRAST = """() => {
  const luminance = (color) => {
    const [r, g, b] = color.match(/[0-9.]+/g).slice(0, 3).map((v) => {
      const share = v / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const isClear = (color) => color === "transparent" || /, 0\\)$/.test(color);
  const behind = (element) => {
    for (let own = element; own; own = own.parentElement) {
      const color = getComputedStyle(own).backgroundColor;
      if (!isClear(color)) return color;
    }
  };
  const texts = [...document.querySelectorAll("body *:not(script, template, option)")].filter(
    (e) => e.checkVisibility() && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()),
  );
  return texts.map((e) => {
    const [a, b] = [getComputedStyle(e).color, behind(e)].map(luminance).sort((x, y) => y - x);
    return { text: e.textContent.trim().slice(0, 30), ratio: (a + 0.05) / (b + 0.05) };
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(open_page: Any, scheme: str) -> None:
    playground = open_page(color_scheme=scheme)
    playground.page.locator("summary").click()
    found = playground.page.evaluate(CONTRAST)
    assert len(found) > 30
    assert [item for item in found if item["ratio"] < 4.5] == []


def test_everything_can_be_reached_by_keyboard_and_has_a_name(open_page: Any) -> None:
    playground = open_page()
    reached, outlines = [], []
    for _ in range(18):
        playground.press("Tab")
        name, outline = playground.page.evaluate(
            """() => {
              const { id, name, className, tagName } = document.activeElement;
              const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
              return [id || name || className || tagName, outlineStyle + outlineWidth];
            }"""
        )
        reached.append(name)
        outlines.append(outline)
    assert reached[:15] == [
        *["SELECT", "view", "pause", "step", "reset", "compare", "speed", "seed"],
        *["gravity", "friction", "strength", "noise", "delay", "restore", "SUMMARY"],
    ]
    assert set(outlines[:15]) == {"solid3px"}
    nameless = playground.page.evaluate(
        """[...document.querySelectorAll("button, select, input, canvas")].filter((e) =>
          !(e.labels?.length || e.innerText || e.getAttribute("aria-label"))).map((e) => e.name)"""
    )
    assert nameless == []


def test_keys_in_a_field_change_the_field_only(open_page: Any) -> None:
    playground = open_page()
    playground.press(".", ".")
    playground.page.focus("input[name=gravity]")
    playground.press("ArrowRight", "r")
    assert playground.page.input_value("input[name=gravity]") == "1.05"
    playground.page.focus("#pause")
    playground.press(" ", " ")
    assert playground.text(".count").split()[0] != "0"


def test_reduced_motion_starts_paused_and_says_so(open_page: Any) -> None:
    playground = open_page()
    assert playground.text("#pause") == "Play"
    assert "reduced motion" in playground.text("#status")
    assert playground.text(".count") == "0 of 1000"
    playground.choose("AntBulletEnv-v0")
    assert playground.page.evaluate("document.querySelector('video').autoplay") is False
    playground = open_page(reduced_motion="no-preference")
    assert playground.text("#pause") == "Pause"
    assert playground.texts("#status") == [""]


def test_paused_page_draws_nothing_until_something_happens(open_page: Any) -> None:
    playground = open_page()
    playground.page.evaluate(
        """() => {
          window.drawn = 0;
          const clear = CanvasRenderingContext2D.prototype.fillRect;
          CanvasRenderingContext2D.prototype.fillRect = function (...box) {
            window.drawn += 1;
            clear.apply(this, box);
          };
        }"""
    )
    playground.page.wait_for_timeout(200)
    before = playground.page.evaluate("window.drawn")
    playground.page.wait_for_timeout(200)
    assert playground.page.evaluate("window.drawn") == before
    playground.press(".")
    playground.texts(".now")
    assert playground.page.evaluate("window.drawn") > before


def test_static_page_works_without_a_network_after_the_first_visit(browser: Any) -> None:
    context = browser.new_context(viewport=SMALL, reduced_motion="reduce")
    with serving(finder(make_files(pretrained_policies(), offline=True))) as server:
        playground = Playground(context.new_page(), server).open()
        assert playground.page.get_by_text("About td3").is_visible()
        playground.page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        playground.page.wait_for_function("navigator.serviceWorker.controller")
    context.set_offline(True)  # and the server is gone
    playground.open("#Humanoid-v5")
    playground.press(".")
    assert playground.text(".count").endswith(" of 1000")
    playground.choose("Swimmer-v5")
    assert playground.text(".count").endswith("of 1000")
    assert playground.problems == []
    context.close()


def test_browser_without_webgl_explains_it(launch: Any, server: LocalServer) -> None:
    with launch("--disable-gpu", "--disable-3d-apis") as browser:
        page = browser.new_page(viewport=SMALL)
        page.goto(server.address)
        page.get_by_text("The playground could not start: ").wait_for(timeout=20_000)
        assert "WebGL" in page.inner_text(".message")


READ = "(url) => fetch(url).then((answer) => answer.text(), (error) => `refused: ${error}`)"


def test_other_web_pages_cannot_read_embed_or_rebind(launch: Any, server: LocalServer) -> None:
    """A foreign page that knows the address; and a foreign name that resolves to 127.0.0.1."""
    foreign = {"index.html": lambda: b"<title>foreign</title>", "policies.json": lambda: b"{}"}
    names = "--host-resolver-rules=MAP foreign.example 127.0.0.1"
    with serving(finder(foreign)) as other, launch(*DRAWING, names) as browser:
        page = browser.new_page()
        page.goto(other.address)
        assert page.title() == "foreign"
        assert page.evaluate(READ, f"{server.address}policies.json").startswith("refused")
        page.evaluate(
            """(url) => new Promise((done) => {
              const frame = Object.assign(document.createElement("iframe"), { src: url });
              frame.onload = done;
              document.body.append(frame);
            })""",
            server.address,
        )
        assert all("playground" not in frame.content() for frame in page.frames)
        rebound = server.address.replace("127.0.0.1", "foreign.example")
        answer = page.goto(rebound)
        assert answer.status == 403
        assert "playground" not in page.content()
