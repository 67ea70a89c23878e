"""Terminal tables of 'python -m benchmarks peers' and 'python -m benchmarks scaling'."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.td3_bench.peers import OURS
from benchmarks.td3_bench.peers.comparison import Comparison
from benchmarks.td3_bench.scaling import AXES, Point, Scaling
from td3.bench.measure import Figure
from td3.text import number


def print_comparison(comparison: Comparison) -> None:
    """Print steps per second at each thread count, the speed-ups, and what is missing."""
    counts = comparison.settings["threads"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for threads in counts:
        table.add_column(f"steps/s, threads: {threads}", justify="right")
    table.add_column(f"speed-up of {OURS}", justify="right")
    notes = []
    for name, result in comparison.results.items():
        label = f"{name} {result.version}".strip()
        if result.missing:
            notes.append(f"[yellow]![/yellow] {label}: {escape(result.missing)}")
            continue
        cells = [
            format_figure(result.figure(threads), bold=threads == result.best_threads)
            for threads in counts
        ]
        ratio = comparison.figures.get(f"{OURS}_over_{name}_better")
        table.add_row(label, *cells, format_figure(ratio, bold=True) if ratio else "")
    if len(counts) > 1:
        notes.append("[dim]bold: best thread count, used for the speed-up[/dim]")
    console = Console(highlight=False, soft_wrap=True)
    for part in (table, *notes):
        console.print(part)


def print_scaling(scaling: Scaling) -> None:
    for name, points in scaling.axes.items():
        Console(highlight=False, soft_wrap=True).print(axis_table(name, points))


def axis_table(name: str, points: list[Point]) -> Table:
    """Return one row of medians per size."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(AXES[name].label)
    measured = next((point.figures for point in points if point.figures), {})
    for figure in measured:
        table.add_column(figure.replace("_", " "), justify="right")
    for point in points:
        cells = [number(figure.quartiles[1]) for figure in point.figures.values()]
        table.add_row(str(point.size), *(cells or [f"[yellow]{escape(point.left_out)}[/yellow]"]))
    return table


def format_figure(figure: Figure, bold: bool = False) -> str:
    lower, median, upper = map(number, figure.quartiles)
    return f"{f'[bold]{median}[/bold]' if bold else median} [dim]({lower} – {upper})[/dim]"
