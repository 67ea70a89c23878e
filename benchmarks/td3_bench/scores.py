"""Scores on five MuJoCo tasks, for comparison with published methods.

The score of a return is 0 for random actions and 1 for published TD3; reference/five-tasks.toml has
the constants. A score of several tasks is the mean of their scores.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.td3_bench.markdown import format_table
from benchmarks.td3_bench.seed_statistics import bootstrap_interval
from td3.config.toml import read_toml
from td3.errors import UserError
from td3.files import CURVES
from td3.intervals import Floats
from td3.report.summary import RunSummary, read_run
from td3.text import number

REFERENCE = Path(__file__).parents[1] / "reference" / "five-tasks.toml"


class Scored(NamedTuple):
    """The scores of one part of a plan at one step."""

    part: str
    tasks: tuple[str, ...]
    returns: dict[str, Floats]
    """Returns of each task, one for each seed."""
    scores: list[Floats]
    """The same as scores, in the order of the tasks."""

    @property
    def score(self) -> float:
        return mean_of_means(self.scores)


def read_parts(folder: Path) -> dict[str, dict[str, RunSummary]]:
    """The stored runs of a plan: part → task without its version → run."""
    parts: dict[str, dict[str, RunSummary]] = {}
    for curves in sorted(folder.glob(f"*/*/{CURVES}")):
        task = curves.parent.name.split("-v")[0]
        parts.setdefault(curves.parent.parent.name, {})[task] = read_run(curves.parent)
    if not parts:
        raise UserError(f"{folder} has no stored runs (PART/TASK/{CURVES}).")
    return parts


def score_at(
    part: str, runs: dict[str, RunSummary], step: int, reference: dict[str, Any]
) -> Scored:
    """Score the tasks of a part that have an evaluation at this step."""
    returns, scores = {}, []
    for task in reference["td3"]:
        if task not in runs:
            continue
        found = [agent for agent in runs[task].evaluations.values() if step in agent.steps]
        if not found:
            continue
        returns[task] = np.array([one.mean_returns[one.steps == step][0] for one in found])
        low, high = reference["random"][task], reference["td3"][task]
        scores.append((returns[task] - low) / (high - low))
    return Scored(part, tuple(returns), returns, scores)


def mean_of_means(groups: Sequence[Floats]) -> float:
    return float(np.mean([group.mean() for group in groups]))


def shared_steps(parts: dict[str, dict[str, RunSummary]]) -> list[int]:
    """The steps with an evaluation of every agent."""
    agents = [
        agent
        for runs in parts.values()
        for run in runs.values()
        for agent in run.evaluations.values()
    ]
    shared = set.intersection(*(set(agent.steps.tolist()) for agent in agents))
    if not shared:
        raise UserError("These runs have no step at which all were evaluated.")
    return sorted(int(step) for step in shared)


def scores_table(folder: Path, step: int = 0) -> str:
    """A Markdown table: returns of each task and the score, with 95 % bootstrap intervals.

    Args:
        folder: Results of `python -m benchmarks campaign PLAN collect`.
        step: Step of the evaluations; 0 means the last one that all runs have.
    """
    reference, parts = read_toml(REFERENCE), read_parts(folder)
    step = step or shared_steps(parts)[-1]
    scored = [score_at(part, runs, step, reference) for part, runs in parts.items()]
    scored = [one for one in scored if one.scores]
    if not scored:
        raise UserError(
            f"{folder} has no evaluations at step {step:,} of {', '.join(reference['td3'])}."
        )
    tasks = [task for task in reference["td3"] if any(task in one.returns for one in scored)]
    base = next((one for one in scored if one.part == "base"), None)
    rows = [row_of(one, tasks, base) for one in scored]
    rows += [published_row(name, own, tasks, step, reference) for name, own in
             reference["published"].items()]  # fmt: skip
    header = ["part", *tasks, "score", "difference to base"]
    return f"At {step:,} steps.\n\n{format_table(header, rows)}"


def row_of(one: Scored, tasks: Sequence[str], base: Scored | None) -> list[str]:
    cells = [
        f"{number(one.returns[task].mean())} ± {number(one.returns[task].std())}"
        if task in one.returns else "–" for task in tasks
    ]  # fmt: skip
    score = f"{one.score:.2f} ({interval(bootstrap_interval(mean_of_means, one.scores))})"
    difference = ""
    if base is not None and one is not base and one.tasks == base.tasks:
        low_high = bootstrap_interval(
            lambda groups: (
                mean_of_means(groups[: len(tasks)]) - mean_of_means(groups[len(tasks) :])
            ),
            [*one.scores, *base.scores],
        )
        difference = f"{one.score - base.score:+.2f} ({interval(low_high)})"
    return [one.part, *cells, score, difference]


def interval(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.2f} to {ends[1]:.2f}"


def published_row(
    name: str, own: dict[str, Any], tasks: Sequence[str], step: int, reference: dict[str, Any]
) -> list[str]:
    """A published method: its returns if they are of this step, and its score on all five tasks."""
    at_the_end = step == 1_000_000
    returns = [number(own["returns"][task]) if at_the_end else "" for task in tasks]
    found = own.get("at", {}).get(str(step))
    if found is None and at_the_end:
        constants = [(reference["random"][task], reference["td3"][task]) for task in own["returns"]]
        values = own["returns"].values()
        found = np.mean(
            [(v - low) / (td3 - low) for v, (low, td3) in zip(values, constants, strict=True)]
        )
    score = "" if found is None else f"{found:.2f} (five tasks)"
    return [f"{name}, published", *returns, score, ""]
