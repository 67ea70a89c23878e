"""Runs for the tests of the studio: finished, killed, running, a grid, corrupt, a search."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.studio import evaluation_record, train_record, write_run
from td3.run.lock import lock_run
from td3.studio.site import GONE, Studio

GRID = '\n[grid]\n"agent.tau" = [0.005, 0.02]\n'


def make_folder(root: Path) -> Path:
    """Small runs in every state."""
    write_run(root / "finished", seeds=3, steps=40_000)
    write_run(root / "killed", steps=40_000, number=1, end="")
    write_run(root / "running", steps=20_000, number=2, end="")
    write_run(root / "sweep" / "grid", seeds=4, steps=40_000, number=3)
    config = root / "sweep" / "grid" / "config.toml"
    text = config.read_text().replace("seeds = 4", "seeds = 2").replace("[grid]\n", "")
    config.write_text(text + GRID)
    write_run(root / "corrupt", steps=40_000, number=4)
    (root / "corrupt" / "config.toml").write_text('recipe = "paper\n[env')
    make_study(root / "tune-hopper")
    return root


def make_study(folder: Path) -> None:
    """A search with five trials, as Optuna's journal has them; the last one still runs."""
    folder.mkdir()
    (folder / "tune.toml").write_text(
        '[tune]\ntrials = 8\nobjective = "last"\n[settings.environment]\nid = "Hopper-v5"\n'
    )
    lines: list[dict[str, Any]] = [{"op_code": 0, "study_name": "tune"}]
    for k in range(5):
        lines.append({"op_code": 4, "study_id": 0})
        for name, value in (("1 - agent.discount", 0.01 * (k + 1)), ("agent.tau", 0.005 * (k + 1))):
            fact = {"param_name": name, "param_value_internal": value, "distribution": "{}"}
            lines.append({"op_code": 5, "trial_id": k, **fact})
        for step in (1000, 2000):
            fact = {"step": step, "intermediate_value": 10.0 * k + step / 1000}
            lines.append({"op_code": 7, "trial_id": k, **fact})
        if k < 4:
            end = {"end": {"age": 2000, "reason": "complete"}}
            lines.append({"op_code": 8, "trial_id": k, "user_attr": end})
            lines.append({"op_code": 6, "trial_id": k, "state": 1, "values": [10.0 * k]})
    (folder / "study.journal").write_text("".join(json.dumps(own) + "\n" for own in lines))


@contextmanager
def training(run: Path) -> Iterator[None]:
    """Hold the lock of a run, as its process does while it trains."""
    with lock_run(run):
        yield


def add_record(run: Path, step: int, evaluate: bool = True) -> None:
    """What a running training appends."""
    import random

    draw = random.Random(step)
    records: list[Mapping[str, Any]] = [train_record(step, 0, 200, draw)]
    records += [evaluation_record(step, 0, 200, draw)] if evaluate else []
    with (run / "metrics.jsonl").open("a") as file:
        file.write("".join(json.dumps(own) + "\n" for own in records))
    progress = {"time": 1.8e9, "event": "progress", "step": step, "steps_per_second": 250.0}
    with (run / "events.jsonl").open("a") as file:
        file.write(json.dumps(progress) + "\n")


def ask(studio: Studio, name: str, **query: Any) -> Any:
    """The answer of api/NAME.json; None if there is no such thing."""
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in query.items()}
    content = studio.find(f"api/{name}.json", texts)
    answer = None if content is None else json.loads(content.body)
    return None if answer == {"error": GONE} else answer


def rows(studio: Studio) -> dict[str, Any]:
    """The rows of the list by run, after everything was read."""
    for _ in range(1000):
        studio.index.next_look = studio.index.next_quiet_look = 0.0
        found = {row["id"]: row for row in ask(studio, "runs")["rows"]}
        if not any(row["reading"] for row in found.values()):
            return found
    raise AssertionError("the studio does not finish reading")
