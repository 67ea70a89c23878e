"""`python -m benchmarks.playground`: what a frame of the playground costs, in headless Chromium.

For every MuJoCo policy in the package, at 1,440 × 900 points:

- milliseconds of one environment step, and of its physics, policy and observation;
- milliseconds of a frame at 60 Hz: simulate, submit the scene to WebGL, draw the bars and numbers;
- processor time of the page's thread per frame. It includes all of the above and the browser's own
  work on that thread; it leaves out rasterisation, which a graphics card does elsewhere;
- frames per second that this machine shows with software rendering;
- bytes transferred before the first frame.

Figures are medians. The times of parts are wall times, so they grow on a busy machine.
"""

import argparse
import itertools
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from td3.bench.measure import describe_circumstances
from td3.play.entries import tasks
from td3.play.site import finder, make_files
from td3.play.sources import pretrained_policies
from td3.serving import LocalServer
from td3.text import markdown_table

WINDOW = {"width": 1440, "height": 900}
BUDGET = 1000 / 60  # milliseconds
SCRIPT = Path(__file__).with_suffix(".js")
OPTIONS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"]
OPTIONS += ["--enable-unsafe-swiftshader"]
# With these, the browser's clock has a resolution of 5 microseconds instead of 100.
ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
COUNT = "Number(document.documentElement.dataset.frames)"
BYTES = """["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
    .reduce((sum, entry) => sum + entry.transferSize, 0)"""
# Frames that the page itself makes, by its own clock.
INTERVALS = """(count) => new Promise((done) => {
  const times = [];
  const next = (now) => times.push(now) > count ? done(times) : requestAnimationFrame(next);
  requestAnimationFrame(next);
})"""


@contextmanager
def serving() -> Iterator[str]:
    server = LocalServer(finder(make_files(pretrained_policies())))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def isolate(route: Any) -> None:
    answer = route.fetch()
    route.fulfill(response=answer, headers={**answer.headers, **ISOLATED})


def thread_seconds(session: Any) -> float:
    """Processor time of the page's thread until now."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(own["value"] for own in metrics if own["name"] == "TaskDuration"))


def measure(browser: Any, address: str, names: str, given: argparse.Namespace) -> dict[str, float]:
    """Open the page on one or two policies and measure it."""
    with browser.new_context(viewport=WINDOW) as context:
        page = context.new_page()
        page.set_default_timeout(300_000)
        page.goto(f"{address}#{names}")
        page.wait_for_function(f"{COUNT} > 1")
        found = {"bytes": page.evaluate(BYTES)}
        page.wait_for_timeout(1000 * given.seconds)  # the page adapts its quality
        times = page.evaluate(INTERVALS, given.frames)
        shown = sorted(b - a for a, b in itertools.pairwise(times))
        found["shown_per_second"] = 1000 / shown[len(shown) // 2]
    with browser.new_context(viewport=WINDOW) as context:
        page = context.new_page()
        page.set_default_timeout(300_000)
        page.route("**", isolate)
        page.goto(f"{address}#{names}")
        page.wait_for_function(f"{COUNT} > 1")
        assert page.evaluate("crossOriginIsolated")
        script, asked = SCRIPT.read_text(), {"frames": given.frames, "rounds": given.rounds}
        found |= page.evaluate(script, asked)
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        busy = []
        for _ in range(3):
            before = thread_seconds(session)
            page.evaluate(script, {"frames": given.frames, "rounds": 0})
            busy.append((thread_seconds(session) - before) / given.frames)
        found["thread"] = 1000 * sorted(busy)[1]
    return found


def table(measured: dict[str, dict[str, float]]) -> str:
    """The figures as Markdown."""
    head = ["task", "steps per frame", "step", "physics", "policy", "observation"]
    head += ["simulate", "submit", "bars", "page's thread", "shown per second"]
    rows = []
    for name, own in measured.items():
        keys = ("step", "physics", "policy", "observation", "simulate", "submit", "bars", "thread")
        parts = [f"{own[key]:.2f}" for key in keys]
        rows.append(
            [name, f"{own['steps_per_frame']:.2f}", *parts, f"{own['shown_per_second']:.0f}"]
        )
    return markdown_table(head, rows)


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", help="default: all that the page simulates")
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=500, help="steps of which each part is timed")
    parser.add_argument("--seconds", type=float, default=6, help="to adapt the quality")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    circumstances = describe_circumstances()
    facts = {"window": WINDOW, "budget_ms": BUDGET, "unit": "ms", "frames": given.frames}
    measured = {}
    with sync_playwright() as playwright, serving() as address:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=OPTIONS)
        circumstances["browser"] = f"Chromium {browser.version}, software rendering (SwiftShader)"
        pairs = [] if given.tasks else ["Humanoid-v5&Humanoid-v5"]
        for name in [*(given.tasks or tasks()), *pairs]:
            measured[name] = own = measure(browser, address, name, given)
            print(name, {key: round(value, 3) for key, value in own.items()}, flush=True)
            if given.out:
                found = {"policies": measured, **facts, **circumstances}
                given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(measured))
    slowest = max(own["thread"] for own in measured.values())
    print(f"Largest processor time of a frame: {slowest:.1f} of {BUDGET:.1f} ms.")
    print(f"Most bytes before the first frame: {max(o['bytes'] for o in measured.values()):,}.")


if __name__ == "__main__":
    main()
