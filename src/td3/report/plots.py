"""Figures of runs. Functions import matplotlib themselves, because it is an optional extra."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from td3.errors import UserError
from td3.files import check_output
from td3.report.curves import Curve, XAxis, align, curves, labels
from td3.report.reference import Reference, matching, read_reference
from td3.report.summary import Floats, RunSummary, Steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, safe for colour-blind readers, without the pale yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "-.", ":")
REFERENCE: dict[str, Any] = {"color": "0.45", "linestyle": (0, (4, 2)), "linewidth": 1.2}
FEW_POINTS = 4  # curves with fewer points get markers
LETTER = 0.065  # width of a letter in a legend, in inches
STYLE = Path(__file__).with_name("td3.mplstyle")


def plot(
    runs: Sequence[RunSummary],
    out: Path,
    x: XAxis = "steps",
    reference: Path | None = None,
    reference_label: str = "reference",
) -> list[Path]:
    """Draw the evaluations, one panel per environment, to `out`.png and `out`.svg.

    Environments that report success have a second panel.

    A line is the mean over seeds, its band the 95 % interval, a thin line one seed. `reference`
    is a CSV file (env, step, mean_return, std_return, seeds), drawn as dashed curves, or as a
    level if it has one step. Environments match by name without the version.
    """
    shown = [curve for curve in curves(runs) if any(len(line.steps) for line in curve.lines)]
    if not shown:
        names = ", ".join(str(run.folder) for run in runs)
        raise UserError(f"Nothing to plot: there are no evaluations yet in {names}.")
    environments = list(dict.fromkeys(curve.environment for curve in shown))
    drawn = [(name, [own for own in shown if own.environment == name]) for name in environments]
    drawn += _success_panels(runs, environments)
    references: dict[str, Reference] = {}
    if reference is not None:
        if x == "hours":
            raise UserError("A reference has no hours: use --reference or --x hours, not both.")
        references = _references(reference, environments)
    styles = _styles(curve.label for curve in shown)
    columns = 2 if len(drawn) == 4 else min(len(drawn), 3)
    rows = -(-len(drawn) // columns)
    width, height = (6.0, 4.0) if len(drawn) == 1 else (3.6 * columns, 2.7 * rows + 0.5)
    lines = sum(1 + _wrap(label, width).count("\n") for label in styles)
    height += 0.18 * max(0, lines // _legend_columns(styles, width) - 2)
    with styled_figure(width, height) as figure:
        panels = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
        for panel, (title, mine) in zip(panels, drawn, strict=False):
            _draw_panel(panel, mine, styles, x, references.get(title))
            panel.set_title(title)
        for panel in panels[len(drawn) :]:
            panel.remove()
        for panel in panels[: len(environments) : columns]:
            panel.set_ylabel("evaluation return")
        ends = {found.steps[0] if len(found.steps) == 1 else None for found in references.values()}
        if len(ends) == 1 and (end := ends.pop()) is not None:
            reference_label += f", after {end:,.0f} steps"
        _legend(figure, shown, styles, reference_label if references else None)
        return save_figure(figure, out)


def _success_panels(
    runs: Sequence[RunSummary], environments: Sequence[str]
) -> list[tuple[str, list[Curve]]]:
    """Title and curves of the success rate, for each environment that reports it."""
    found = [own for own in curves(runs, "successes") if len(own.steps)]
    panels = {name: [own for own in found if own.environment == name] for name in environments}
    return [(f"{name}: success rate", mine) for name, mine in panels.items() if mine]


def _styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A colour for each name; after seven names, other dashes."""
    return {
        name: {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i // 7 % len(DASHES)]}
        for i, name in enumerate(dict.fromkeys(names))
    }


def _legend_columns(names: Collection[str], width: float) -> int:
    """The number of legend entries that fit side by side."""
    longest = LETTER * max(len(name) for name in names) + 1.3
    return max(1, min(len(names), 4, int(width / longest)))


def _wrap(name: str, width: float) -> str:
    """A legend entry, wrapped to the width of the figure."""
    return textwrap.fill(name, int((width - 0.7) / LETTER))


def _draw_panel(
    panel: Axes,
    shown: Sequence[Curve],
    styles: dict[str, dict[str, Any]],
    x: XAxis,
    reference: Reference | None,
) -> None:
    scale, unit = 1.0, "environment steps"
    ends = [line.x(x)[-1] for curve in shown for line in curve.lines if len(line.steps)]
    if x == "hours":
        scale, unit = (1.0, "hours") if max(ends) >= 1 else (60.0, "minutes")
        unit = f"wall time ({unit})"
    if reference is not None:
        # Points after our own last step would squeeze our curves into a corner.
        seen = reference.along(max(ends))
        low, high = seen.mean - seen.error, seen.mean + seen.error
        panel.fill_between(seen.steps, low, high, color="0.5", alpha=0.12, linewidth=0)
        panel.plot(seen.steps, seen.mean, **REFERENCE)
    for curve in shown:
        colour, seeds = styles[curve.label]["color"], len(curve.values)
        for line in curve.lines if seeds > 1 else ():
            _thin(panel, line.x(x) * scale, line.returns, colour, seeds)
        for line in curve.lines:
            if line.frozen is not None and len(line.steps):
                end = (line.x(x)[-1:] * scale, line.returns[-1:])
                panel.plot(*end, color=colour, linestyle="", marker="x", zorder=3)
        at = curve.x(x) * scale
        faint = min(0.2, 0.5 / len(shown))  # bands of many curves overlap
        panel.fill_between(at, curve.low, curve.high, color=colour, alpha=faint, linewidth=0)
        marker = "o" if len(at) < FEW_POINTS else ""
        panel.plot(at, curve.mean, **styles[curve.label], linewidth=1.8, marker=marker, zorder=3)
    _keep_lines_large(panel)
    panel.set_xlabel(unit)
    number_axes(panel, short_x=x == "steps")


def _keep_lines_large(panel: Axes) -> None:
    """Limit the y axis to the lines if bands are much wider, as those of two seeds are."""
    drawn = np.concatenate([line.get_ydata() for line in panel.lines])
    low, high = float(np.nanmin(drawn)), float(np.nanmax(drawn))
    bottom, top = panel.get_ylim()
    if high > low:
        panel.set_ylim(max(bottom, 1.5 * low - 0.5 * high), min(top, 1.5 * high - 0.5 * low))


def _thin(panel: Axes, x: Floats | Steps, values: Floats, colour: str, lines: int) -> None:
    """Draw one seed; more seeds are drawn fainter, and all of them below the means."""
    alpha = min(0.3, max(0.06, 2.5 / lines))
    panel.plot(x, values, color=colour, alpha=alpha, linewidth=0.6, zorder=1.5)


def _legend(
    figure: Figure,
    shown: Sequence[Curve],
    styles: dict[str, dict[str, Any]],
    reference_label: str | None,
) -> None:
    entries = {}
    for label, style in styles.items():
        mine = [curve for curve in shown if curve.label == label]
        seeds = {len(curve.values) for curve in mine}
        count = f"{min(seeds)}" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
        text = f"{count} {'seed' if seeds == {1} else 'seeds'}"
        frozen = sum(line.frozen is not None for curve in mine for line in curve.lines)
        text += f", {frozen} diverged: ×" if frozen else ""
        entries[f"{label} ({text})"] = {**style, "linewidth": 1.8}
    if reference_label is not None:
        entries[reference_label] = REFERENCE
    several = any(len(curve.values) > 1 for curve in shown)
    _legend_below(
        figure, entries, "mean over seeds, 95 % interval; thin: each seed" if several else None
    )


def _legend_below(
    figure: Figure, entries: dict[str, dict[str, Any]], title: str | None = None
) -> None:
    """One legend for all panels, below them."""
    from matplotlib.lines import Line2D

    width = figure.get_figwidth()
    legend = figure.legend(
        handles=[
            Line2D([], [], **style, label=_wrap(text, width)) for text, style in entries.items()
        ],
        loc="outside lower center",
        ncols=_legend_columns(entries, width),
        title=title,
    )
    legend.get_title().set_color("#777777")


def _references(path: Path, environments: Sequence[str]) -> dict[str, Reference]:
    """The curves of the file by environment."""
    known = read_reference(path)
    found = {task: curve for task in environments if (curve := matching(known, task))}
    if not found:
        wanted, offered = ", ".join(environments), ", ".join(known)
        raise UserError(f"{path} has no curve for {wanted}; it has {offered}.")
    return found


TRAINING = {  # key of the records → title, anchor in the glossary
    "episode_return": ("episode return (with exploration)", "episode-return"),
    "q": ("mean Q", "q"),
    "critic_loss": ("critic loss", "critic-loss"),
    "saturated": ("share of saturated actions", "saturated-actions"),
}


def plot_training(run: RunSummary, out: Path) -> list[Path]:
    """Draw what the run logged while learning to `out`.png and `out`.svg."""
    (names,) = labels([run])
    styles = _styles(names.values())
    titles = {key: title for key, (title, _) in TRAINING.items()}
    titles |= {key: key.partition(".")[2] for key in run.reported}
    rows = -(-len(titles) // 2)
    with styled_figure(7.2, 2.4 * rows + 0.18 * (len(styles) // 2)) as figure:
        panels = figure.subplots(rows, 2, sharex=True).flatten().tolist()
        for panel, (key, title) in zip(panels, titles.items(), strict=False):
            _draw_training(panel, run, key, names, styles)
            panel.set_title(title)
            number_axes(panel)
        panels[3].set_ylim(bottom=0)
        for panel in panels[-2:]:
            panel.set_xlabel("environment steps")
        for panel in panels[len(titles) :]:
            panel.remove()
        if len(styles) > 1:
            _legend_below(figure, styles)
        return save_figure(figure, out)


def _draw_training(
    panel: Axes, run: RunSummary, key: str, names: dict[int, str], styles: dict[str, dict[str, Any]]
) -> None:
    """Draw one quantity: a thin line for each agent, a thick one for the mean of each setting."""
    drawn: list[Floats] = []
    for name, style in styles.items():
        agents = [agent for agent, own in names.items() if own == name]
        lines = [line for agent in agents if len((line := run.logged(key, agent))[0])]
        for steps, values in lines if len(lines) > 1 else ():
            _thin(panel, steps, values, style["color"], len(lines))
        shared, rows = align(lines)
        if len(shared):
            marker = "o" if len(shared) < FEW_POINTS else ""
            panel.plot(shared, rows.mean(axis=0), **style, linewidth=1.1, marker=marker)
        drawn += [values for _, values in lines]
    if not drawn:
        middle: Any = {"transform": panel.transAxes, "ha": "center", "va": "center"}
        panel.text(0.5, 0.5, "none yet", color="#777777", **middle)
    elif key == "critic_loss" and all((values > 0).all() for values in drawn):
        panel.set_yscale("log")


def number_axes(panel: Axes, short_x: bool = True) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator, NullFormatter, StrMethodFormatter

    plain = StrMethodFormatter("{x:,.10g}")
    panel.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10], integer=short_x))
    panel.xaxis.set_major_formatter(EngFormatter(sep="") if short_x else plain)  # 100k, 1M
    panel.yaxis.set_major_formatter(plain)
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.margins(x=0.01)


@contextmanager
def styled_figure(width: float, height: float) -> Iterator[Figure]:
    """A figure in our style, without pyplot, which keeps figures and may need a display."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError("Plots need matplotlib: pip install 'td3[plot]'") from error
    with matplotlib.rc_context(fname=STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, out: Path) -> list[Path]:
    """Write `out`.png and `out`.svg; the same runs give the same bytes."""
    # with_suffix would replace the ".5" of "td3-v1.5".
    png, svg = (out.parent / f"{out.name}.{kind}" for kind in ("png", "svg"))
    check_output(png)
    check_output(svg)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(png, dpi=200)
    figure.savefig(svg, metadata={"Date": None})
    return [png, svg]
