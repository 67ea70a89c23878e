"""The studio in a real browser: it shows and follows every kind of run, for everybody."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from play.test_page_access import CONTRAST
from support.browser import collect_problems, serving
from support.studio import add_record, make_folder, training

from benchmarks.studio import write_run
from td3.policy.pretrained import pretrained
from td3.serving import LocalServer
from td3.studio.site import Studio

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
EVIL = "<img src=x onerror=alert(1)>"
WAIT = 30_000  # milliseconds; a busy machine is slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = make_folder(tmp_path_factory.mktemp("studio") / "runs")
    write_run(root / EVIL, steps=20_000, number=6)
    warning = {"time": 1.8e9, "event": "warning", "step": 1, "message": EVIL}
    with (root / EVIL / "events.jsonl").open("a") as file:
        file.write(json.dumps(warning) + "\n")
    (root / "finished" / "policy").mkdir()
    for name in ("agent-0", "agent-0-last"):
        shutil.copy(pretrained("Reacher-v5"), root / "finished" / "policy" / f"{name}.safetensors")
    with training(root / "running"):
        yield root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[LocalServer]:
    with serving(Studio(root).find) as server:
        yield server


@pytest.fixture
def open_page(browser: Any, server: LocalServer) -> Iterator[Any]:
    """Opens a view; at the end, the console must be empty."""
    contexts, problems = [], []

    def open_one(view: str = "", **options: Any) -> Any:
        contexts.append(browser.new_context(**{"viewport": WIDE} | options))
        page = contexts[-1].new_page()
        page.set_default_timeout(WAIT)
        problems.append(collect_problems(page))
        page.goto(f"{server.address}#/{view}")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert [own for own in problems if own] == []


def row(page: Any, name: str) -> Any:
    return page.locator("table.runs tbody tr").filter(has=page.get_by_role("link", name=name))


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as expectation

    expectation.set_options(timeout=WAIT)
    return expectation(locator)


def test_list_shows_every_run_with_its_status(open_page: Any) -> None:
    page = open_page()
    for name, status in (
        ("finished", "finished"),
        ("killed", "killed"),
        ("running", "running"),
        ("sweep/grid", "finished"),
        ("corrupt", "corrupt"),
    ):
        expect(row(page, name).locator(".status").first).to_have_text(status)
    expect(row(page, "corrupt")).to_contain_text("config.toml")
    expect(row(page, "running")).to_contain_text("20k of 1M")
    expect(row(page, "sweep/grid")).to_contain_text("grid of 2")
    assert page.locator("table.runs img").count() == 0  # the hostile name is text
    expect(page.get_by_text(EVIL)).to_be_visible()


def test_list_follows_records_copies_and_deletions(open_page: Any, root: Path) -> None:
    page = open_page()
    expect(row(page, "running")).to_contain_text("20k of 1M")
    add_record(root / "running", 21_000)
    expect(row(page, "running")).to_contain_text("21k of 1M")
    shutil.copytree(root / "killed", root / "copied")
    expect(row(page, "copied")).to_have_count(1)
    shutil.rmtree(root / "copied")
    expect(row(page, "copied")).to_have_count(0)


def test_list_is_filtered_sorted_and_selected_with_the_keyboard(open_page: Any) -> None:
    page = open_page()
    lines = page.locator("table.runs tbody tr")
    expect(lines).to_have_count(6)
    page.keyboard.press("/")
    page.keyboard.type("hopper finished")
    expect(lines).to_have_count(0)
    expect(page.get_by_text("No run matches the filter.")).to_be_visible()
    page.locator("#filter").fill("killed")
    expect(lines).to_have_count(1)
    page.locator("#filter").fill("")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="best").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("best")
    names = lines.locator("td[data-name=best]").all_inner_texts()
    numbers = [float(name.replace(",", "").replace("−", "-")) for name in names if name]
    assert numbers == sorted(numbers, reverse=True)
    for key in "jxjx":
        page.keyboard.press(key)
    expect(page.get_by_role("button", name="Compare 2")).to_be_enabled()
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Compare 2 runs")).to_be_visible()
    page.keyboard.press("Escape")
    expect(lines).to_have_count(6)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_run_page_shows_metrics_with_their_meaning(open_page: Any) -> None:
    page = open_page("run/finished")
    card = page.locator("[data-metric=q]")
    expect(card.locator("canvas")).to_be_visible()
    expect(card).to_contain_text("far beyond any possible return")
    card.get_by_text("What does this mean?").click()
    expect(card).to_contain_text("the actor exploits an error of the critic")
    expect(page.locator(".copyable code")).to_contain_text("td3 train HalfCheetah-v5 --seeds 3")
    expect(page.locator(".curve canvas")).to_be_visible()
    page.get_by_label("TD3 authors").check()
    expect(page.locator(".legend")).to_contain_text("HalfCheetah-v1 (10 seeds)")
    page.get_by_label("Evaluation", exact=True).fill("0")
    expect(page.get_by_text("Evaluation at step 0")).to_be_visible()
    play = page.get_by_role("link", name="Playground").get_attribute("href")
    assert page.request.get(f"{page.url.partition('#')[0]}{play}").ok


def test_run_page_stores_an_export(open_page: Any, root: Path) -> None:
    page = open_page("run/finished")
    with page.expect_download() as download:
        page.get_by_role("button", name="policy file").click()
    stored = root / "finished" / "policy" / "agent-0.safetensors"
    assert Path(download.value.path()).read_bytes() == stored.read_bytes()
    assert download.value.suggested_filename == "finished-agent-0.safetensors"


def test_run_page_zooms_with_the_keyboard_and_reads_finer_numbers(open_page: Any) -> None:
    page = open_page("run/finished")
    chart = page.locator("[data-metric=q] .chart")
    expect(chart.locator("canvas")).to_be_visible()
    with page.expect_request(lambda request: "from=10000&to=30000" in request.url):
        chart.press("+")
    expect(page.get_by_role("button", name="Show all steps")).to_be_visible()
    chart.press("0")
    expect(page.get_by_role("button", name="Show all steps")).to_be_hidden()


def test_run_page_follows_and_outlives_its_run(open_page: Any, root: Path) -> None:
    write_run(root / "short", steps=20_000, number=7, end="")
    page = open_page("run/short")
    label = page.locator("[data-metric=q] .chart")
    expect(page.get_by_text("td3 resume")).to_be_visible()
    expect(page.locator(".progress").first).to_contain_text("20k of 1M")
    add_record(root / "short", 30_000)
    expect(page.locator(".progress").first).to_contain_text("30k of 1M")
    shutil.rmtree(root / "short")
    expect(page.get_by_text("This run does not exist any more")).to_be_visible()
    expect(label.locator("canvas")).to_be_visible()


@pytest.mark.parametrize("name", ["corrupt", EVIL, "nothing"])
def test_run_page_of_a_bad_run_says_what_is_wrong(open_page: Any, name: str) -> None:
    from urllib.parse import quote

    page = open_page(f"run/{quote(name, safe='')}")
    wanted = {"corrupt": "config.toml", EVIL: EVIL, "nothing": "does not exist"}[name]
    expect(page.locator("main").get_by_text(wanted).first).to_be_visible()
    assert page.locator("main img").count() == 0


def test_grid_has_parallel_axes_and_a_table(open_page: Any) -> None:
    page = open_page("run/sweep%2Fgrid")
    expect(page.locator(".parallel .line")).to_have_count(2)
    assert page.locator(".parallel .name").all_text_contents() == ["tau", "result"]
    line = page.locator("tbody tr[tabindex='0']").first
    line.focus()
    expect(page.locator(".parallel .line.marked")).to_have_count(1)
    grip = page.locator(".parallel .grip").last.bounding_box()
    page.mouse.move(grip["x"] + 16, grip["y"] + 1)
    page.mouse.down()
    page.mouse.move(grip["x"] + 16, grip["y"] + grip["height"] / 3)
    page.mouse.up()
    expect(page.locator(".parallel .line")).to_have_count(1)


def test_compare_highlights_different_settings(open_page: Any) -> None:
    from urllib.parse import quote

    names = quote(json.dumps(["finished", "killed", "sweep/grid"]), safe="")
    page = open_page(f"compare/{names}")
    expect(page.locator(".curve canvas")).to_have_count(3)  # three tasks
    settings = page.locator("section").filter(
        has=page.get_by_role("heading", name="Settings", exact=True)
    )
    expect(settings.locator("td.differs").first).to_be_visible()
    expect(settings.get_by_text("agent.tau", exact=True)).to_be_visible()
    expect(settings.get_by_text("agent.discount", exact=True)).to_have_count(0)
    page.get_by_label("Only differences").uncheck()
    expect(settings.get_by_text("agent.discount", exact=True)).to_be_visible()


def test_search_shows_its_trials(open_page: Any) -> None:
    page = open_page()
    page.get_by_role("link", name="Search: tune-hopper").click()
    expect(page.get_by_text("5 of 8")).to_be_visible()
    expect(page.locator(".parallel .line")).to_have_count(5)
    expect(page.locator(".parallel .line.top")).to_have_count(1)
    best = page.locator("tbody tr").first  # trial 4 is higher, but it still trains
    expect(best.locator("td").first).to_have_text("3")
    expect(best).to_contain_text("complete")
    assert page.locator(".parallel .name").all_text_contents() == ["discount", "tau", "result"]


@pytest.mark.parametrize("window", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_the_window_and_have_contrast(
    open_page: Any, window: dict[str, int], scheme: str
) -> None:
    page = open_page(viewport=window, color_scheme=scheme, reduced_motion="reduce")
    for view, ready in (("", "table.runs .spark"), ("run/finished", "[data-metric=q] canvas")):
        page.goto(f"{page.url.partition('#')[0]}#/{view}")
        expect(page.locator(ready).first).to_be_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= window["width"], view
        found = page.evaluate(CONTRAST)
        assert len(found) > 30
        assert [item for item in found if item["ratio"] < 4.5] == []
