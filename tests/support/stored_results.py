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
    """Write ten seeds that rise in the first step: five to mean + std, five to mean - std."""
    seeds = [f"seed_{seed}" for seed in range(10)]
    lines = [",".join(["env,step,mean_return,std_return,seeds", *seeds])]
    for task, (mean, std) in tasks.items():
        for k in range(21):
            levels = [(mean + std * (-1) ** seed) * (k > 0) for seed in range(10)]
            row = [f"{task}-v1", 5000 * k, mean * (k > 0), std * (k > 0), 10, *levels]
            lines.append(",".join(map(str, row)))
    path.write_text("\n".join(lines) + "\n")
    return path
