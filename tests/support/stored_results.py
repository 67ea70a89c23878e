"""Stored runs and published curves with known numbers."""

import json
from pathlib import Path

from benchmarks.td3_bench.stored import COLUMNS

ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "benchmarks" / "reference"


def write_stored_run(folder: Path, task: str, seeds: list[list[float]], every: int = 5000) -> None:
    """Store a run with these evaluations; its recipe has the name of the folder."""
    folder = folder / task
    folder.mkdir(parents=True)
    settings = f'recipe = "{folder.parent.name}"\ndevice = "cpu"\nseeds = {len(seeds)}\n'
    tables = f'[environment]\nid = "{task}"\n[evaluation]\nevery = {every}\nepisodes = 10\n'
    (folder / "config.toml").write_text(settings + tables)
    lines = [
        f"{seed},{seed},{every * k},{value},0"
        for seed, values in enumerate(seeds)
        for k, value in enumerate(values)
    ]
    (folder / "curves.csv").write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    events = [{"time": 100.0, "event": "start", "step": 0}]
    events += [{"time": 160.0, "event": "finish", "step": every * (len(seeds[0]) - 1)}]
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def write_authors(path: Path, **tasks: tuple[float, float]) -> Path:
    """Write curves that rise from 0 to a mean in the first step, with this deviation."""
    lines = ["env,step,mean_return,std_return,seeds"]
    for task, (mean, std) in tasks.items():
        numbers = [0.0, *[mean] * 20]
        lines += [f"{task}-v1,{5000 * k},{value},{std},10" for k, value in enumerate(numbers)]
    path.write_text("\n".join(lines) + "\n")
    return path
