"""The numbers of the charts of one run, thinned to what a screen can show."""

from typing import Any

import numpy as np

from td3.intervals import mean_interval
from td3.report.curves import align
from td3.report.summary import Floats, Steps
from td3.studio.columns import Columns, thin
from td3.studio.live_run import LiveRun

MOST_AGENTS = 64
MOST_POINTS = 4000
MOST_METRICS = 100


def lines(
    run: LiveRun, names: list[str], agents: list[int], view: tuple[float, float], points: int
) -> dict[str, Any]:
    """Metric → its lines: one per agent as {agent, x, y}, and mean and interval over agents.

    The generation changes if points that were sent before are void.

    Args:
        run: The run, fully read.
        names: Metrics, `steps_per_second` included.
        agents: Which agents.
        view: First and last step.
        points: About how many points a line may have.
    """
    points = max(4, min(points, MOST_POINTS))
    with run.lock:
        found = {
            name: metric(run, name, agents[:MOST_AGENTS], view, points)
            for name in names[:MOST_METRICS]
        }
        return {"generation": run.generation, "metrics": found}


def metric(
    run: LiveRun, name: str, agents: list[int], view: tuple[float, float], points: int
) -> dict[str, Any]:
    if name == "steps_per_second":
        own = visible(*run.progress.known("speed"), view)
        return {"lines": [line(None, *own, points)], "mean": None}
    found = {}
    for agent in agents:
        columns = columns_of(run, name, agent)
        if columns is not None:
            found[agent] = visible(*columns.known(name), view)
    together = [own for own in found.values() if len(own[0])]
    return {
        "lines": [line(agent, *own, points) for agent, own in found.items()],
        "mean": band(together, points) if len(together) > 1 else None,
    }


def columns_of(run: LiveRun, name: str, agent: int) -> Columns | None:
    """The records that have this metric."""
    for kind in ("evaluation", "train"):
        columns = run.series.get((kind, agent))
        if columns is not None and name in columns.values:
            return columns
    return None


def visible(steps: Steps, values: Floats, view: tuple[float, float]) -> tuple[Floats, Floats]:
    """The points in a range of steps, and one more at each side."""
    first = max(0, int(np.searchsorted(steps, view[0])) - 1)
    last = int(np.searchsorted(steps, view[1], side="right")) + 1
    return steps[first:last].astype(np.float64), values[first:last]


def line(agent: int | None, x: Floats, y: Floats, points: int) -> dict[str, Any]:
    return {"agent": agent, **xy(*thin(x, y, points))}


def xy(x: Floats, y: Floats) -> dict[str, list[float | None]]:
    return {"x": x.tolist(), "y": listed(y)}


def band(found: list[tuple[Floats, Floats]], points: int) -> dict[str, Any]:
    """Mean and 95 % interval where all lines have a point."""
    steps, values = align([(x.astype(np.int64), y) for x, y in found])
    picked = np.arange(len(steps))
    if len(steps) > points:
        picked = np.unique(np.linspace(0, len(steps) - 1, points).astype(int))
    values = values[:, picked]
    low, high = mean_interval(values) if len(picked) else (np.empty(0), np.empty(0))
    return {
        **xy(steps[picked].astype(np.float64), values.mean(axis=0)),
        "low": listed(low),
        "high": listed(high),
    }


def listed(values: Floats) -> list[float | None]:
    """Numbers with seven digits, as JSON can hold them."""
    return [float(f"{v:.7g}") if abs(v) < 1e300 else None for v in values.tolist()]


def episodes(run: LiveRun, agent: int) -> list[dict[str, Any]]:
    """The evaluations of an agent with the return and length of each episode; newest last."""
    with run.lock:
        return list(run.episodes.get(agent, ()))
