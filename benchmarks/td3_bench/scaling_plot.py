"""The figure of 'python -m benchmarks scaling': one panel per axis, one line per machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.td3_bench.markdown import describe_place
from td3.errors import UserError
from td3.report.plots import COLOURS, REFERENCE, save_figure, styled_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Report = dict[str, Any]
PANELS = {
    "agents": ("agents", "number of agents", 1),
    "batch": ("batch size", "batch size", 1),
    "width": ("width", "width of both hidden layers", 2),
    "environments": ("environments, without updates", "number of environments", 1),
}
"""Title, axis label, and the exponent of the cost as a function of the size."""


def plot_scaling(reports: Sequence[Report], out: Path) -> list[Path]:
    """Draw stored results to `out`.png and `out`.svg: time against size, both logarithmic.

    A dashed line through the first point is proportional to the work. Points below it gain from
    parallel execution.
    """
    shown = [name for name in PANELS if any(points_of(report, name)[0] for report in reports)]
    if not shown:
        raise UserError("Nothing to plot: no axis has a measured point.")
    columns = min(len(shown), 2)
    rows = -(-len(shown) // columns)
    width, height = (6.0, 4.2) if len(shown) == 1 else (3.8 * columns, 2.9 * rows + 0.5)
    with styled_figure(width, height) as figure:
        panels = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
        for panel, name in zip(panels, shown, strict=False):
            for position, report in enumerate(reports):
                draw_line(panel, report, name, COLOURS[position % len(COLOURS)])
            label_axes(panel, name, sorted({s for r in reports for s in points_of(r, name)[0]}))
        for panel in panels[len(shown) :]:
            panel.remove()
        add_legend(figure, reports)
        return save_figure(figure, out)


def points_of(report: Report, name: str) -> tuple[list[int], list[float], list[float]]:
    """Return sizes, seconds per update (or step of all environments) and of matrix products."""
    points = [point for point in report["axes"].get(name, []) if "figures" in point]
    sizes = [int(point["size"]) for point in points]
    if name == "environments":
        speeds = [median(point, "steps_per_second") for point in points]
        return sizes, [size / speed for size, speed in zip(sizes, speeds, strict=True)], []
    seconds = [1 / median(point, "updates_per_second") for point in points]
    agents = sizes if name == "agents" else [int(report["settings"]["agents"])] * len(sizes)
    products = [
        1e-6 * count * median(point, "products_microseconds_per_agent_update")
        for point, count in zip(points, agents, strict=True)
    ]
    return sizes, seconds, products


def median(point: dict[str, Any], name: str) -> float:
    return float(point["figures"][name]["median"])


def draw_line(panel: Axes, report: Report, name: str, colour: str) -> None:
    sizes, seconds, products = points_of(report, name)
    if not sizes:
        return
    ends = [sizes[0], sizes[-1]]
    ideal = [seconds[0] * (size / sizes[0]) ** PANELS[name][2] for size in ends]
    panel.plot(ends, [1e3 * second for second in ideal], **{**REFERENCE, "linewidth": 1.0})
    if products:
        panel.plot(
            sizes, [1e3 * s for s in products], color=colour, alpha=0.7, linewidth=1, linestyle=":"
        )
    panel.plot(sizes, [1e3 * s for s in seconds], color=colour, marker="o", markersize=3.5)


def label_axes(panel: Axes, name: str, sizes: list[int]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    title, label, power = PANELS[name]
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_title(title + (" (work grows with the square)" if power == 2 else ""))
    panel.set_xlabel(label)
    panel.set_ylabel(
        "ms per step of all environments" if name == "environments" else "ms per update"
    )
    panel.xaxis.set_major_locator(FixedLocator(sizes))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())


def add_legend(figure: Figure, reports: Sequence[Report]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=COLOURS[k % len(COLOURS)],
            marker="o",
            markersize=3.5,
            label=describe_place(r),
        )
        for k, r in enumerate(reports)
    ]
    handles.append(
        Line2D([], [], color="0.4", linestyle=":", linewidth=1, label="matrix products alone")
    )
    handles.append(Line2D([], [], **REFERENCE, label="proportional to the work"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 2))
