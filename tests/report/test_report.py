"""Run folders become curves, tables, figures and a report."""

import builtins
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from td3.cli import main
from td3.cli import plot as plot_command
from td3.cli import report as report_command
from td3.errors import UserError
from td3.report import glossary, plots
from td3.report import page as report
from td3.report.curves import curves
from td3.report.plots import plot
from td3.report.reference import Reference
from td3.report.summary import RunSummary, read_run, read_runs


def evaluation(step: int, value: float, agent: int = 0, seed: int | None = None) -> dict[str, Any]:
    return {
        "kind": "evaluation",
        "step": step,
        "agent": agent,
        "seed": agent if seed is None else seed,
        "mean_return": value,
        "std_return": 1.0,
    }


def training(step: int, agent: int = 0, **values: float | None) -> dict[str, Any]:
    return {"kind": "train", "step": step, "agent": agent, "seed": agent} | values


def make_run(
    folder: Path,
    records: list[dict[str, Any]],
    events: list[dict[str, Any]] | None = None,
    environment: str = "HalfCheetah-v5",
    recipe: str = "paper",
    seeds: int = 1,
    batch_size: int = 256,
) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        f'recipe = "{recipe}"\nseed = 0\nseeds = {seeds}\n'
        f"[environment]\nid = {json.dumps(environment)}\n"
        f"[agent]\nbatch_size = {batch_size}\n[loop]\nsteps = 30_000\n"
    )
    for name, lines in (("metrics", records), ("events", events or [])):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)
    return folder


def curve_of(values: list[float], agent: int = 0) -> list[dict[str, Any]]:
    return [evaluation(5000 * (i + 1), value, agent) for i, value in enumerate(values)]


def seed_nine(values: list[float]) -> list[dict[str, Any]]:
    return [{**record, "seed": 9} for record in curve_of(values)]


def test_curves_seed_in_two_runs_counts_once(tmp_path: Path) -> None:
    long = make_run(tmp_path / "long", curve_of([1.0, 2.0, 3.0]))
    copy = make_run(tmp_path / "copy", curve_of([1.0, 2.0]))
    other = make_run(tmp_path / "other", seed_nine([5.0, 6.0, 7.0]))
    (curve,) = curves(read_runs([copy, long, other]))
    assert sorted(line.seed for line in curve.lines) == [0, 9]
    assert curve.mean.tolist() == [3.0, 4.0, 5.0]


def test_curves_one_seed_has_no_interval(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "a", curve_of([1.0, 3.0, 2.0])))
    (curve,) = curves([run])
    np.testing.assert_array_equal(curve.low, [1.0, 3.0, 2.0])
    np.testing.assert_array_equal(curve.high, curve.mean)
    assert report.interval_text(report.table([run])[0], "last") == "2"


def test_curves_mean_ends_with_shortest_seed(tmp_path: Path) -> None:
    long = make_run(tmp_path / "long", curve_of([1.0, 2.0, 3.0, 100.0]))
    short = make_run(tmp_path / "short", seed_nine([3.0, 4.0, 5.0]))
    (curve,) = curves(read_runs([long, short]))
    assert curve.steps.tolist() == [5000, 10_000, 15_000]
    assert curve.mean.tolist() == [2.0, 3.0, 4.0]
    assert [len(line.steps) for line in curve.lines] == [4, 3]
    group = report.table(read_runs([long, short]))[0]
    assert (group["kind"], group["seeds"], group["steps"], group["last"]) == ("group", 2, 15_000, 4)


def test_curves_different_evaluation_steps_use_common_steps(tmp_path: Path) -> None:
    often = make_run(tmp_path / "often", curve_of([1.0, 2.0, 3.0, 4.0]))
    records = [evaluation(10_000, 4.0, seed=9), evaluation(20_000, 8.0, seed=9)]
    seldom = make_run(tmp_path / "seldom", records)
    (curve,) = curves(read_runs([often, seldom]))
    assert curve.steps.tolist() == [10_000, 20_000]
    assert curve.mean.tolist() == [3.0, 6.0]


def test_curves_group_seeds_of_several_runs(tmp_path: Path) -> None:
    both = make_run(tmp_path / "both", curve_of([1.0], 0) + curve_of([2.0], 1), seeds=2)
    single = make_run(tmp_path / "single", [evaluation(5000, 6.0, seed=7)])
    other = make_run(tmp_path / "other", curve_of([9.0]), recipe="course")
    found = curves(read_runs([both, single, other, single]))
    assert [(curve.label, len(curve.lines)) for curve in found] == [("paper", 3), ("course", 1)]
    assert [line.seed for line in found[0].lines] == [0, 1, 7]
    assert found[0].mean.tolist() == [3.0]


def test_curves_different_settings_are_separate(tmp_path: Path) -> None:
    small = make_run(tmp_path / "small", curve_of([1.0]))
    large = make_run(tmp_path / "large", curve_of([2.0]), batch_size=512)
    found = curves(read_runs([small, large]))
    assert [curve.label for curve in found] == ["paper, batch_size 256", "paper, batch_size 512"]


def test_plot_long_label_stays_within_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = "a recipe with a name as long as a sentence, or two of them, one after the other, " * 3
    run = read_run(make_run(tmp_path / "a", curve_of([1.0, 3.0, 2.0]), recipe=recipe))
    seen = []

    def measure(figure: Figure, out: Path) -> list[Path]:
        figure.canvas.draw()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        seen.append((box.x0 >= 0, box.x1 <= figure.bbox.width, figure.axes[0].bbox.height > 150))
        return [out]

    monkeypatch.setattr(plots, "save_figure", measure)
    plot([run], tmp_path / "out")
    assert seen == [(True, True, True)]


def make_grid(folder: Path, frozen: list[dict[str, Any]] | None = None) -> Path:
    """Two values of tau, two seeds each; agent 3 has fewer evaluations."""
    values = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0]]
    records = [
        {**record, "seed": agent % 2}
        for agent, mine in enumerate(values)
        for record in [*curve_of(mine, agent), training(100, agent, q=float(agent))]
    ]
    make_run(folder, records, frozen, seeds=2)
    with (folder / "config.toml").open("a") as file:
        file.write('[grid]\n"agent.tau" = [0.1, 0.2]\n')
    return folder


FROZEN = {"event": "frozen", "step": 7000, "agent": 3, "seed": 1}


def test_curves_grid_settings_are_separate(tmp_path: Path) -> None:
    (run,) = read_runs([make_grid(tmp_path / "a")])
    found = curves([run])
    assert [curve.label for curve in found] == ["paper, tau 0.1", "paper, tau 0.2"]
    assert [[line.agent for line in curve.lines] for curve in found] == [[0, 1], [2, 3]]
    assert [[line.seed for line in curve.lines] for curve in found] == [[0, 1], [0, 1]]
    assert [curve.mean.tolist() for curve in found] == [[2.0, 3.0], [6.0]]
    rows = report.table([run])
    assert [row["kind"] for row in rows] == ["group", "seed", "seed"] * 2
    assert rows[4]["settings"] == {"agent.tau": 0.2}
    assert "diverged" not in report.results_table(rows)


def test_curves_single_run_joins_grid_curve_of_same_settings(tmp_path: Path) -> None:
    alone = make_run(tmp_path / "alone", seed_nine([8.0, 9.0]))
    text = (alone / "config.toml").read_text()
    (alone / "config.toml").write_text(text.replace("[agent]", "[agent]\ntau = 0.1"))
    found = curves(read_runs([make_grid(tmp_path / "grid"), alone]))
    assert [(c.label, len(c.lines)) for c in found] == [
        ("paper, tau 0.1", 3),
        ("paper, tau 0.2", 2),
    ]


def test_report_marks_diverged_agent(tmp_path: Path) -> None:
    (run,) = read_runs([make_grid(tmp_path / "a", [FROZEN])])
    assert run.frozen == {3: 7000}
    rows = report.table([run])
    assert [row["frozen"] for row in rows] == [None, None, None, 1, None, 7000]
    groups = report.results_table([row for row in rows if row["kind"] == "group"])
    assert "| [diverged at step](#diverged " in groups
    assert groups.endswith("| 1 of 2 |")
    assert report.results_table([row for row in rows if row["kind"] == "seed"]).endswith(
        "| 7,000 |"
    )
    assert report.summary_json([run])["runs"][0]["frozen"] == {3: 7000}
    report.write_report([run], tmp_path / "out")
    page = (tmp_path / "out/report.md").read_text()
    assert "2 seeds × 2 settings = 4 agents" in page
    assert "agent 3 diverged at step 7,000" in page
    figure = (tmp_path / "out/plots/training.svg").read_text()
    assert "tau 0.1" in figure


@pytest.mark.parametrize(
    ("later", "frozen"),
    [
        ([{"event": "resume", "step": 8000}], {3: 7000}),
        ([{"event": "resume", "step": 5000}], {}),
        ([{"event": "resume", "step": 5000}, FROZEN], {3: 7000}),
        ([{"event": "frozen", "step": "?", "agent": [1]}, {"event": "resume"}], {3: 7000}),
        ([{"event": "frozen", "step": 1, "agent": 99}], {3: 7000}),
    ],
)
def test_read_run_resume_from_earlier_step_undoes_divergence(
    later: list[dict[str, Any]], frozen: dict[int, int], tmp_path: Path
) -> None:
    assert read_run(make_grid(tmp_path / "a", [FROZEN, *later])).frozen == frozen


def test_read_run_damaged_grid_is_refused(tmp_path: Path) -> None:
    folder = make_grid(tmp_path / "a")
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace("[0.1, 0.2]", '["x"]'))
    with pytest.raises(UserError, match=r"agent\.tau must be a number, got 'x'\."):
        read_run(folder)


def test_read_run_ignores_incomplete_last_line(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", curve_of([1.0, 2.0]))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "evaluation", "step": 150')
    run = read_run(folder)
    assert run.evaluations[0].steps.tolist() == [5000, 10_000]
    assert run.damaged == 0


def test_read_run_counts_damaged_lines(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", curve_of([1.0]))
    good = (folder / "metrics.jsonl").read_bytes()
    bad = [b"\xff\xfe", b"[1]", b'{"kind": "train"}', b'{"kind":"evaluation","step":9,"agent":0}']
    bad.append(b'{"kind":"evaluation","step":9,"agent":0,"mean_return":NaN}')
    bad.append(b'{"kind":"evaluation","step":' + b"9" * 400 + b',"agent":0,"mean_return":1}')
    (folder / "metrics.jsonl").write_bytes(b"\n".join(bad) + b"\n" + good)
    run = read_run(folder)
    assert run.damaged == len(bad)
    assert run.evaluations[0].mean_returns.tolist() == [1.0]


def test_read_run_after_resume_drops_later_records(tmp_path: Path) -> None:
    records = [*curve_of([1.0, 2.0, 3.0]), evaluation(10_000, 20.0)]
    run = read_run(make_run(tmp_path / "a", records))
    assert run.evaluations[0].mean_returns.tolist() == [1.0, 20.0]


def test_wall_seconds_exclude_pauses(tmp_path: Path) -> None:
    times = [(100, "start", 0), (110, "progress", 1000)]
    times += [(4999, "warning", 500), (5000, "resume", 500)]
    times += [(5010, "progress", 1000), (5020, "progress", 2000), (5025, "stop", 2000)]
    events = [{"time": time, "event": event, "step": step} for time, event, step in times]
    folder = make_run(tmp_path / "a", [training(2000)], events)
    run = read_run(folder)
    assert run.wall_seconds == 35
    assert run.status == "stopped"
    assert run.seconds_at(np.array([0, 500, 1000, 2000])).tolist() == [0, 5, 10, 30]
    assert report.table([run])[1]["steps_per_second"] == pytest.approx(2000 / 35)


def test_table_has_last_best_and_interval(tmp_path: Path) -> None:
    up, down = [float(i) for i in range(12)], [float(20 - i) for i in range(12)]
    folder = make_run(tmp_path / "a", curve_of(up, 0) + curve_of(down, 1), seeds=2)
    group, first, second = report.table([read_run(folder)])
    assert (first["last"], first["last_ten"], first["best"], first["best_step"]) == (
        11,
        6.5,
        11,
        60_000,
    )
    assert (second["last"], second["last_ten"], second["best_step"]) == (9, 13.5, 5000)
    students = 12.7062  # standard errors, of which there is one between 9 and 11
    assert group["last"] == 10
    assert group["last_low"] == pytest.approx(10 - students, rel=1e-5)
    assert group["last_high"] == pytest.approx(10 + students, rel=1e-5)
    assert (group["best"], group["best_step"], group["best_std"]) == (10, 5000, 10)
    lines = report.results_table([first, second]).splitlines()
    assert lines[2] == "| 0 | 60,000 | 11 | 6.5 | 11 | 60,000 |"
    assert lines[3] == "| 1 | 60,000 | 9 | 13.5 | 20 | 5,000 |"
    assert len({line.count("|") for line in lines}) == 1
    (row,) = report.results_table([group]).splitlines()[2:]
    assert row.split("|")[3].strip().replace("\N{NO-BREAK SPACE}", " ") == "10 (-2.706 to 22.71)"


def test_table_last_ten_excludes_evaluation_before_training(tmp_path: Path) -> None:
    before = evaluation(0, -100.0, 0)
    run = read_run(make_run(tmp_path / "a", [before, *curve_of([1.0, 3.0])]))
    assert [row["last_ten"] for row in report.table([run])] == [2.0, 2.0]
    alone = read_run(make_run(tmp_path / "b", [before]))
    assert [row["last_ten"] for row in report.table([alone])] == [-100.0, -100.0]


def test_table_one_seed_has_no_interval(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "a", curve_of([1.0, 3.0], 0)))
    group = report.table([run])[0]
    assert (group["last"], group["last_low"], group["last_high"], group["last_std"]) == (
        3,
        None,
        None,
        None,
    )
    (curve,) = report.summary_json([run])["curves"]
    assert (curve["mean"], curve["low"], curve["high"]) == ([1.0, 3.0], None, None)
    assert report.interval_text(group, "last") == "3"


def test_report_shows_success_and_numbers_of_the_environment(tmp_path: Path) -> None:
    records = [evaluation(step, 1.0) | {"success": step / 100} for step in (10, 50)]
    records += [training(step, q=0.0) | {"info": {"pace": float(step)}} for step in (5, 9)]
    run = read_run(make_run(tmp_path / "run", records))
    assert run.reported == ["info.pace"]
    assert run.logged("info.pace", 0)[1].tolist() == [5.0, 9.0]
    report.write_report([run], tmp_path / "page")
    text = (tmp_path / "page" / "report.md").read_text()
    assert "[pace](#info" in text
    figures = tmp_path / "page" / "plots"
    assert "success rate" in svg_text(figures / "report.svg")
    assert "pace" in svg_text(figures / "training.svg")


def test_plot_without_success_has_one_panel(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", [evaluation(10, 1.0)]))
    plot([run], tmp_path / "figure")
    assert "success rate" not in svg_text(tmp_path / "figure.svg")


def svg_text(path: Path) -> str:
    """What matplotlib wrote; it draws letters as shapes and notes the text in comments."""
    return path.read_text(encoding="utf-8")


def test_curves_runs_from_before_a_setting_existed_share_a_curve(tmp_path: Path) -> None:
    old = make_run(tmp_path / "old", [evaluation(10, 1.0)])
    new = make_run(tmp_path / "new", [evaluation(10, 1.0, seed=1)])
    text = (new / "config.toml").read_text()
    text = text.replace("[agent]", 'max_episode_steps = 0\ninfo = ["x"]\n[agent]')
    (new / "config.toml").write_text(text.replace("seed = 0", "seed = 1"))
    assert [len(curve.lines) for curve in curves(read_runs([old, new]))] == [2]


def test_report_without_evaluations_says_so(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", [training(1000, critic_loss=None, episode_return=-5.0)])
    run = read_run(folder)
    rows = report.table([run])
    assert [row["last"] for row in rows] == [None, None]
    assert rows[1]["steps"] == 1000
    json.dumps(report.summary_json([run]), allow_nan=False)
    with pytest.raises(UserError, match="no evaluations yet"):
        plot([run], tmp_path / "curves")
    _, page = report.write_report([run], tmp_path / "out")
    assert "No evaluations yet." in page.read_text()


def test_report_without_records_says_so(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", [])
    (folder / "metrics.jsonl").unlink()
    (folder / "events.jsonl").unlink()
    run = read_run(folder)
    assert (run.status, run.wall_seconds, list(run.evaluations)) == ("unfinished", None, [0])
    _, page = report.write_report([run], tmp_path / "out")
    assert "no training records yet" in page.read_text()


def test_read_run_not_a_run_folder_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "cheetah-paper", [])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"does not exist.*cheetah-paper'"):
        read_run(tmp_path / "cheeta-paper")
    with pytest.raises(UserError, match=r"no config\.toml"):
        read_run(tmp_path / "empty")
    with pytest.raises(UserError, match="contains runs"):
        read_run(tmp_path)
    with pytest.raises(UserError, match="at least one"):
        read_runs([])
    (tmp_path / "empty" / "config.toml").write_text("seed = 0\n")
    with pytest.raises(UserError, match="has no environment"):
        read_run(tmp_path / "empty")


def two_environments(tmp_path: Path) -> list[RunSummary]:
    records = curve_of([1.0, 2.0, 3.0], 0) + curve_of([2.0, 2.0, 2.0], 1)
    cheetah = make_run(tmp_path / "cheetah", records, seeds=2)
    # matplotlib would parse a formula after a dollar, and fail.
    hostile = make_run(tmp_path / "hostile", records, environment=HOSTILE, seeds=2)
    return read_runs([cheetah, hostile])


HOSTILE = '<script>alert("x")</script> | $\\frac{'


def test_plot_twice_gives_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    runs = two_environments(tmp_path)
    written = plot(runs, tmp_path / "figures" / "v1.5")
    assert [path.name for path in written] == ["v1.5.png", "v1.5.svg"]
    again = plot(runs, tmp_path / "again")
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in again]


def test_plot_reference_matches_name_without_version(tmp_path: Path) -> None:
    csv = tmp_path / "authors.csv"
    rows = [
        f"{name}-v1,{step},{step},10,10" for name in ("Ant", "HalfCheetah") for step in (0, 10_000)
    ]
    csv.write_text("\n".join(["env,step,mean_return,std_return,seeds", *rows]))
    run = read_run(make_run(tmp_path / "a", curve_of([1.0, 2.0])))
    bare = plot([run], tmp_path / "bare")[1].read_text()
    drawn = plot([run], tmp_path / "drawn", reference=csv, reference_label="authors")[1]
    assert "stroke-dasharray" in drawn.read_text()
    assert "stroke-dasharray" not in bare
    hopper = read_run(make_run(tmp_path / "b", curve_of([1.0]), environment="Hopper-v5"))
    with pytest.raises(UserError, match="no curve for Hopper-v5; it has Ant-v1, HalfCheetah-v1"):
        plot([hopper], tmp_path / "no", reference=csv)
    with pytest.raises(UserError, match="no hours"):
        plot([run], tmp_path / "no", x="hours", reference=csv)
    csv.write_text("env,step\nAnt-v1,0\n")
    with pytest.raises(UserError, match="columns"):
        plot([run], tmp_path / "no", reference=csv)


def test_reference_single_point_becomes_level() -> None:
    level = Reference("Ant-v1", np.array([1e6]), np.array([7.0]), np.array([1.0]), 3)
    drawn = level.along(500)
    assert (drawn.steps.tolist(), drawn.mean.tolist()) == ([0, 500], [7, 7])
    assert drawn.error.tolist() == [*level.error, *level.error]
    curve = Reference("Ant-v1", np.array([0, 400.0, 800]), np.arange(3.0), np.ones(3), 3)
    assert curve.along(500).steps.tolist() == [0, 400]


def test_plot_level_names_its_steps(tmp_path: Path) -> None:
    csv = tmp_path / "published.csv"
    rows = ["HalfCheetah-v1,1000000,7,1,3", "Ant-v1,5,7,1,3"]
    csv.write_text("\n".join(["env,step,mean_return,std_return,seeds", *rows]))
    run = read_run(make_run(tmp_path / "a", curve_of([1.0, 2.0])))
    (_, svg) = plot([run], tmp_path / "drawn", reference=csv, reference_label="theirs")
    assert "<!-- theirs, after 1,000,000 steps -->" in svg.read_text()
    csv.write_text(csv.read_text() + "\nAnt-v1,6,8,1,3")
    ant = read_run(make_run(tmp_path / "b", curve_of([1.0, 2.0]), environment="Ant-v5"))
    (_, svg) = plot([run, ant], tmp_path / "mixed", reference=csv, reference_label="theirs")
    assert "<!-- theirs -->" in svg.read_text()


def test_curves_exact_backends_share_a_curve(tmp_path: Path) -> None:
    found = []
    for name, seed, backend in (("a", 1, "auto"), ("b", 9, "workers"), ("c", 7, "envpool")):
        records = [{**record, "seed": seed} for record in curve_of([1.0, 2.0])]
        path = make_run(tmp_path / name, records) / "config.toml"
        text = path.read_text().replace(
            "[agent]", f'vectorization = "{backend}"\nworkers = 1\n[agent]'
        )
        path.write_text(text.replace("workers = 1", f"workers = {seed}"))
        found.append(read_run(path.parent))
    (curve,) = curves(found[:2])
    assert (curve.label, len(curve.lines)) == ("paper", 2)
    assert [(own.label, len(own.lines)) for own in curves(found)] == [
        ("paper, vectorization auto", 2),
        ("paper, vectorization envpool", 1),
    ]


def test_plot_reports_seed_in_several_runs(tmp_path: Path, capsys: Any) -> None:
    folders = [str(make_run(tmp_path / name, curve_of([1.0, 2.0]))) for name in "ab"]
    assert main(["plot", *folders, "--out", str(tmp_path / "both")]) == 0
    assert "A seed in several runs of equal settings counts once" in capsys.readouterr().err
    assert main(["plot", folders[0], "--out", str(tmp_path / "one")]) == 0
    assert capsys.readouterr().err == ""


def test_plot_hours_without_times_is_refused(tmp_path: Path) -> None:
    times = [(0, 0), (60, 5000), (120, 10_000)]
    events = [{"time": time, "event": "progress", "step": step} for time, step in times]
    run = read_run(make_run(tmp_path / "a", curve_of([1.0, 2.0]), events))
    (curve,) = curves([run])
    np.testing.assert_allclose(curve.x("hours"), [1 / 60, 2 / 60])
    assert all(path.stat().st_size for path in plot([run], tmp_path / "c", x="hours"))
    timeless = read_run(make_run(tmp_path / "b", curve_of([1.0])))
    with pytest.raises(UserError, match="no times"):
        plot([timeless], tmp_path / "d", x="hours")


class Page(HTMLParser):
    """Collects tags, ids and addresses, and checks that tags close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: set[str] = set()
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses |= {value or "" for key, value in attrs if key in ("src", "href")}
        self.ids += [value or "" for key, value in attrs if key == "id"]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_html_contains_media_and_escapes_names(tmp_path: Path) -> None:
    runs = two_environments(tmp_path)
    for run, name in zip(runs, ("best.mp4", "best.gif"), strict=True):
        (run.folder / "videos").mkdir()
        (run.folder / "videos" / name).write_bytes(b"film")
    (runs[1].folder / "videos" / "zlink.mp4").symlink_to("/etc/passwd")
    markdown, page_path = report.write_report(runs, tmp_path / "out")
    page = Page(page_path.read_text())
    assert page.open == []
    assert "script" not in page.tags
    assert (page.tags.count("video"), page.tags.count("img")) == (1, 2)
    inner = {address for address in page.addresses if address.startswith("#")}
    assert inner <= {f"#{own}" for own in page.ids}, "a link leads nowhere"
    others = page.addresses - inner
    assert all(own.startswith("data:") or glossary.GUIDE in own for own in others)
    assert "ZmlsbQ==" in page_path.read_text()
    assert "<script" not in markdown.read_text()
    links = re.findall(r"\]\(([^)# ]*)\)", markdown.read_text())
    assert len(links) == 3
    assert all((tmp_path / "out" / link).is_file() for link in links)


def test_report_explains_metrics_offline(tmp_path: Path) -> None:
    records = [*curve_of([1.0]), training(1000, critic_loss=1.0, q=3.0, saturated=0.1)]
    run = read_run(make_run(tmp_path / "a", records))
    _, page = report.write_report([run], tmp_path / "out")
    text = page.read_text()
    for anchor, name in (("critic-loss", "critic loss"), ("best-and-last", "last ten")):
        (found,) = re.findall(rf'<a id="{anchor}"></a><strong>[^<]*</strong> ([^<]*)<', text)
        assert f'<a href="#{anchor}" title="{found.strip()}">{name}</a>' in text


def test_glossary_links_to_guide_only_if_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glossary, "GUIDE", "README.md")
    (first, *_) = glossary.glossary(tmp_path).splitlines()
    (link,) = re.findall(r"\[More\.\]\((.*)#return\)", first)
    assert (tmp_path / link).is_file()
    monkeypatch.setattr(glossary, "GUIDE", "docs/no-such-page.md")
    assert "[More.]" not in glossary.glossary(tmp_path)


def test_report_shows_training_and_differing_settings(tmp_path: Path) -> None:
    losses = [training(step, critic_loss=1.0 + step, q=3.0, saturated=0.1) for step in (1000, 2000)]
    first = make_run(tmp_path / "first", curve_of([1.0]) + losses)
    second = make_run(tmp_path / "second", curve_of([2.0]) + losses, batch_size=512)
    events = first / "events.jsonl"
    events.write_text('{"time": 1, "event": "warning", "message": "actions saturate"}\n')
    markdown, _ = report.write_report(read_runs([first, second]), tmp_path / "out")
    text = markdown.read_text()
    assert "256 (first); 512 (second)" in text
    assert "warning: actions saturate" in text
    assert (tmp_path / "out" / "plots" / "training-2.svg").is_file()


def test_plot_and_report_commands_write_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "a", curve_of([1.0, 2.0]))
    assert plot_command.run(plot_command.Arguments((folder,))) == 0
    assert f"Wrote {folder / 'plots' / 'curves.png'}" in capsys.readouterr().out
    named = plot_command.Arguments((folder,), out=tmp_path / "mine.png", json=True)
    assert plot_command.run(named) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["written"] == [str(tmp_path / "mine.png"), str(tmp_path / "mine.svg")]
    assert printed["curves"][0]["mean"] == [1.0, 2.0]
    assert report_command.run(report_command.Arguments((folder,), json=True)) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["written"] == [str(folder / "report.md"), str(folder / "report.html")]
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Cannot write"):
        report_command.run(report_command.Arguments((folder,), out=tmp_path / "file"))


def test_plot_without_matplotlib_names_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    run = read_run(make_run(tmp_path / "a", curve_of([1.0])))
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=re.escape("pip install 'td3[plot]'")):
        plot([run], tmp_path / "c")


def test_report_import_loads_neither_torch_nor_matplotlib() -> None:
    script = "import sys, td3.report.page; print({'torch', 'matplotlib'} & set(sys.modules))"
    source = str(Path(report.__file__).parents[2])
    found = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "set()"
