"""Confirm a search: train its best setting and the default with seeds that it has not used."""

import json
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from td3.config import Config, varied
from td3.files import check_folder, read_regular, replace_file
from td3.intervals import standard_errors
from td3.launch.progress import open_display
from td3.launch.resume import resume
from td3.launch.start import start
from td3.run.folder import RunFolder
from td3.tuning.plan import Plan
from td3.tuning.results import TrialResult, best_config
from td3.untrusted import LONGEST, Malformed, Schema, integer, items, number, parse_json, table

FRESH = 1000  # added to the seed of the search
EPISODES = 10
FILE = "confirmation.json"


FIELDS: dict[str, Schema] = {
    "trial": integer(),
    "best": items(number),
    "default": items(number),
    "difference": number,
    "low": number,
    "high": number,
}
CONTENT = table(FIELDS)


@dataclass(frozen=True)
class Confirmation:
    """Returns of fresh seeds: the objective of the search for each of them."""

    trial: int
    best: list[float]
    default: list[float]
    difference: float
    low: float
    """Ends of the 95 % interval of the difference of the means (Welch)."""
    high: float


def confirm(
    plan: Plan, best: TrialResult, folder: Path, hidden: bool
) -> tuple[Confirmation | None, int]:
    """Train both, or continue; returns the comparison, None if it was stopped, and an exit code."""
    check_folder(folder / "confirm")
    configs = {"best": best_config(plan, best), "default": varied(plan.config, {"seeds": 1})}
    values = {}
    for name, config in configs.items():
        run = folder / "confirm" / (name if name == "default" else f"trial-{best.number}")
        if code := train(fresh(plan, config), run, hidden):
            return None, code
        values[name] = scores(plan, run)
    difference, low, high = compare(values["best"], values["default"])
    found = Confirmation(best.number, values["best"], values["default"], difference, low, high)
    replace_file(folder / FILE, json.dumps(asdict(found)).encode())
    return found, 0


def fresh(plan: Plan, config: Config) -> Config:
    """The configuration of a confirmation run."""
    return varied(
        config,
        {
            "seed": config.seed + FRESH,
            "seeds": plan.confirm,
            "loop.steps": plan.steps,
            "loop.replay_size": min(config.loop.replay_size, plan.steps),
            "evaluation.every": plan.every,
            "evaluation.episodes": EPISODES,
            "checkpoint.every": plan.every * -(-plan.evaluations // 2),
        },
    )


def train(config: Config, folder: Path, hidden: bool) -> int:
    """Train a run, or continue it if it was stopped; returns an exit code."""
    check_folder(folder)
    exists = (folder / "config.toml").exists()
    if exists:
        run = RunFolder(folder)
        with closing(run.events):
            if run.finished:
                return 0
    with open_display(config, hidden) as display:
        return resume(folder, display=display) if exists else start(config, folder, display)[1]


def scores(plan: Plan, folder: Path) -> list[float]:
    """The objective of each agent of a run."""
    means: dict[int, list[float]] = {}
    for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "evaluation" and record["step"]:
            means.setdefault(record["agent"], []).append(record["mean_return"])
    return [plan.score(own) for own in means.values()]


def compare(one: list[float], other: list[float]) -> tuple[float, float, float]:
    """Difference of the means and its 95 % interval, by Welch's method."""
    difference = float(np.mean(one) - np.mean(other))
    parts = [np.var(own, ddof=1) / len(own) for own in (one, other)]
    if not (total := float(sum(parts))):
        return difference, difference, difference
    freedom = total**2 / sum(
        float(part) ** 2 / (len(own) - 1) for part, own in zip(parts, (one, other), strict=True)
    )
    reach = standard_errors(0.95, round(freedom + 1, 3)) * total**0.5
    return difference, difference - reach, difference + reach


def read_confirmation(folder: Path) -> Confirmation | None:
    """The confirmation of a search, if it has one that is complete."""
    try:
        found = parse_json(read_regular(folder / FILE, LONGEST))
        CONTENT(found, FILE)
    except (OSError, Malformed):
        return None  # its runs are still there
    return Confirmation(**{name: found[name] for name in FIELDS})
