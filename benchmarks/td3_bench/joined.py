"""Join runs of the same settings and different seeds into one stored run.

Agents do not influence each other, so ten seeds may be trained by several processes.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.td3_bench.stored import curves_csv, thinned_events
from td3.config import dotted
from td3.config.toml import to_toml
from td3.errors import UserError
from td3.files import CURVES, replace_file
from td3.report.summary import Evaluations, RunSummary, read_run
from td3.run.folder import read_tables

OWN = ("seed", "seeds")  # settings that may differ


def join_runs(folders: Sequence[Path], out: Path) -> RunSummary:
    """Store runs as one, with the steps that all have reached; return its summary."""
    runs = sorted((read_run(folder) for folder in folders), key=lambda run: run.config["seed"])
    first = runs[0]
    for other in runs[1:]:
        check_same_settings(first, other)
    agents = [found for run in runs for found in run.evaluations.values()]
    seeds = [found.seed for found in agents]
    if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        raise UserError(f"The seeds of these runs are not consecutive: {seeds}.")
    reached = min(found.steps.max(initial=-1) for found in agents)
    slowest = max(runs, key=lambda run: run.wall_seconds or 0.0)
    joined = dataclasses.replace(
        slowest, evaluations={k: cut(found, reached) for k, found in enumerate(agents)}
    )
    tables = read_tables(first.folder) | {"seed": seeds[0], "seeds": len(seeds)}
    out.mkdir(parents=True, exist_ok=True)
    replace_file(out / "config.toml", to_toml(tables).encode())
    replace_file(out / CURVES, curves_csv(joined).encode())
    note = json.dumps({"event": "joined", "runs": len(runs)}) + "\n"
    replace_file(out / "events.jsonl", (note * (len(runs) > 1) + thinned_events(joined)).encode())
    return read_run(out)


def check_same_settings(one: RunSummary, other: RunSummary) -> None:
    def asked(run: RunSummary) -> dict[str, Any]:
        tables = {k: v for k, v in run.config.items() if k not in (*OWN, "versions", "machine")}
        return dict(dotted(tables))

    before, after = asked(one), asked(other)
    for name in before | after:
        if before.get(name) != after.get(name):
            raise UserError(
                f"{other.folder} has {name} {after.get(name)}, but {one.folder} has "
                f"{before.get(name)}."
            )


def cut(found: Evaluations, reached: int) -> Evaluations:
    """Evaluations up to a step."""
    keep = found.steps <= reached
    return dataclasses.replace(
        found,
        steps=found.steps[keep],
        mean_returns=found.mean_returns[keep],
        std_returns=found.std_returns[keep],
        successes=found.successes[keep],
    )
