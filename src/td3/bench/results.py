"""docs/results.md, and what README.md shows of it: the paper's tasks, beside the authors' curves.

Made from the runs that 'td3 bench paper' stored in benchmarks/results/paper, in original (with the
paper's own settings), and of the course's tasks in course (with the walk-throughs' settings) and
bullet (with those of RL Baselines3 Zoo).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from td3.bench.outcomes import (
    ENOUGH,
    Outcome,
    comparable,
    elapsed,
    improvement,
    mean_score,
    read_tasks,
    read_walkers,
    score,
)
from td3.bench.pages import BEGIN, number, renew, table
from td3.bench.paper import TASKS
from td3.errors import UserError
from td3.report.intervals import (
    Moments,
    bootstrap,
    difference_interval,
    interquartile_mean,
    mean_interval,
)
from td3.report.plots import plot
from td3.report.summary import RunSummary
from td3.text import duration

AUTHORS = "TD3 authors, version 1 of the tasks"
STABLE_BASELINES = "Stable-Baselines3"

EXPLAINED = """\
Returns are means over the episodes of an evaluation without noise; ± is the standard deviation over
seeds (divided by their number, as the authors do), for the last ten evaluations its mean over them.
"Best mean over time" is the paper's statistic; it chooses the best of all evaluations and so
flatters; the authors' is taken from the same steps as ours. The 95 % interval is Student's, of the
mean over seeds of each seed's last ten evaluations. The interquartile mean is that of the middle
half of the seeds, of the same ten evaluations; its interval comes from resampling seeds, if there
are five or more."""

COMPARED = """\
The difference is ours less the authors' mean over the last ten evaluations, at the same steps, with
Welch's 95 % interval; the verdicts are not corrected for their number. Only the mean and the
deviation over the authors' seeds are known, for each evaluation: the deviation stands in for that
of a seed's mean over ten, which is smaller, so these intervals are rather too wide. The probability
that a seed of ours does better in an evaluation takes theirs to be normal, and as far from their
mean in one evaluation as in the others; its interval comes from resampling ours and drawing theirs.
Where most seeds reach the highest return that a task has, they are not normal, and none is given. A
score of 0 is what the authors' networks earned untrained, 1 their mean at the same steps. The mean
score's interval comes from resampling ours and drawing theirs; that of the interquartile mean,
whose middle half holds few seeds of the hard tasks, from resampling ours alone, the seeds of each
task by themselves."""

OTHERS = """\
[Tianshou](https://github.com/thu-ml/tianshou/tree/master/examples/mujoco) trained these tasks, in
version 3 or 2, with the same settings and ten seeds, for a million steps after the random ones. All
figures are best means over time, theirs and the authors' of 200 evaluations, ours of as many as
there are. The differences have Welch's 95 % interval, which does not allow for having chosen the
best; the first is ours less Tianshou's."""

ORIGINAL = """\
What the settings do: here they are the paper's own (`benchmarks/original.toml`) instead of those of
the authors' code today. The figure has both, as far as there are both, and the authors' curves. The
mean of the last ten evaluations with either, and the difference with Welch's 95 % interval:"""
ORIGINAL_BESIDE = """\
Beside the authors, as above; with fewer than five seeds probability and scores have no interval:"""

WALKED = """\
PyBullet's walkers, which the walk-throughs train. The recipe `course` has their settings (training
after each episode), `bullet` those of RL Baselines3 Zoo today. Stable-Baselines3's figures are
those of its documentation: the last evaluation of three seeds after a million steps; it gives
standard errors, here turned into deviations. The difference is that of the last evaluations after
as many steps, with Welch's 95 % interval: three seeds leave it so wide that it shows little. It is
no test of this implementation either, for the settings differed: what was published then, e.g.
[HalfCheetah](https://huggingface.co/sb3/td3-HalfCheetahBulletEnv-v0), also observed how much of the
episode was left, and trained after each episode, with batches of 100 and learning rates of 0.001
(`bullet`: 256 and 0.0007); discount (0.98) and replay (200,000) are the same. Where
evaluations are rarer, the last ten reach further back."""


def write_results(results: Path, references: Path, page: Path, front: Path | None) -> list[Path]:
    """Bring the page, its figures and, if it has room for them, the front page up to date; returns
    what was written."""
    authors, walked = references / "td3_authors_curves.csv", references / "pybullet.csv"
    outcomes, originals = (read_tasks(results / name, authors) for name in ("paper", "original"))
    if not outcomes:
        raise UserError(f"{results / 'paper'} holds no results; 'td3 bench paper' makes them.")
    others = read_tasks(results / "paper", references / "tianshou.csv")
    walkers = read_walkers(results, walked)
    media = page.parent / "media"
    try:
        written = plot_beside(authors, AUTHORS, outcomes, media / "results")
        if originals:
            tasks = {outcome.task for outcome in originals}
            both = [*(outcome for outcome in outcomes if outcome.task in tasks), *originals]
            written += plot_beside(authors, AUTHORS, both, media / "original")
        if walkers:
            written += plot_beside(walked, STABLE_BASELINES, walkers, media / "walkers")
        renew(page, "Results", made(outcomes, others, originals, walkers))
        written.insert(0, page)
        if front and front.is_file() and BEGIN in front.read_text(encoding="utf-8"):
            renew(front, "", made_in_short(outcomes))
            written.insert(0, front)
    except OSError as error:
        raise UserError(f"Cannot write {error.filename or page}: {error.strerror}.") from error
    return written


def plot_beside(published: Path, label: str, outcomes: Sequence[Outcome], out: Path) -> list[Path]:
    """Our curves, and what others published of any of these tasks."""
    reference = published if any(outcome.published for outcome in outcomes) else None
    runs = [named(outcome.run, f"this td3, recipe {outcome.run.recipe}") for outcome in outcomes]
    return plot(runs, out, reference=reference, reference_label=label)


def named(run: RunSummary, name: str) -> RunSummary:
    """The run by another name than its recipe's, in a figure."""
    return dataclasses.replace(run, config=run.config | {"recipe": name})


def made(
    outcomes: Sequence[Outcome],
    others: Sequence[Outcome] = (),
    originals: Sequence[Outcome] = (),
    walkers: Sequence[Outcome] = (),
) -> str:
    """The page; `others` are the tasks again, beside what Tianshou published."""
    elsewhere = ["## Beside another implementation", others_table(outcomes, others), OTHERS]
    settings = [
        "## With the paper's own settings",
        "![Learning curves](media/original.png)",
        returns_table(originals),
        ORIGINAL,
        settings_table(outcomes, originals),
        ORIGINAL_BESIDE,
        comparison(originals),
    ]
    course = [
        "## The course's tasks",
        "![Learning curves](media/walkers.png)",
        walkers_table(walkers),
        WALKED,
    ]
    return "\n\n".join(
        [
            "![Learning curves](media/results.png)",
            "## Returns",
            returns_table(outcomes),
            EXPLAINED,
            "## Beside the authors",
            comparison(outcomes),
            *([COMPARED] if comparable([*outcomes, *originals]) else ()),
            *(elsewhere if as_long(others) else ()),
            *(settings if originals else ()),
            *(course if walkers else ()),
            "## Circumstances",
            circumstances([*outcomes, *originals, *walkers]),
            together(outcomes),
        ]
    )


def made_in_short(outcomes: Sequence[Outcome]) -> str:
    """The last ten evaluations alone; the best mean over time is the paper's way to tell."""
    header = ["task", "this td3", "the authors'", "difference", "took"]
    rows = []
    for outcome in outcomes:
        row = returns_row(outcome)
        further = to_authors(outcome) if comparable([outcome]) else ""
        rows.append([row.task, row.last, row.authors_last, further, took(outcome.run)])
    figure = "![Learning curves beside the authors'](docs/media/results.png)"
    return f"{figure}\n\n{table(header, rows)}"


def returns_table(outcomes: Sequence[Outcome]) -> str:
    header = [
        "task",
        "seeds",
        "best mean over time",
        "authors' best",
        "last ten evaluations",
        "95 % interval",
        "authors' last ten",
        "interquartile mean",
    ]
    return table(header, [returns_row(outcome) for outcome in outcomes])


def others_table(outcomes: Sequence[Outcome], others: Sequence[Outcome]) -> str:
    """Ours beside Tianshou's, and those beside the best mean of the authors' whole curve."""
    known = {outcome.task: outcome.published for outcome in outcomes}
    rows = []
    for other in as_long(others):
        assert other.published is not None
        ours, theirs = Moments.of(other.best), other.published.best.moments
        authors = known.get(other.task)
        further = difference(theirs, authors.best.moments) if authors else ""
        figures = [plus_minus(ours), plus_minus(theirs)]
        rows.append([other.task, *figures, difference(ours, theirs), further])
    header = [
        "task",
        "best mean over time",
        "Tianshou's",
        "difference",
        "Tianshou's less the authors'",
    ]
    return table(header, rows)


def as_long(others: Sequence[Outcome]) -> list[Outcome]:
    """Those with several seeds that were trained for as many steps as what was published."""
    return [
        other
        for other in others
        if other.published
        and min(len(other.curve.values), other.published.seeds) > 1
        and other.curve.steps[-1] == other.published.steps[-1]
    ]


def settings_table(outcomes: Sequence[Outcome], originals: Sequence[Outcome]) -> str:
    """What the paper's own settings and today's earn, at the last ten evaluations of the former."""
    rows, known = [], {outcome.task: outcome for outcome in outcomes}
    for original in originals:
        today = known.get(original.task)
        if today and np.isin(original.last_steps, today.curve.steps).all():
            then = today.at(original.last_steps).mean(axis=1)
            groups = [Moments.of(original.last), Moments.of(then)]
            several = all(group.seeds > 1 for group in groups)
            figures = (number(group.mean) for group in groups)
            rows.append([original.task, *figures, difference(*groups) if several else ""])
    header = ["task", "the paper's own settings", "today's, at the same steps", "difference"]
    return table(header, rows) if rows else "Nothing of today's settings is at the same steps."


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
        "Stable-Baselines3's",
        "difference",
    ]
    rows = []
    for walker in walkers:
        row, theirs, final = returns_row(walker), walker.published, Moments.of(walker.final)
        known = plus_minus(theirs.moments) if theirs else ""
        further = difference(final, theirs.moments) if theirs and as_long([walker]) else ""
        setting = [row.task, walker.run.recipe, row.seeds, f"{walker.curve.steps[-1]:,}"]
        ours = [row.best, row.last, row.between, plus_minus(final)]
        rows.append([*setting, *ours, known, further])
    return table(header, rows)


class Row(NamedTuple):
    """What is told of a task's returns, in the order of the table."""

    task: str
    seeds: str
    best: str
    authors_best: str
    last: str
    between: str
    """The 95 % interval of `last`."""
    authors_last: str
    middle: str


def returns_row(outcome: Outcome) -> Row:
    curve, authors, window = outcome.curve, outcome.authors, outcome.authors_window
    mean, std = float(outcome.last.mean()), float(outcome.window.std(axis=0).mean())
    lost = sum(line.frozen is not None for line in curve.lines)
    several = len(outcome.last) > 1
    middle = number(interquartile_mean(outcome.last))
    if len(outcome.last) >= ENOUGH:
        between = bootstrap(lambda groups: interquartile_mean(groups[0]), [outcome.last])
        middle += f" ({interval(*between)})"
    shared, asked = int(curve.steps[-1]), outcome.run.settings.get("loop.steps")
    short = isinstance(asked, int) and shared < asked
    return Row(
        outcome.task + (f" until {shared:,} steps" if short else ""),
        str(len(curve.values)) + (f", {lost} diverged" if lost else ""),
        plus_minus(Moments.of(outcome.best)),
        plus_minus(authors.best.moments) if authors else "",
        plus_minus(Moments(mean, std, len(outcome.last))),
        interval(*map(float, mean_interval(outcome.last))) if several else "",
        plus_minus(window.moments) if window else "",
        middle,
    )


def comparison(outcomes: Sequence[Outcome]) -> str:
    shared = comparable(outcomes)
    if not shared:
        return "The authors published no curves of these tasks at these steps."
    rows = []
    for outcome in shared:
        rows.append([outcome.task, to_authors(outcome), *beside([outcome])])
    alike = len({len(outcome.last) for outcome in shared}) == 1
    if alike and len(shared) > 1:  # where seeds differ in number, some tasks would weigh more
        rows.append(["**together**", "", *beside(shared)])
    header = [
        "task",
        "difference",
        "probability of improvement",
        "score, mean",
        "score, interquartile mean",
    ]
    return table(header, rows)


def beside(outcomes: Sequence[Outcome]) -> list[str]:
    """Probability of improvement and scores, with intervals where there are seeds enough."""
    free = [outcome for outcome in outcomes if not outcome.at_a_ceiling]
    found = [improvement(free) if free else None, mean_score(outcomes), score(outcomes)]
    enough = all(len(outcome.last) >= ENOUGH for outcome in outcomes)
    return [
        "" if one is None else with_interval(*one) if enough else f"{one[0]:.2f}" for one in found
    ]


def to_authors(outcome: Outcome) -> str:
    assert outcome.authors_window is not None
    return difference(Moments.of(outcome.last), outcome.authors_window.moments)


def difference(one: Moments, other: Moments) -> str:
    """The difference of two means, with its interval and what that says."""
    low, high = difference_interval(one, other)
    verdict = "below" if high < 0 else "above" if low > 0 else "no difference shown"
    return f"{number(one.mean - other.mean)} ({interval(low, high)}): {verdict}"


def circumstances(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for outcome in outcomes:
        run, settings = outcome.run, outcome.run.settings
        on_gpu = str(settings.get("device", "cpu")).startswith("cuda")
        machine = settings.get("machine.gpu" if on_gpu else "machine.processor", "")
        names = ("python", "torch", "gymnasium", "mujoco", "pybullet")
        versions = [
            f"{name} {settings[f'versions.{name}']}"
            for name in names
            if f"versions.{name}" in settings
        ]
        every, episodes = settings.get("evaluation.every"), settings.get("evaluation.episodes")
        commit = str(settings.get("versions.commit", ""))
        rows.append(
            [
                f"`{run.name}`",
                run.recipe,
                f"{outcome.curve.steps[-1]:,}",
                f"every {whole(every)}, {whole(episodes)} episodes",
                took(run),
                f"{machine}, {settings.get('machine.cores', '?')} cores",
                ", ".join(versions),
                commit[:10] + (", with changes" if commit.endswith("+") else ""),
            ]
        )
    header = ["run", "recipe", "steps", "evaluated", "took", "where", "versions", "commit"]
    return table(header, rows)


def together(outcomes: Sequence[Outcome]) -> str:
    """How long the paper's tasks took; those beside each other count once."""
    timed = [outcome for outcome in outcomes if outcome.run.stretches]
    paper = [outcome for outcome in timed if outcome.task in TASKS]
    if not paper:
        return "How long the paper's tasks took is unknown."
    at_work, added = elapsed(paper), sum(outcome.run.wall_seconds or 0 for outcome in paper)
    at_once = at_work < added - 1  # a second, for rounding
    aside = f", some beside each other ({duration(added)} added up)" if at_once else ""
    which = "All" if len(paper) == len(TASKS) else f"{len(paper)} of the"
    more = f"; with the others {duration(elapsed(timed))}" if len(paper) < len(timed) else ""
    return f"{which} {len(TASKS)} tasks of the paper took {duration(at_work)}{aside}{more}."


def took(run: RunSummary) -> str:
    return duration(run.wall_seconds) if run.wall_seconds else "unknown"


def whole(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "?"


def plus_minus(group: Moments) -> str:
    return f"{number(group.mean)} ± {number(group.std)}"


def interval(low: float, high: float) -> str:
    return f"{number(low)} to {number(high)}"


def with_interval(value: float, low: float, high: float) -> str:
    return f"{value:.2f} ({low:.2f} to {high:.2f})"
