"""What the studio knows of runs: status, results, changes while it looks, damage."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.studio import add_record, ask, make_folder, rows, training

from benchmarks.studio import write_run
from td3.report.page import table
from td3.report.summary import read_run
from td3.studio import index, tail
from td3.studio.columns import Columns, thin
from td3.studio.live_run import LiveRun
from td3.studio.site import Studio


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("studio") / "runs")


@pytest.fixture
def studio(folder: Path) -> Studio:
    return Studio(folder)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of its own, to change."""
    write_run(tmp_path / "runs" / "run", steps=20_000, end="")
    return tmp_path / "runs" / "run"


def test_list_states_progress_and_results_of_every_run(folder: Path, studio: Studio) -> None:
    with training(folder / "running"):
        found = rows(studio)
    statuses = {key: row["status"] for key, row in found.items()}
    assert statuses == {
        "finished": "finished",
        "killed": "killed",
        "running": "running",
        "sweep/grid": "finished",
        "corrupt": "corrupt",
    }
    assert (found["running"]["steps"], found["running"]["asked"]) == (20_000, 1_000_000)
    assert found["running"]["left"] == pytest.approx(980_000 / found["running"]["speed"])
    assert found["finished"]["left"] is None
    assert (found["sweep/grid"]["grid"], found["sweep/grid"]["agents"]) == (2, 4)
    assert "config.toml" in found["corrupt"]["problem"]
    assert ask(studio, "runs")["studies"] == ["tune-hopper"]


def test_list_results_equal_those_of_td3_report(folder: Path, studio: Studio) -> None:
    found = rows(studio)
    for key in ("finished", "sweep/grid", "killed"):
        groups = [row for row in table([read_run(folder / key)]) if row["kind"] == "group"]
        best = max(groups, key=lambda row: row["best"])
        assert found[key]["best"] == pytest.approx(best["best"], rel=1e-12)
        assert found[key]["best_step"] == best["best_step"]
        assert found[key]["last_ten"] == pytest.approx(best["last_ten"], rel=1e-12)


def test_list_answers_only_what_changed(run: Path) -> None:
    studio = Studio(run.parent)
    write_run(run.parent / "other", steps=20_000, number=5)
    rows(studio)
    version = ask(studio, "runs")["version"]
    assert ask(studio, "runs", since=str(version))["rows"] == []
    add_record(run, 21_000)
    studio.index.next_look = studio.index.next_quiet_look = 0.0
    (changed,) = ask(studio, "runs", since=str(version))["rows"]
    assert (changed["id"], changed["steps"]) == ("run", 21_000)


def test_index_that_runs_out_of_time_continues_with_the_next_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "BUDGET", -1.0)
    studio = Studio(folder)
    first = ask(studio, "runs")
    assert len(first["rows"]) == 5
    assert sum(row["reading"] for row in first["rows"]) >= 4
    assert rows(studio)["finished"]["best"] > 0


def test_run_deleted_and_copied_while_the_studio_looks(run: Path) -> None:
    studio = Studio(run.parent)
    rows(studio)
    version = ask(studio, "runs")["version"]
    shutil.copytree(run, run.parent / "copy")
    assert rows(studio).keys() == {"run", "copy"}
    shutil.rmtree(run)
    assert rows(studio).keys() == {"copy"}
    assert ask(studio, "runs", since=str(version))["gone"] == ["run"]
    for name in ("run", "series", "episodes", "units"):
        assert ask(studio, name, run="run") is None
    assert ask(studio, "compare", runs=["run", "copy"])["curves"][0]["runs"] == ["copy"]


def test_record_that_is_half_written_counts_when_it_is_complete(run: Path) -> None:
    studio = Studio(run.parent)
    before = rows(studio)["run"]
    line = '{"kind": "evaluation", "step": 25000, "agent": 0, "seed": 0, "mean_return": 9e9}\n'
    with (run / "metrics.jsonl").open("a") as file:
        file.write(line[:40])
    assert rows(studio)["run"]["best"] == before["best"]
    with (run / "metrics.jsonl").open("a") as file:
        file.write(line[40:])
    row = rows(studio)["run"]
    assert (row["best"], row["damaged"]) == (9e9, 0)


def test_resume_from_an_earlier_step_replaces_later_records(run: Path) -> None:
    studio = Studio(run.parent)
    whole = ask(studio, "series", run="run", metrics=["q"], agents="0")
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run / "metrics.jsonl").write_bytes(b"".join(lines[: len(lines) // 2]))
    rows(studio)
    half = ask(studio, "series", run="run", metrics=["q"], agents="0")
    ends = [own["metrics"]["q"]["lines"][0]["x"][-1] for own in (whole, half)]
    assert ends[1] < ends[0] == 20_000
    assert half["generation"] != whole["generation"]
    add_record(run, 15_000)  # appended again, below the first end
    rows(studio)
    again = ask(studio, "series", run="run", metrics=["q"], agents="0")
    assert again["metrics"]["q"]["lines"][0]["x"][-1] == 15_000


def test_file_replaced_by_another_of_the_same_length_is_read_again(run: Path) -> None:
    studio = Studio(run.parent)
    assert rows(studio)["run"]["best"] < 9e4
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines()
    changed = lines[-1].replace('"mean_return": ', '"mean_return": 9')
    other = "\n".join([*lines[:-1], changed])[: path.stat().st_size - 1] + "\n"
    path.with_suffix(".new").write_text("{}" * 0 + other)
    path.with_suffix(".new").replace(path)
    last = path.stat()
    os.utime(path, ns=(last.st_atime_ns, last.st_mtime_ns + 10**9))
    row = rows(studio)["run"]
    assert row["damaged"] or row["best"] > 9e3


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", b"\xff\x00 no json\n" * 100),
        ("metrics.jsonl", b"[" * 5000 + b"\n"),
        ("metrics.jsonl", b'{"kind": "train", "step": 1e400, "agent": -1}\n[]\n7\n"x"\n'),
        ("metrics.jsonl", b'{"kind": "evaluation", "step": 1, "agent": 0, "mean_return": NaN}\n'),
        ("metrics.jsonl", b'{"kind": "evaluation", "a": "' + b"x" * 3_000_000 + b'"}\n'),
        ("events.jsonl", b'{"event": {"a": 1}, "time": "x", "step": []}\n{"event": "start"}\n'),
        ("events.jsonl", b'{"event": "warning", "message": {"<b>": [NaN, Infinity]}}\n'),
        ("config.toml", b"\xff\xfe"),
        ("config.toml", b'seeds = 99999999999\n[environment]\nid = "x"\n'),
        ("config.toml", b"[environment]\nid = 3\n"),
        ("config.toml", b'grid = 4\n[environment]\nid = "x"\n'),
        ("config.toml", b'variant = 4\nloop = 3\n[environment]\nid = "x"\nkwargs = 7\n'),
        ("config.toml", b'[environment]\nid = "x"\n[agent]\ntau = nan\n[evaluation]\nx = inf\n'),
        ("config.toml", b'[environment]\nid = "x"\n[grid]\n"agent.tau" = [nan, inf]\n'),
        ("tune.toml", b"[tune]\ntrials = nan\nrungs = inf\n[settings]\n"),
    ],
)
def test_hostile_content_is_shown_as_damage_not_raised(
    run: Path, name: str, content: bytes
) -> None:
    (run / name).write_bytes(content)
    studio = Studio(run.parent)
    rows(studio)
    if name == "tune.toml":
        assert ask(studio, "study", study="run")["trials"] == []
        return
    for page in ("run", "episodes", "units"):
        assert isinstance(ask(studio, page, run="run"), dict | list)
    assert "metrics" in ask(studio, "series", run="run", metrics=["q"], agents="0")
    for page in ("compare", "points"):
        assert isinstance(ask(studio, page, runs=["run"]), dict | list)


def test_links_and_special_files_are_not_read(run: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    write_run(secret, steps=20_000)
    os.symlink(secret, run.parent / "linked")
    (run / "metrics.jsonl").unlink()
    os.symlink(secret / "metrics.jsonl", run / "metrics.jsonl")
    (run / "events.jsonl").unlink()
    os.mkfifo(run / "events.jsonl")
    found = rows(Studio(run.parent))
    assert found.keys() == {"run"}
    assert (found["run"]["steps"], "best" in found["run"]) == (0, False)
    (run / "config.toml").rename(tmp_path / "config.toml")
    os.symlink(tmp_path / "config.toml", run / "config.toml")
    linked = rows(Studio(run.parent))["run"]
    assert (linked["status"], "task" in linked) == ("corrupt", False)


def test_line_longer_than_any_record_is_skipped_and_the_next_one_is_read(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "CHUNK", 2**21)
    path = run / "metrics.jsonl"
    rest = path.read_bytes()
    path.write_bytes(b"x" * 5_000_000 + b"\n" + rest)
    live = LiveRun("run", run)
    live.need_full()
    other = LiveRun("run", run)
    path.write_bytes(rest)
    other.need_full()
    assert live.series[("train", 0)].steps == other.series[("train", 0)].steps


def test_thin_keeps_ends_and_extremes() -> None:
    x = np.arange(10_000.0)
    y = np.sin(x / 500)
    y[[1234, 7777]] = 50, -70
    few, values = thin(x, y, 200)
    assert len(few) <= 202
    assert (few[0], few[-1]) == (0, 9999)
    assert (values.max(), values.min()) == (50, -70)
    assert np.array_equal(y[few.astype(int)], values)


def test_columns_missing_and_late_numbers_stay_at_their_steps() -> None:
    columns = Columns()
    columns.add(1, {"a": 1.0, "flag": True, "info": {"x": 3, "bad": "y"}})
    columns.add(2, {"b": 5})
    columns.add(3, {"a": float("inf"), "b": 6, "info": {"x": 4}})
    assert columns.values.keys() == {"a", "b", "info.x"}
    assert columns.known("a")[0].tolist() == [1]
    assert columns.known("b")[1].tolist() == [5, 6]
    assert columns.known("info.x")[0].tolist() == [1, 3]


def test_series_zoom_shows_every_point_of_a_small_range(folder: Path, studio: Studio) -> None:
    query: dict[str, Any] = {"run": "finished", "metrics": ["q"], "agents": "0,2", "points": "8"}
    far = ask(studio, "series", **query)["metrics"]["q"]
    near = ask(studio, "series", **query, **{"from": "10000", "to": "14000"})["metrics"]["q"]
    assert [line["agent"] for line in near["lines"]] == [0, 2]
    assert len(far["lines"][0]["x"]) <= 10
    assert near["lines"][0]["x"][1:-1] == [10_000, 11_000, 12_000, 13_000, 14_000]
    mean = np.mean([line["y"] for line in near["lines"]], axis=0)
    assert near["mean"]["y"] == pytest.approx(mean.tolist(), rel=1e-6)


def test_run_files_are_not_changed(run: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in run.parent.rglob("*")
        }

    before = state()
    studio = Studio(run.parent)
    rows(studio)
    for page in ("run", "series", "episodes", "units"):
        ask(studio, page, run="run", metrics=["q"], agents="0", agent="0")
    assert state() == before


def test_answers_have_no_nan(folder: Path, studio: Studio) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    rows(studio)
    for name, query in (
        ("run", {"run": "finished"}),
        ("compare", {"runs": '["finished", "killed"]', "x": "hours"}),
        ("points", {"runs": '["sweep/grid"]'}),
        ("study", {"study": "tune-hopper"}),
    ):
        content = studio.find(f"api/{name}.json", query)
        assert content is not None
        json.loads(content.body, parse_constant=refuse)
