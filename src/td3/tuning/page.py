"""The report of a search: best setting, confirmation, figures, and all trials."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from td3.config import dotted, to_dict
from td3.files import replace_file
from td3.report.document import fold, media, to_html
from td3.report.plots import COLOURS, number_axes, save_figure, styled_figure
from td3.text import count, escape, markdown_table, number
from td3.tuning.confirm import Confirmation
from td3.tuning.plan import Plan
from td3.tuning.results import RECIPE, TABLE, TrialResult, describe, plain, rank, tally
from td3.tuning.trials import Trials, quiet

SHOWN = 5  # trials whose learning curves are drawn
PRUNED: dict[str, Any] = {"color": "0.7", "s": 12}
FEW = 4  # complete trials; with fewer, importance means nothing


def write_page(
    plan: Plan,
    trials: Trials,
    results: Sequence[TrialResult],
    confirmation: Confirmation | None,
    folder: Path,
) -> list[Path]:
    """Write report.md and report.html into the folder, with figures in plots/."""
    title = f"Search on {plan.config.environment.id}"
    seeds = count(plan.config.seeds, "seed")
    parts = [
        f"# {escape(title)}",
        f"{count(len(results), 'trial')} of {seeds} and {plan.steps:,} steps: {tally(results)}. "
        f"Objective: {OBJECTIVES[plan.objective]}.",
    ]
    ranked = rank(results)
    if ranked:
        parts += best_setting(plan, ranked[0])
        parts += describe_confirmation(confirmation)
        for draw, (heading, caption) in FIGURES:
            if path := draw(plan, trials, results, folder / "plots"):
                parts += [f"## {heading}", media(path, heading, folder), caption]
        if len(ranked) < FEW:
            few = count(len(ranked), "complete trial")
            parts.append(f"The importance of settings needs {FEW} complete trials; this is {few}.")
    else:
        parts.append("No trial is complete.")
    parts += ["## Trials", f"All trials with their evaluations: [{TABLE}]({TABLE})."]
    parts.append(fold("All trials, best first", trial_table(results)))
    markdown = "\n\n".join(parts) + "\n"
    pages = {"report.md": markdown, "report.html": to_html(title, markdown, folder)}
    for name, text in pages.items():
        replace_file(folder / name, text.encode())
    return [folder / name for name in pages]


OBJECTIVES = {
    "last": "mean return over the seeds of the last three evaluations",
    "area": "mean return over the seeds of all evaluations",
}


def best_setting(plan: Plan, best: TrialResult) -> list[str]:
    """The best trial and the settings that the search began with."""
    defaults = dict(dotted(to_dict(plan.config)))
    check = "The confirmation has seeds of its own."
    if not plan.confirm:
        check = "Without a confirmation (`--confirm`) nobody knows how much of it is luck."
    if all(value == defaults.get(key) for key, value in best.settings.items()):
        check = "The search began with these settings, so there is nothing to confirm."
    rows = [
        [f"`{key}`", shown(value), shown(defaults.get(key, ""))]
        for key, value in best.settings.items()
    ]
    assert best.value is not None
    return [
        "## Best setting",
        f"Trial {best.number}: return {number(best.value)}. This is the highest of many noisy "
        f"values, so it is biased upwards. {check}",
        markdown_table(["setting", "best", "default"], rows, text_columns=1),
        f"Train with it: `td3 train --recipe {RECIPE}`.",
    ]


def shown(value: Any) -> str:
    return number(value, 4) if isinstance(value, float) else escape(str(plain(value)))


def describe_confirmation(found: Confirmation | None) -> list[str]:
    if found is None:
        return []
    rows = [
        [name, number(float(np.mean(own)), 4), ", ".join(number(value, 4) for value in own)]
        for name, own in (("best", found.best), ("default", found.default))
    ]
    return [
        "## Confirmation",
        f"Trial {found.trial} and the default, each with {len(found.best)} seeds that the search "
        "did not use.",
        markdown_table(["setting", "mean return", "each seed"], rows),
        f"{difference(found)}",
    ]


def difference(found: Confirmation) -> str:
    """The difference of the confirmation with its interval, and what it means."""
    verdict = "The best setting is better."
    if found.low <= 0:
        verdict = "The interval contains 0: there may be no difference."
    if found.high < 0:
        verdict = "The default is better."
    ends = f"{number(found.low, 4)} to {number(found.high, 4)}"
    return f"Difference: {number(found.difference, 4)} (95 % interval {ends}). {verdict}"


def trial_table(results: Sequence[TrialResult]) -> str:
    order = sorted(results, key=lambda own: (own.value is None, -(own.value or 0), own.number))
    rows = []
    for own in order:
        latest = own.value if own.value is not None else next(reversed(own.means.values()), None)
        value = "" if latest is None else number(latest, 4)
        settings = escape(describe(own.settings))
        rows.append([str(own.number), own.state, settings, f"{own.steps:,}", value])
    return markdown_table(["trial", "state", "settings", "steps", "return"], rows, text_columns=3)


def draw_history(
    plan: Plan, trials: Trials, results: Sequence[TrialResult], out: Path
) -> Path | None:
    """The value of each trial, and the best so far."""
    complete = [own for own in results if own.value is not None]
    pruned = [own for own in results if own.value is None and own.means]
    with styled_figure(6.0, 3.4) as figure:
        panel = figure.subplots()
        numbers = [own.number for own in pruned]
        panel.scatter(numbers, [list(o.means.values())[-1] for o in pruned], **PRUNED)
        numbers, values = [o.number for o in complete], [o.value or 0 for o in complete]
        panel.scatter(numbers, values, color=COLOURS[0], s=14, zorder=3)
        best = np.maximum.accumulate(np.array(values))
        panel.step(numbers, best, where="post", color=COLOURS[1])
        number_axes(panel)
        panel.set_xlabel("trial")
        panel.set_ylabel("return")
        return save_figure(figure, out / "history")[1]


def draw_importance(
    plan: Plan, trials: Trials, results: Sequence[TrialResult], out: Path
) -> Path | None:
    """How much each setting decides about the value."""
    names = [own.name for own in trials.space.parameters]
    if len(names) < 2 or len(rank(results)) < FEW:
        return None
    with quiet():
        found = optuna.importance.get_param_importances(trials.study, params=names)
    with styled_figure(6.0, 0.6 + 0.28 * len(found)) as figure:
        panel = figure.subplots()
        names, shares = [label(name) for name in found], list(found.values())
        panel.barh(names[::-1], shares[::-1], color=COLOURS[0])
        panel.set_xlabel("share of the importance")
        return save_figure(figure, out / "importance")[1]


def label(name: str) -> str:
    """A parameter's name without its table: tau, 1 - discount."""
    before, _, after = name.rpartition(".")
    return f"1 - {after}" if before.startswith("1 - ") else after


def draw_slices(
    plan: Plan, trials: Trials, results: Sequence[TrialResult], out: Path
) -> Path | None:
    """The value against each setting."""
    parameters = trials.space.parameters
    columns = min(3, len(parameters))
    rows = -(-len(parameters) // columns)
    with styled_figure(2.5 * columns + 0.5, 2.2 * rows) as figure:
        panels = figure.subplots(rows, columns, squeeze=False, sharey=True).flatten().tolist()
        for panel, own in zip(panels, parameters, strict=False):
            for result in results:
                latest = result.value
                style: dict[str, Any] = {"color": COLOURS[0], "s": 12, "zorder": 3}
                if latest is None:
                    latest, style = next(reversed(result.means.values()), None), PRUNED
                if latest is not None and own.key in result.settings:
                    stored = own.encode(result.settings[own.key])
                    panel.scatter([str(stored) if own.choices else stored], [latest], **style)
            panel.set_title(label(own.name))
            if own.scale != "linear":
                panel.set_xscale("log")
                panel.set_xticks(np.geomspace(own.encode(own.low), own.encode(own.high), 3))
                panel.set_xticks([], minor=True)
                panel.xaxis.set_major_formatter("{x:.2g}")
        for panel in panels[len(parameters) :]:
            panel.remove()
        panels[0].set_ylabel("return")
        return save_figure(figure, out / "slices")[1]


def draw_curves(
    plan: Plan, trials: Trials, results: Sequence[TrialResult], out: Path
) -> Path | None:
    """Learning curves of the best trials: the mean, and each seed as a thin line."""
    with styled_figure(6.0, 4.0) as figure:
        panel = figure.subplots()
        for colour, own in zip(COLOURS, rank(results)[:SHOWN], strict=False):
            label = f"trial {own.number}: {number(own.value or 0)}"
            panel.plot(list(own.means), list(own.means.values()), color=colour, label=label)
            for seed in np.array(list(own.returns.values())).T:
                panel.plot(list(own.returns), seed, color=colour, alpha=0.25, linewidth=0.6)
        number_axes(panel)
        panel.set_xlabel("environment steps")
        panel.set_ylabel("evaluation return")
        figure.legend(loc="outside lower center", ncols=3)
        return save_figure(figure, out / "curves")[1]


FIGURES = (
    (draw_curves, ("Learning curves of the best trials", "Mean over the seeds; thin: each seed.")),
    (
        draw_history,
        ("History", "Blue: complete trials. Orange: the best so far. Grey: ended early."),
    ),
    (
        draw_importance,
        ("Importance of the settings", "By PED-ANOVA: what separates the better trials."),
    ),
    (
        draw_slices,
        ("Slices", "Return against each setting. Grey: trials that ended early."),
    ),
)  # fmt: skip
