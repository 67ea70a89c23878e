"""`python -m benchmarks.studio`: td3 studio on 300 runs of a million steps.

It makes the run folders (240 of one seed, 45 of three, 15 of ten), starts `td3 studio` in a process
of its own, and opens it in Chromium. It measures the time until all runs are shown, frames while
scrolling and zooming, the delay from a record on disk to the page, and the processor time of the
server and of the browser while it follows a run.
"""

import argparse
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from td3.config import load_recipe, to_dict, to_toml, varied
from td3.files import last_step, replace_file
from td3.run.lock import lock_run

RUNS, STEPS = 300, 1_000_000
WAIT = 300_000  # milliseconds; a shared machine may be slow
WINDOW = {"width": 1440, "height": 900}
TASKS = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5")
TICKS = os.sysconf("SC_CLK_TCK")
FRAMES = """(act) => new Promise((done) => {
  const times = [];
  let before = performance.now(), count = 0;
  const step = (now) => {
    times.push(now - before);
    before = now;
    if (++count > 120) return done(times.slice(1));
    eval(act)(count);
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


def write_run(
    folder: Path, seeds: int = 1, steps: int = STEPS, number: int = 0, end: str = "finish"
) -> None:
    """A run folder as td3 train leaves it, without checkpoints; `end` is the last event."""
    draw = random.Random(number)
    changes: dict[str, Any] = {"environment.id": TASKS[number % len(TASKS)], "seeds": seeds}
    changes |= {"agent.tau": (0.005, 0.01)[number % 2], "seed": 100 * number}
    folder.mkdir(parents=True)
    config = varied(load_recipe("paper"), changes)
    every, log = min(5000, steps // 4), min(1000, steps // 10)
    versions = {"versions": {"python": "3.11.7", "td3": "0.1.0"}}
    replace_file(folder / "config.toml", to_toml(to_dict(config) | versions).encode())
    start = 1.79e9 + number * 3600
    events = [{"time": start, "event": "start", "step": 0, "format": 1}]
    with (folder / "metrics.jsonl").open("w") as file:
        for step in range(0, steps + 1, log):
            for agent in range(seeds):
                file.write(json.dumps(train_record(step, agent, 100 * number + agent, draw)) + "\n")
                if step % every == 0:
                    line = evaluation_record(step, agent, 100 * number + agent, draw)
                    file.write(json.dumps(line) + "\n")
            facts = {"step": step, "steps_per_second": round(300 + draw.random(), 1)}
            events.append({"time": start + step / 300, "event": "progress", **facts})
    if end:
        events.append({"time": start + steps / 300, "event": end, "step": steps})
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (folder / "events.jsonl").write_text(lines)


def level(step: int) -> float:
    return 5000 * (1 - math.exp(-step / 300_000))


def train_record(step: int, agent: int, seed: int, draw: random.Random) -> dict[str, Any]:
    mean = level(step)
    return {
        "kind": "train",
        "step": step,
        "agent": agent,
        "seed": seed,
        "episodes": 1,
        "episode_return": mean + draw.gauss(0, 300),
        "episode_length": 1000.0,
        "critic_loss": 1 + mean / 100 + draw.random(),
        "q": mean / 10 + draw.random(),
        "actor_loss": -mean / 10 - draw.random(),
        "saturated": 0.5 + 0.1 * draw.random(),
        "updates": max(0, step - 25_000),
    }


def evaluation_record(step: int, agent: int, seed: int, draw: random.Random) -> dict[str, Any]:
    returns = [level(step) + draw.gauss(0, 200) for _ in range(10)]
    return {
        "kind": "evaluation",
        "step": step,
        "agent": agent,
        "seed": seed,
        "mean_return": statistics.fmean(returns),
        "std_return": statistics.pstdev(returns),
        "returns": returns,
        "lengths": [1000] * 10,
        "best": draw.random() < 0.3,
    }


def make_folder(root: Path, runs: int) -> None:
    for number in range(runs):
        seeds = 10 if number % 20 == 0 else 3 if number % 20 in (5, 10, 15) else 1
        write_run(root / f"run-{number:03d}", seeds, number=number)


@contextmanager
def studio(root: Path) -> Iterator[tuple[str, int]]:
    """`td3 studio` in a process of its own: its address and process."""
    command = [sys.executable, "-m", "td3", "studio", str(root), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().split()[-1], process.pid
        finally:
            process.kill()


def cpu_seconds(process: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure_opening(browser: Any, root: Path, runs: int) -> dict[str, float]:
    """Seconds until all runs are in the list with their results, in a server that knows nothing."""
    found = {}
    with studio(root) as (address, server):
        page = browser.new_page(viewport=WINDOW, bypass_csp=True)
        page.set_default_timeout(WAIT)
        start, before = time.monotonic(), cpu_seconds(server)
        page.goto(address)
        page.wait_for_selector("table.runs tbody tr")
        found["first rows"] = time.monotonic() - start
        everything = f"""document.querySelectorAll('table.runs .spark').length == {runs} &&
            !document.body.innerText.includes('reading')"""
        page.wait_for_function(everything, polling="raf")
        found["all results"] = time.monotonic() - start
        found["all results, server CPU"] = cpu_seconds(server) - before
        start = time.monotonic()
        page.goto(f"{address}#/run/run-000")  # ten seeds
        page.wait_for_selector("[data-metric=q] canvas")
        found["run of ten seeds"] = time.monotonic() - start
        page.close()
    return found


def measure_frames(browser: Any, root: Path) -> dict[str, float]:
    """Milliseconds per frame: median and 95th percentile of 120 frames."""
    found: dict[str, float] = {}
    with studio(root) as (address, _):
        page = browser.new_page(viewport=WINDOW, bypass_csp=True)
        page.set_default_timeout(WAIT)
        page.goto(address)
        page.wait_for_function("document.querySelectorAll('table.runs .spark').length > 250")
        act = "(k) => window.scrollBy(0, k < 60 ? 60 : -60)"
        found |= percentiles("scroll", page.evaluate(FRAMES, act))
        page.goto(f"{address}#/run/run-000")
        page.wait_for_selector("[data-metric=q] canvas")
        page.evaluate("document.querySelector('[data-metric=q] .chart').scrollIntoView()")
        act = """(k) => document.querySelector('[data-metric=q] .chart').dispatchEvent(
            new KeyboardEvent('keydown', {key: k % 20 < 10 ? '+' : '-', bubbles: true}))"""
        found |= percentiles("zoom", page.evaluate(FRAMES, act))
        page.close()
    return found


def percentiles(name: str, times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {f"{name} median": statistics.median(ordered), f"{name} 95 %": ordered[113]}


def measure_following(browser: Any, root: Path, seconds: float) -> dict[str, float]:
    """Delay of new records, and the share of one core that the server needs, in percent."""
    run = root / "running"
    if not run.exists():
        write_run(run, number=1, end="")
    with lock_run(run), studio(root) as (address, server):
        page = browser.new_page(viewport=WINDOW, bypass_csp=True)
        page.set_default_timeout(WAIT)
        page.goto(address)
        page.wait_for_function("document.querySelectorAll('table.runs .spark').length > 250")
        page.goto(f"{address}#/run/running")
        page.wait_for_selector("[data-metric=q] canvas")
        page.wait_for_timeout(3000)
        draw, delays = random.Random(0), []
        before, start = cpu_seconds(server), time.monotonic()
        step = last_step(run / "metrics.jsonl")  # an earlier measurement may have added some
        while time.monotonic() - start < seconds:
            step += 1000
            append(run / "metrics.jsonl", train_record(step, 0, 100, draw))
            if step % 5000 == 0:
                append(run / "metrics.jsonl", evaluation_record(step, 0, 100, draw))
            event = {"event": "progress", "step": step, "steps_per_second": 300.0}
            append(run / "events.jsonl", {"time": time.time(), **event})
            written = time.monotonic()
            label = f"{step / 1e6:.4g}M of 1M"
            page.wait_for_function(f"document.body.innerText.includes('{label}')", polling=20)
            delays.append(time.monotonic() - written)
            page.wait_for_timeout(max(0, 2000 - 1000 * delays[-1]))
        used, wall = cpu_seconds(server) - before, time.monotonic() - start
        page.close()
    return {
        "delay median": statistics.median(delays),
        "delay longest": max(delays),
        "records per second": len(delays) / wall,
        "server, % of a core": 100 * used / wall,
    }


def measure_idle(browser: Any, root: Path, seconds: float) -> dict[str, float]:
    """The share of one core that an open list of runs needs, none of which trains, in percent."""
    with studio(root) as (address, server):
        page = browser.new_page(bypass_csp=True)
        page.set_default_timeout(WAIT)
        page.goto(address)
        page.wait_for_function("document.querySelectorAll('table.runs .spark').length > 250")
        page.wait_for_timeout(3000)
        before, start = cpu_seconds(server), time.monotonic()
        page.wait_for_timeout(1000 * seconds)
        used, wall = cpu_seconds(server) - before, time.monotonic() - start
        page.close()
    return {"idle list, % of a core": 100 * used / wall}


def append(path: Path, record: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def show(measured: dict[str, float]) -> None:
    for name, value in measured.items():
        print(f"{name:28}{value:10.3f}", flush=True)


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seconds", type=float, default=40, help="of following a run")
    parser.add_argument("--folder", type=Path, help="keep the run folders here and use them again")
    given = parser.parse_args()
    root = given.folder or Path(tempfile.mkdtemp())
    try:
        if not root.is_dir() or not any(root.iterdir()):
            make_folder(root, given.runs)
        size = sum(path.stat().st_size for path in root.rglob("*.jsonl"))
        print(f"{given.runs} runs, {size / 1e6:,.0f} MB, load {os.getloadavg()[0]:.0f}", flush=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for _ in range(2):
                show(measure_opening(browser, root, len([*root.iterdir()])))
            show(measure_frames(browser, root))
            show(measure_following(browser, root, given.seconds))
            show(measure_idle(browser, root, given.seconds))
    finally:
        if not given.folder:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
