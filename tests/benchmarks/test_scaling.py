"""Scaling: the axes, the points that are left out, the figure."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.td3_bench import main, scaling
from benchmarks.td3_bench.scaling import AXES, bench_scaling, sizes_of
from benchmarks.td3_bench.scaling_plot import plot_scaling, points_of
from td3.bench.measure import Figure, Rounds
from td3.config import Config, load_recipe
from td3.errors import UserError

TINY = Rounds(1, 0.01)


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def config() -> Config:
    recipe = load_recipe("quick")
    environment = dataclasses.replace(recipe.environment, id="Pendulum-v1")
    return dataclasses.replace(recipe, environment=environment, device="cpu")


def test_axes_double_from_point_to_point() -> None:
    assert {name: (axis.sizes[0], axis.sizes[-1]) for name, axis in AXES.items()} == {
        "agents": (1, 256),
        "batch": (64, 4096),
        "width": (64, 1024),
        "environments": (1, 32),
    }
    for axis in AXES.values():
        assert [b / a for a, b in zip(axis.sizes, axis.sizes[1:], strict=False)] == [2] * (
            len(axis.sizes) - 1
        )
    assert sizes_of("environments", coarse=True) == (1, 4, 16, 32)


def test_axis_apply_changes_one_setting() -> None:
    start = config()
    assert AXES["agents"].apply(start, 8).seeds == 8
    assert AXES["batch"].apply(start, 8).agent.batch_size == 8
    assert AXES["width"].apply(start, 8).agent.hidden_sizes == (8, 8)
    assert AXES["environments"].apply(start, 8).environment.count == 8
    assert AXES["agents"].apply(start, 8).agent == start.agent


def shorten(monkeypatch: pytest.MonkeyPatch, **sizes: tuple[int, ...]) -> None:
    for name, few in sizes.items():
        monkeypatch.setitem(AXES, name, dataclasses.replace(AXES[name], sizes=few))


def test_bench_scaling_reports_figures_per_point(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, agents=(1, 2), environments=(1, 2))
    found = bench_scaling(config(), ["agents", "environments"], TINY)
    report = json.loads(json.dumps(found.as_dict()))
    assert list(report["axes"]) == ["agents", "environments"]
    two = report["axes"]["agents"][1]
    assert two["size"] == 2
    per_second = two["figures"]["updates_per_second"]["median"]
    assert two["figures"]["agent_updates_per_second"]["median"] == 2 * per_second
    cost = two["figures"]["microseconds_per_agent_update"]["median"]
    assert cost == pytest.approx(1e6 / per_second / 2)
    assert report["axes"]["environments"][1]["figures"]["steps_per_second"]["median"] > 0


def test_bench_scaling_leaves_out_points_that_are_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shorten(monkeypatch, agents=(1, 2, 4, 8))
    clock = iter([0.0, 10.0, 10.0, 40.0])  # the first point takes 10 s, the second 30

    def measure(asked: Config, rounds: Rounds) -> dict[str, Figure]:
        if asked.seeds == 2:
            raise UserError("The replay buffer needs 9 GB.")
        return {"updates_per_second": Figure("1/s", [1.0])}

    monkeypatch.setattr(scaling, "measure_update", measure)
    monkeypatch.setattr(scaling.time, "perf_counter", lambda: next(clock))
    points = bench_scaling(config(), ["agents"], TINY, longest=50).axes["agents"]
    assert [point.left_out for point in points] == [
        "",
        "The replay buffer needs 9 GB",
        "would take about 60 s",
        "would take about 120 s",
    ]
    assert points[1].as_dict() == {"size": 2, "left_out": "The replay buffer needs 9 GB"}


def stored(device: str, seconds: float) -> dict[str, Any]:
    def point(size: int) -> dict[str, Any]:
        values = {
            "updates_per_second": 1 / (seconds * size),
            "products_microseconds_per_agent_update": 1e6 * seconds / 2,
            "steps_per_second": 100 * size,
        }
        return {"size": size, "figures": {key: {"median": v} for key, v in values.items()}}

    points = [*map(point, (1, 2, 4)), {"size": 8, "left_out": "too large"}]
    return {
        "settings": {"device": device, "threads": 1, "agents": 1},
        "machine": {"processor": "a processor", "gpu": "a GPU"},
        "axes": {"agents": points, "environments": points},
    }


def test_plot_scaling_of_two_machines_writes_png_and_svg(tmp_path: Path) -> None:
    reports = [stored("cpu", 0.01), stored("cuda", 0.001)]
    assert points_of(reports[0], "agents")[:2] == ([1, 2, 4], pytest.approx([0.01, 0.02, 0.04]))
    assert points_of(reports[0], "agents")[2] == pytest.approx([0.005, 0.01, 0.02])
    assert points_of(reports[0], "environments")[1] == pytest.approx([0.01] * 3)
    png, svg = plot_scaling(reports, tmp_path / "scaling")
    assert png.read_bytes()[:4] == b"\x89PNG"
    text = svg.read_text(encoding="utf-8")
    assert text.startswith("<?xml")
    with pytest.raises(UserError, match="Nothing to plot"):
        plot_scaling([reports[0] | {"axes": {}}], tmp_path / "none")


def test_scaling_command_writes_table_json_and_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shorten(monkeypatch, batch=(8, 16))
    monkeypatch.chdir(tmp_path)
    words = ["scaling", "Pendulum-v1", "--rounds", "1", "--seconds", "0.01", "--device", "cpu"]
    words += ["--recipe", "quick", "--axes", "batch", "--out", "s.json", "--plot", "s.png"]
    assert main(words) == 0
    assert "batch size" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.json", "s.png", "s.svg"]


def test_scaling_command_without_axes_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "--axes"]) == 2
    assert "Name at least one axis" in capsys.readouterr().err
