"""Is td3 below, above or level with the authors? Three statistics, with and without correction."""

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.td3_bench.markdown import format_table
from benchmarks.td3_bench.outcomes import Outcome
from benchmarks.td3_bench.seed_statistics import Moments, holm, welch_interval, welch_p_value
from td3.report.reference import unversioned
from td3.text import number

LEVEL = 0.05
BEST, LAST, ALL = "best mean over time", "last ten evaluations", "all evaluations"


class Verdict(NamedTuple):
    """The comparison of one task by one statistic."""

    task: str
    statistic: str
    difference: float
    low: float
    high: float
    p_value: float
    corrected: float
    """p value after Holm's correction over the tasks."""

    def word(self, p_value: float) -> str:
        if p_value >= LEVEL:
            return "no significant difference"
        return "below" if self.difference < 0 else "above"


def moments_of_both(outcome: Outcome) -> dict[str, tuple[Moments, Moments]]:
    """Return our moments and the authors' by statistic, at the same steps."""
    theirs = outcome.authors_seeds
    assert theirs is not None
    window = outcome.authors_last
    assert window is not None
    return {
        BEST: (Moments.of(outcome.best), Moments.best_published(theirs)),
        LAST: (Moments.of(outcome.last), Moments.of(window)),
        ALL: (
            Moments.of(outcome.curve.values.mean(axis=1)),
            Moments.of(theirs.values.mean(axis=1)),
        ),
    }


def verdicts(outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Compare every task by every statistic; tasks of one statistic are corrected together."""
    shared = [own for own in outcomes if own.authors_seeds is not None and len(own.last) > 1]
    both = {own.task: moments_of_both(own) for own in shared}
    found = []
    for statistic in (BEST, LAST, ALL):
        p_values = [welch_p_value(*groups[statistic]) for groups in both.values()]
        for task, p_value, corrected in zip(both, p_values, holm(p_values), strict=True):
            ours, theirs = both[task][statistic]
            interval = welch_interval(ours, theirs)
            difference = ours.mean - theirs.mean
            found.append(Verdict(task, statistic, difference, *interval, p_value, corrected))
    return found


def verdicts_table(found: Sequence[Verdict]) -> str:
    header = ["statistic", "task", "difference (95 % interval)", "p", "alone"]
    rows = [
        [
            one.statistic,
            one.task,
            f"{number(one.difference)} ({number(one.low)} to {number(one.high)})",
            format_p_value(one.p_value),
            one.word(one.p_value),
            format_p_value(one.corrected),
            one.word(one.corrected),
        ]
        for one in found
    ]
    return format_table([*header, "p, Holm", "corrected"], rows)


def verdict_sentences(found: Sequence[Verdict]) -> str:
    """Return one list item per statistic: which tasks are below and above."""
    lines = []
    for statistic in dict.fromkeys(one.statistic for one in found):
        own = [one for one in found if one.statistic == statistic]
        alone = describe({one: one.word(one.p_value) for one in own})
        corrected = describe({one: one.word(one.corrected) for one in own})
        name = statistic.capitalize()
        lines.append(f"- **{name}**: {alone}.\n  After Holm's correction: {corrected}.")
    return "\n".join(lines)


def describe(words: dict[Verdict, str]) -> str:
    parts = []
    for word in ("below", "above"):
        named = [
            f"{unversioned(one.task)} ({number(one.difference)})"
            for one, own in words.items()
            if own == word
        ]
        if named:
            parts.append(f"{word} the authors: {', '.join(named)}")
    return "; ".join(parts) or "no significant difference"


def format_p_value(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
