"""The tables of docs/results.md."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.td3_bench.markdown import format_table
from benchmarks.td3_bench.outcomes import (
    ENOUGH_SEEDS,
    Outcome,
    comparable,
    elapsed_seconds,
    improvement,
    interquartile_score,
    mean_score,
)
from benchmarks.td3_bench.plan import PAPER_TASKS
from benchmarks.td3_bench.seed_statistics import (
    Moments,
    bootstrap_interval,
    interquartile_mean,
    welch_interval,
)
from benchmarks.td3_bench.verdicts import ALL, LAST
from td3.intervals import mean_interval
from td3.report.summary import RunSummary
from td3.text import duration, number


class ReturnsRow(NamedTuple):
    """The returns of one task, in the order of the table."""

    task: str
    seeds: str
    best: str
    authors_best: str
    last: str
    last_interval: str
    authors_last: str
    middle: str


def returns_row(outcome: Outcome) -> ReturnsRow:
    curve, authors, theirs = outcome.curve, outcome.authors, outcome.authors_last
    diverged = sum(line.frozen is not None for line in curve.lines)
    several = len(outcome.last) > 1
    middle = number(interquartile_mean(outcome.last))
    if len(outcome.last) >= ENOUGH_SEEDS:
        between = bootstrap_interval(lambda groups: interquartile_mean(groups[0]), [outcome.last])
        middle += f" ({format_interval(*between)})"
    reached, planned = int(curve.steps[-1]), outcome.run.settings.get("loop.steps")
    unfinished = isinstance(planned, int) and reached < planned
    return ReturnsRow(
        outcome.task + (f" until {reached:,} steps" if unfinished else ""),
        str(len(curve.values)) + (f", {diverged} diverged" if diverged else ""),
        format_moments(Moments.of(outcome.best)),
        format_moments(Moments.best_published(authors)) if authors else "",
        format_moments(Moments.of(outcome.last)),
        format_interval(*map(float, mean_interval(outcome.last))) if several else "",
        format_moments(Moments.of(theirs)) if theirs is not None else "",
        middle,
    )


def returns_table(outcomes: Sequence[Outcome]) -> str:
    header = [
        "task",
        "seeds",
        "best mean over time",
        "authors: best",
        "last ten evaluations",
        "95 % interval",
        "authors: last ten",
        "interquartile mean",
    ]
    return format_table(header, [returns_row(outcome) for outcome in outcomes])


def comparison_table(outcomes: Sequence[Outcome]) -> str:
    shared = comparable(outcomes)
    if not shared:
        return "The authors published no curves of these tasks at these steps."
    rows = [[own.task, *compare([own])] for own in shared]
    equal_seeds = len({len(outcome.last) for outcome in shared}) == 1
    if equal_seeds and len(shared) > 1:  # otherwise tasks with more seeds would count more
        rows.append(["**all tasks**", *compare(shared)])
    scores = ["score, mean", "score, interquartile mean"]
    return format_table(["task", "probability of improvement", *scores], rows)


def compare(outcomes: Sequence[Outcome]) -> list[str]:
    """Return probability of improvement and scores, with intervals if there are enough seeds."""
    found = [statistic(outcomes) for statistic in (improvement, mean_score, interquartile_score)]
    enough = all(len(outcome.last) >= ENOUGH_SEEDS for outcome in outcomes)
    return [format_with_interval(*one) if enough else f"{one[0]:.2f}" for one in found]


def tianshou_table(outcomes: Sequence[Outcome], others: Sequence[Outcome]) -> str:
    """Compare td3 with Tianshou, and Tianshou with the authors' best mean."""
    known = {outcome.task: outcome.published for outcome in outcomes}
    rows = []
    for other in equally_long(others):
        assert other.published is not None
        ours, theirs = Moments.of(other.best), Moments.best_published(other.published)
        authors = known.get(other.task)
        to_authors = format_difference(theirs, Moments.best_published(authors)) if authors else ""
        moments = [format_moments(ours), format_moments(theirs)]
        rows.append([other.task, *moments, format_difference(ours, theirs), to_authors])
    header = ["task", "td3", "Tianshou", "td3 − Tianshou", "Tianshou − authors"]
    return format_table(header, rows)


def equally_long(others: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes with several seeds and as many steps as the published ones."""
    return [
        other
        for other in others
        if other.published
        and min(len(other.curve.values), other.published.seeds) > 1
        and other.curve.steps[-1] == other.published.steps[-1]
    ]


def settings_table(outcomes: Sequence[Outcome], originals: Sequence[Outcome]) -> str:
    """Compare the paper's settings with the current ones at the same steps."""
    rows, known = [], {outcome.task: outcome for outcome in outcomes}
    for original in originals:
        current = known.get(original.task)
        if not (current and np.isin(original.curve.steps, current.curve.steps).all()):
            continue
        for statistic, steps in ((LAST, original.last_steps), (ALL, original.curve.steps)):
            groups = [Moments.of(one.at(steps).mean(axis=1)) for one in (original, current)]
            several = all(group.seeds > 1 for group in groups)
            means = [number(group.mean) for group in groups]
            difference = format_difference(*groups) if several else ""
            rows.append([original.task, statistic, *means, difference])
    header = ["task", "statistic", "paper's settings", "current settings, same steps", "difference"]
    return format_table(header, rows) if rows else "There are no results at the same steps."


def walkers_table(walkers: Sequence[Outcome]) -> str:
    header = [
        "task",
        "recipe",
        "seeds",
        "steps",
        "best mean over time",
        "last ten evaluations",
        "95 % interval",
        "last evaluation",
        "Stable-Baselines3",
        "difference",
    ]
    rows = []
    for walker in walkers:
        row, theirs, final = returns_row(walker), walker.published, Moments.of(walker.final)
        known = format_moments(Moments.published(theirs)) if theirs else ""
        compared = theirs and equally_long([walker])
        difference = (
            format_difference(final, Moments.published(theirs)) if theirs and compared else ""
        )
        setting = [row.task, walker.run.recipe, row.seeds, f"{walker.curve.steps[-1]:,}"]
        ours = [row.best, row.last, row.last_interval, format_moments(final)]
        rows.append([*setting, *ours, known, difference])
    return format_table(header, rows)


def circumstances_table(outcomes: Sequence[Outcome]) -> str:
    """Return recipe, time, machine, versions and commit of each run."""
    rows = []
    for outcome in outcomes:
        run, settings = outcome.run, outcome.run.settings
        on_gpu = str(settings.get("device", "cpu")).startswith("cuda")
        machine = settings.get("machine.gpu" if on_gpu else "machine.processor", "")
        names = ("python", "torch", "gymnasium", "mujoco", "pybullet")
        known = {name: settings.get(f"versions.{name}") for name in names}
        commit = str(settings.get("versions.commit", ""))
        every, episodes = settings.get("evaluation.every"), settings.get("evaluation.episodes")
        rows.append(
            [
                f"`{run.name}`",
                run.recipe,
                f"{outcome.curve.steps[-1]:,}",
                f"every {format_whole(every)}, {format_whole(episodes)} episodes",
                format_time(run),
                f"{machine}, {settings.get('machine.cores', '?')} cores",
                ", ".join(f"{name} {version}" for name, version in known.items() if version),
                commit[:10] + (", with changes" if commit.endswith("+") else ""),
            ]
        )
    header = ["run", "recipe", "steps", "evaluated", "time", "machine", "versions", "commit"]
    return format_table(header, rows)


def total_time(outcomes: Sequence[Outcome]) -> str:
    """Return a sentence about the time of the paper's tasks; simultaneous runs count once."""
    timed = [outcome for outcome in outcomes if outcome.run.wall_seconds is not None]
    paper = [outcome for outcome in timed if outcome.task in PAPER_TASKS]
    if not paper:
        return "The training time of the paper's tasks is unknown."
    total, added = elapsed_seconds(paper), sum(one.run.wall_seconds or 0 for one in paper)
    simultaneous = total < added - 1  # a second for rounding
    aside = f" (sum of all runs: {duration(added)}; some ran at the same time)" * simultaneous
    which = "All" if len(paper) == len(PAPER_TASKS) else f"{len(paper)} of the"
    more = f" With the other tasks: {duration(elapsed_seconds(timed))}." * (len(paper) < len(timed))
    return f"{which} {len(PAPER_TASKS)} tasks of the paper took {duration(total)}{aside}.{more}"


def difference_to_authors(outcome: Outcome) -> str:
    assert outcome.authors_last is not None
    return format_difference(Moments.of(outcome.last), Moments.of(outcome.authors_last))


def format_difference(one: Moments, other: Moments) -> str:
    """Return the difference of two means, its interval and a verdict."""
    low, high = welch_interval(one, other)
    verdict = "below" if high < 0 else "above" if low > 0 else "no significant difference"
    return f"{number(one.mean - other.mean)} ({format_interval(low, high)}): {verdict}"


def format_time(run: RunSummary) -> str:
    return duration(run.wall_seconds) if run.wall_seconds else "unknown"


def format_whole(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "?"


def format_moments(group: Moments) -> str:
    return f"{number(group.mean)} ± {number(group.std)}"


def format_interval(low: float, high: float) -> str:
    return f"{number(low)} to {number(high)}"


def format_with_interval(value: float, low: float, high: float) -> str:
    return f"{value:.2f} ({low:.2f} to {high:.2f})"
