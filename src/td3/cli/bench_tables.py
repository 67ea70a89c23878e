"""What 'td3 bench peers' and 'td3 bench scaling' show."""

from rich import box
from rich.markup import escape
from rich.table import Table

from td3.bench.measure import Figure
from td3.bench.peers import OURS
from td3.bench.peers.contest import Contest
from td3.bench.scaling import AXES, Point
from td3.cli.bench import count, number


def contest(benchmark: Contest) -> list[Table | str]:
    """Steps per second at each thread count and the ratio at the better one; then who is absent."""
    settings = benchmark.settings
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    result.add_column(f"{count(settings['rounds'], 'round')} of {settings['seconds']:g} s")
    for threads in settings["threads"]:
        result.add_column(f"steps/s, {count(threads, 'thread')}", justify="right")
    result.add_column(f"{OURS} ÷ it", justify="right")
    absent: list[Table | str] = []
    for name, entry in benchmark.results.items():
        label = f"{name} {entry.version}".strip()
        if entry.absent:
            absent.append(f"[yellow]![/yellow] {label}: {escape(entry.absent)}")
            continue
        cells = [
            spread(entry.figure(threads), bold=threads == entry.better)
            for threads in settings["threads"]
        ]
        ratio = benchmark.figures.get(f"{OURS}_over_{name}_better")
        result.add_row(label, *cells, spread(ratio, bold=True) if ratio else "")
    if len(settings["threads"]) > 1:
        absent.append(f"[dim]bold: the better thread count, of which {OURS} ÷ it is made[/dim]")
    return [result, *absent]


def axis(name: str, points: list[Point]) -> Table:
    """A row for every size, with medians."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    result.add_column(AXES[name].label)
    measured = next((point.figures for point in points if point.figures), {})
    for figure in measured:
        result.add_column(figure.replace("_", " "), justify="right")
    for point in points:
        cells = [number(figure.quartiles[1]) for figure in point.figures.values()]
        result.add_row(str(point.size), *(cells or [f"[yellow]{escape(point.left_out)}[/yellow]"]))
    return result


def spread(figure: Figure, bold: bool = False) -> str:
    lower, median, upper = figure.quartiles
    shown = f"[bold]{number(median)}[/bold]" if bold else number(median)
    return f"{shown} [dim]({number(lower)} – {number(upper)})[/dim]"
