"""The page of an experiment: a table of scores, the scores as points, and their curves."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.td3_bench.scores import (
    REFERENCE,
    Scored,
    mean_of_means,
    read_parts,
    score_at,
    scores_table,
    shared_steps,
)
from benchmarks.td3_bench.seed_statistics import bootstrap_interval
from td3.config.toml import read_toml
from td3.errors import UserError
from td3.files import replace_file
from td3.report.plots import COLOURS, save_figure, styled_figure
from td3.report.plots import REFERENCE as LINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = list[tuple[int, Scored]]


def write_page(folder: Path, out: Path, step: int = 0) -> list[Path]:
    """Write `out` (Markdown) and next to it two figures; return all files.

    Args:
        folder: Results of `python -m benchmarks campaign PLAN collect`.
        out: The page to write.
        step: Step of the table and of the points; 0 means the last one that all runs have.
    """
    reference, parts = read_toml(REFERENCE), read_parts(folder)
    steps = shared_steps(parts)
    step = step or steps[-1]
    curves: dict[str, Curve] = {}
    for part, runs in parts.items():
        scored = [(own, score_at(part, runs, own, reference)) for own in steps if own <= step]
        curves[part] = [(own, found) for own, found in scored if found.scores]
    curves = {part: curve for part, curve in curves.items() if curve and curve[-1][0] == step}
    if not curves:
        raise UserError(f"{folder} has no evaluations at step {step:,}.")
    title = f"# {folder.name.removesuffix('-results')}"
    names = [f"{out.stem}-scores", f"{out.stem}-curves"]
    figures = [f"![{name}]({name}.svg)" for name in names]
    text = [title, scores_table(folder, step), *figures]
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, ("\n\n".join(text) + "\n").encode())
    points = plot_points([curve[-1][1] for curve in curves.values()], out.with_name(names[0]))
    return [out, *points, *plot_curves(curves, out.with_name(names[1]))]


def plot_points(found: Sequence[Scored], out: Path) -> list[Path]:
    """Each part's score with its interval, the best on top; a line at the base."""
    ordered = sorted(found, key=lambda one: one.score)
    with styled_figure(6.0, 0.8 + 0.3 * len(ordered)) as figure:
        axes: Axes = figure.subplots()
        for place, one in enumerate(ordered):
            low, high = bootstrap_interval(mean_of_means, one.scores)
            axes.plot([low, high], [place, place], color=COLOURS[0])
            axes.plot([one.score], [place], "o", color=COLOURS[0])
            if one.part == "base":
                axes.axvline(one.score, **LINE)
        axes.set_ylim(-0.5, len(ordered) - 0.5)
        axes.set_yticks(range(len(ordered)), [one.part for one in ordered])
        axes.set_xlabel("score, 95 % bootstrap interval")
        return save_figure(figure, out)


def plot_curves(curves: dict[str, Curve], out: Path) -> list[Path]:
    """Each part's score over the steps."""
    with styled_figure(6.0, 4.2) as figure:
        axes: Axes = figure.subplots()
        for number, (part, curve) in enumerate(curves.items()):
            xs, ys = [step for step, _ in curve], [one.score for _, one in curve]
            style = "-" if number < len(COLOURS) else "--"
            axes.plot(xs, ys, style, color=COLOURS[number % len(COLOURS)], label=part)
        axes.set_xlabel("environment steps")
        axes.set_ylabel("score")
        axes.legend(fontsize="small")
        return save_figure(figure, out)
