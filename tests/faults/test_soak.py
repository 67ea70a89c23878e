"""A run that trains for long needs no more memory, descriptors, threads or disk over time.

`make faults` trains for TD3_SOAK_MINUTES (60), the quick form for 15 seconds.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.long import LONG
from support.run_tools import command

MINUTES = float(os.environ.get("TD3_SOAK_MINUTES", "60" if LONG else "0.25"))
WARM_UP = 0.3  # share of the time in which buffers may still grow
GROWTH = {"memory": 8e6, "disk": 1e6, "descriptors": 0, "threads": 0, "processes": 0}
COUNTS = {"descriptors", "threads", "processes"}
"""Their smallest number counts: while a file is written, one descriptor more is open."""
RECORDS = ("metrics.jsonl", "events.jsonl")
"""These grow with every record, by design."""


TASKS = {
    "episodes": "Pendulum-v1",
    "an endless episode": "HalfCheetah-v5 --environment.max-episode-steps 1000000000",
}


@pytest.mark.parametrize("name", TASKS)
def test_soak_keeps_memory_descriptors_threads_and_disk_flat(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    run, minutes = tmp_path / "run", MINUTES / len(TASKS)
    words = (
        f"train {TASKS[name]} --run {run} --steps 1000000000 --quiet --device cpu --threads 1 "
        "--agent.hidden-sizes 16 16 --agent.batch-size 16 --loop.random-steps 100 "
        "--loop.replay-size 2000 --loop.log-every 5000 --evaluation.every 2000 "
        "--evaluation.episodes 1 --evaluation.max-steps 200 --checkpoint.every 500 "
        f"--environment.count 2 --environment.vectorization workers --environment.workers 2 "
        f"--stop.after {round(60 * minutes)}s"
    )
    seen: list[dict[str, float]] = []
    with subprocess.Popen(command(*words.split()), stdout=subprocess.DEVNULL) as process:
        while not list((run / "checkpoints").glob("[0-9]*")):
            assert process.poll() is None
            time.sleep(0.1)
        while process.poll() is None:
            if measured := measure(process.pid, run):
                seen.append(measured)
            time.sleep(max(0.2, 0.3 * minutes))
    assert process.returncode == 0
    seen = seen[round(WARM_UP * len(seen)) : -1]  # at the last one the run may end
    half = len(seen) // 2
    assert half > 5
    grown = {}
    for name in GROWTH:
        least = min if name in COUNTS else max
        first, second = (least(own[name] for own in part) for part in (seen[:half], seen[half:]))
        grown[name] = second - first
    record_property("note", f"{name}: {minutes:g} min, {grown['memory'] / 1e6:+.1f} MB")
    assert {name: more for name, more in grown.items() if more > GROWTH[name]} == {}


def measure(pid: int, run: Path) -> dict[str, float]:
    """The state of a process, with its workers, and its folder; {} if something just vanished."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        memory = threads = 0
        for own in [str(pid), *children]:
            lines = Path(f"/proc/{own}/status").read_text().splitlines()
            facts = dict(line.split(":", 1) for line in lines)
            memory += 1024 * int(facts["VmRSS"].split()[0])
            threads += int(facts["Threads"])
        files = [path for path in run.rglob("*") if path.is_file() and path.name not in RECORDS]
        return {
            "memory": memory,
            "disk": sum(path.stat().st_size for path in files),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": threads,
            "processes": len(children),
        }
    except (OSError, KeyError):
        return {}
