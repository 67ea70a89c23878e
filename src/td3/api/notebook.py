"""A run in one line, and as a small page for notebooks. Everything from files is escaped."""

import contextlib
from html import escape

import numpy as np

from td3.config import Config, changes, load_recipe, to_dict
from td3.errors import UserError
from td3.report.curves import Curve, curves, last_steps
from td3.report.summary import Floats, RunSummary, Steps
from td3.text import count, number

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
WIDTH, HEIGHT, MARGIN = 420, 140, 6
SETTINGS = 12  # settings to list; the rest is counted
NOT_LISTED = ("recipe", "environment.id", "device", "threads", "seed", "seeds")
"""The recipe; what every summary contains; what was chosen for this machine."""


def describe_run(summary: RunSummary) -> str:
    """Task, agents, progress and return of a run, in words."""
    different = len({found.seed for found in summary.evaluations.values()})
    agents = len(summary.evaluations)
    who = count(different, "seed")
    if agents > different:
        who += f" × {agents // different} settings = {agents} agents"
    done = max(summary.steps_done(agent) for agent in summary.evaluations)
    asked = summary.settings.get("loop.steps")
    of = f" of {asked:,}" if isinstance(asked, int) else ""
    parts = [summary.environment, who, summary.status, f"{done:,}{of} steps"]
    if shown := describe_returns(summary):
        parts.append(shown)
    return ", ".join(parts)


def describe_returns(summary: RunSummary) -> str:
    """Last and best mean return, averaged over all agents; empty if there is none."""
    seen = [own.mean_returns for own in summary.evaluations.values() if len(own.steps)]
    if not seen:
        return ""
    last, best = (float(np.mean([pick(own) for own in seen])) for pick in (last_value, np.max))
    return f"mean return {number(last, 4)} (best {number(best, 4)})"


def last_value(values: Floats) -> float:
    return float(values[-1])


def run_page(summary: RunSummary, config: Config) -> str:
    """A run as HTML: what it is, its curve, its results, its settings, what to do next."""
    shown = [curve for curve in curves([summary]) if len(curve.steps)]
    parts = [
        f"<b>{escape(summary.name)}</b>: {escape(describe_run(summary))}",
        draw_curves(shown) if shown else "No evaluations yet.",
        results_table(shown),
        f"Settings that differ from the recipe {escape(summary.recipe)}: {list_settings(config)}",
        f"Next: {list_commands(summary)}",
    ]
    return f"<div>{''.join(f'<div>{part}</div>' for part in parts if part)}</div>"


def list_settings(config: Config) -> str:
    """The settings that differ from those of the recipe."""
    recipe = Config()
    with contextlib.suppress(UserError):  # a file of the user: compare with the defaults
        recipe = load_recipe(config.recipe)
    changed = changes(to_dict(recipe), to_dict(config))
    own = [f"{key} = {new}" for key, (_, new) in changed.items() if key not in NOT_LISTED]
    more = [f"and {len(own) - SETTINGS} more"] if len(own) > SETTINGS else []
    return ", ".join([*(f"<code>{escape(text)}</code>" for text in own[:SETTINGS]), *more]) or "–"


def list_commands(summary: RunSummary) -> str:
    """What a user does next in Python."""
    commands = ["run.policy", "td3.evaluate(run)", "run.plot()", "run.video()", "run.report()"]
    if summary.status != "finished":
        commands = [f"td3.resume({str(summary.folder)!r})", *commands]
    return " · ".join(f"<code>{escape(command)}</code>" for command in commands)


def results_table(shown: list[Curve]) -> str:
    """Last return, mean of the last ten and best return of each curve."""
    rows = []
    for place, curve in enumerate(shown):
        tail = np.isin(curve.steps, last_steps(curve.steps))
        returns = (curve.mean[-1], curve.mean[tail].mean(), curve.mean.max())
        cells = [
            f'<span style="color: {COLOURS[place % len(COLOURS)]}">●</span> {escape(curve.label)}',
            str(len(curve.values)),
            *(number(float(value), 4) for value in returns),
        ]
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    names = ("", "seeds", "last return", "mean of the last ten", "best")
    head = "".join(f"<th>{name}</th>" for name in names)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def draw_curves(shown: list[Curve]) -> str:
    """The means as thick lines and the seeds as thin ones, as SVG without other files."""
    every = [line.returns for curve in shown for line in curve.lines if len(line.steps)]
    low, high = min(own.min() for own in every), max(own.max() for own in every)
    last = max(line.steps[-1] for curve in shown for line in curve.lines if len(line.steps))
    lines = []
    for place, curve in enumerate(shown):
        colour = COLOURS[place % len(COLOURS)]
        several = [line for line in curve.lines if len(line.steps)] if len(curve.values) > 1 else []
        drawn = [(line.steps, line.returns, 0.6, 0.35) for line in several]
        for steps, values, width, opacity in [*drawn, (curve.steps, curve.mean, 2.0, 1.0)]:
            points = place_points(steps, values, float(last), float(low), float(high))
            lines.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" '
                f'stroke-width="{width}" opacity="{opacity}"/>'
            )
    text = f"return {number(float(low), 4)} to {number(float(high), 4)}, {int(last):,} steps"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 18}" width="{WIDTH}" role="img" '
        f'aria-label="Learning curve: {text}"><rect width="{WIDTH}" height="{HEIGHT}" '
        f'fill="none" stroke="#999999"/>{"".join(lines)}<text x="0" y="{HEIGHT + 14}" '
        f'font-size="12" fill="currentColor">{text}</text></svg>'
    )


def place_points(steps: Steps, values: Floats, last: float, low: float, high: float) -> str:
    """The corners of a line in the drawing; one evaluation becomes a short line."""
    x = MARGIN + (WIDTH - 2 * MARGIN) * steps / (last or 1.0)
    y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (values - low) / ((high - low) or 1.0)
    points = [f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    return " ".join([*points, f"{x[-1] + 2:.1f},{y[-1]:.1f}"] if len(points) == 1 else points)
