"""The results of a search: its trials, the best one, its recipe, a table as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.trial import TrialState

from td3.config import Config, changes, to_dict, to_toml, varied
from td3.files import replace_file
from td3.text import count, number
from td3.tuning.plan import Plan
from td3.tuning.trials import END, RETURNS, Trials

RECIPE, TABLE = "best.toml", "trials.csv"
PERSONAL = ("recipe", "seed", "seeds", "device", "threads", "execution", "verify", "precision")
"""Settings of a run that a recipe leaves to the user."""


@dataclass(frozen=True)
class TrialResult:
    """One trial of a study."""

    number: int
    state: str
    """complete, pruned, diverged, running or failed."""
    value: float | None
    """The objective; None for a trial that is not complete."""
    steps: int
    settings: dict[str, Any]
    means: dict[int, float]
    """Steps → mean over the seeds of the evaluation."""
    returns: dict[int, list[float]]
    """Steps → evaluation of each seed; empty for a trial that is not finished."""


def read_results(trials: Trials) -> list[TrialResult]:
    """All trials of the study, also those of other searches."""
    found = []
    for own in trials.all():
        end = own.user_attrs.get(END, {})
        state = end.get("reason", "failed") if own.state.is_finished() else "running"
        returns = own.user_attrs.get(RETURNS, {})
        found.append(
            TrialResult(
                own.number,
                state,
                own.value if own.state == TrialState.COMPLETE else None,
                end.get("age", own.last_step or 0),
                trials.space.decode(own.params),
                dict(sorted(own.intermediate_values.items())),
                {int(age): list(by_seed.values()) for age, by_seed in returns.items()},
            )
        )
    return found


def rank(results: Sequence[TrialResult]) -> list[TrialResult]:
    """The complete trials, best first."""
    complete = [own for own in results if own.value is not None]
    return sorted(complete, key=lambda own: -(own.value or 0))


def tally(results: Sequence[TrialResult]) -> str:
    """How many trials are in each state, in words."""
    states = [own.state for own in results]
    names = ("complete", "pruned", "diverged", "failed", "running")
    return " · ".join(f"{states.count(name):,} {name}" for name in names if name in states)


def best_config(plan: Plan, best: TrialResult) -> Config:
    """The settings of the search with those of its best trial, for one agent."""
    return varied(plan.config, {**best.settings, "loop.steps": plan.steps, "seeds": 1})


def write_recipe(plan: Plan, best: TrialResult, results: Sequence[TrialResult], path: Path) -> None:
    """Write the best settings as a file for `td3 train --recipe`."""
    config = best_config(plan, best)
    tables: dict[str, Any] = {}
    for key, (_, value) in changes(to_dict(Config()), to_dict(config)).items():
        table, _, name = key.partition(".")
        if key not in PERSONAL:
            tables.setdefault(table, {})[name] = value
    assert best.value is not None
    seeds = count(plan.config.seeds, "seed")
    about = f"# Trial {best.number}, the best of {len(results):,}: return {number(best.value)}"
    how = f"# ({seeds}, {plan.steps:,} steps). Written by td3 tune.\n\n"
    replace_file(path, f"{about}\n{how}{to_toml(tables)}".encode())


def write_table(results: Sequence[TrialResult], path: Path) -> None:
    """Write all trials as CSV: settings, value, and the evaluation at each step."""
    keys = list(dict.fromkeys(key for own in results for key in own.settings))
    ages = sorted({age for own in results for age in own.means})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["trial", "state", "value", "steps", *keys, *(f"return at {age}" for age in ages)]
    )
    for own in results:
        values = [plain(own.settings.get(key, "")) for key in keys]
        means = [own.means.get(age, "") for age in ages]
        value = "" if own.value is None else own.value
        writer.writerow([own.number, own.state, value, own.steps, *values, *means])
    replace_file(path, text.getvalue().encode())


def plain(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def describe(settings: Mapping[str, Any]) -> str:
    """Settings in words with short numbers: discount 0.98, tau 0.01."""
    parts = []
    for key, value in settings.items():
        parts.append(f"{key.partition('.')[2]} {short(value)}")
    return ", ".join(parts)


def short(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(plain(value))
