"""docs/performance.md matches the stored results."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.td3_bench import main
from benchmarks.td3_bench.markdown import BEGIN, END, replace_generated
from benchmarks.td3_bench.performance_page import (
    performance_content,
    read_reports,
    write_performance,
)
from benchmarks.td3_bench.population_table import population_section
from td3.config import read_toml
from td3.errors import UserError

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
REFERENCES = RESULTS.parent / "reference"
PAGE = ROOT / "docs" / "performance.md"


def test_performance_page_is_up_to_date() -> None:
    """If not, run: python -m benchmarks report"""
    text = PAGE.read_text(encoding="utf-8")
    reports = read_reports(RESULTS)
    assert len(reports) >= 2
    published = read_toml(ROOT / "benchmarks" / "reference" / "speed.toml")
    assert replace_generated(text, performance_content(reports, published)) == text
    assert text.count("| `throughput-cpu` |") == 2


def figure(median: float) -> dict[str, Any]:
    return {"median": median, "lower_quartile": median, "upper_quartile": median, "unit": "1/s"}


def stored(kind: str, **more: Any) -> str:
    settings = {"device": "cuda", "threads": 1, "agents": 1, "hidden_sizes": [8], "batch_size": 4}
    report = {
        "benchmark": kind,
        "settings": settings | {"rounds": 3, "seconds": 5.0} | more.pop("settings", {}),
        "figures": {},
        "machine": {"processor": "a processor", "gpu": "a GPU", "cores": "2"},
        "versions": {"torch": "2.13.0"},
        "commit": None,
        "load_average": [0.1, 0.1, 0.1],
        "time": "2026-11-15T10:00:00+0000",
    }
    return json.dumps(report | more)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Write one file of every kind, and one of an unknown kind."""
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    (folder.parent / "reference").mkdir()
    shutil.copy(ROOT / "benchmarks/reference/speed.toml", folder.parent / "reference")
    contestants = {
        "td3": {"version": "1", "uses": "itself", "steps_per_second": {"1": figure(300)}},
        "other": {"version": "2", "uses": "learn", "steps_per_second": {"1": figure(100)}},
        "absent": {"version": "", "uses": "", "absent": "not installed"},
    }
    (folder / "peers-gpu.json").write_text(
        stored(
            "peers",
            settings={"threads": [1]},
            contestants=contestants,
            figures={"td3_over_other_better": figure(3)},
        )
    )
    points = [
        {
            "size": 1,
            "figures": {"updates_per_second": figure(50)}
            | {"products_microseconds_per_agent_update": figure(9)},
        },
        {"size": 2, "left_out": "would take about 99 s"},
    ]
    (folder / "scaling-gpu.json").write_text(stored("scaling", axes={"agents": points}))
    (folder / "workers-gpu.json").write_text(
        stored("workers", figures={"steps_per_second": figure(4321)})
    )
    keys = ("updates_per_second", "frames_per_second_at_most", "sample_over_update")
    picture = {"image": [84, 84, 3], "frame_stack": 3, "precision": "bf16"}
    (folder / "images-gpu.json").write_text(
        stored("images", settings=picture, figures={key: figure(400) for key in keys})
    )
    stepped = {"own_2": figure(100), "workers_2": figure(80), "own_over_workers_2": figure(1.25)}
    (folder / "environments-gpu.json").write_text(
        stored(
            "environments", settings={"workers": {"2": 1}, "environment": "T-v0"}, figures=stepped
        )
    )
    for name in ("update-cpu", "throughput-cpu"):
        shutil.copy(RESULTS / f"{name}.json", folder)
    return folder


def test_performance_page_shows_every_kind_of_result(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "performance.md"
    written = write_performance(results, REFERENCES, page)
    assert [path.name for path in written] == ["performance.md", "scaling.png", "scaling.svg"]
    text = page.read_text(encoding="utf-8")
    assert "| td3 1 | 300 (300 – 300) |  | itself |" in text
    assert "| other 2 | 100 (100 – 100) | 3 (3 – 3) | learn |" in text
    assert "| absent |  |  | not installed |" in text
    assert "| 2 |  |  | would take about 99 s |" in text
    assert "| 2 | 100 (100 – 100) | 80 (80 – 80) | 1 | 1.25 (1.25 – 1.25) |" in text
    assert "## Workers" in text
    assert "| steps per second | 4,321 (4,321 – 4,321) 1/s |" in text
    assert "a GPU" in text
    assert "| LeanRL, compile and CUDA graphs | H100 | 937 | published by its authors |" in text
    ours, theirs = re.findall(r"\| .* 3 stacked images 84 × 84 × 3, .*", text)
    assert ours.startswith("| `images-gpu` | a GPU, bf16 | 3 stacked")
    assert theirs.startswith("| DrQ-v2, published by its authors")
    assert text.count("\n| `") == 3 + 7


def training(kind: str, agents: int, figure_name: str, median: float, **settings: Any) -> Any:
    own = {"agents": agents, "precision": "tf32", **settings}
    figures = {figure_name: figure(median)}
    return json.loads(stored(kind, settings=own, figures=figures))


def test_populations_stand_beside_their_updates_and_tell_what_is_missing() -> None:
    whole, alone = "agent_steps_per_second", "agent_updates_per_second"
    reports = {
        "throughput-64": training("throughput", 64, whole, 30_000),
        "update-64": training("update", 64, alone, 120_000),
        "update-128": training("update", 128, alone, 125_000),
        "update-64-float32": training("update", 64, alone, 1, precision="float32"),
        "update-64-wide": training("update", 64, alone, 2, hidden_sizes=[512]),
        "throughput-cpu": training("throughput", 1, whole, 3, device="cpu"),
    }
    text = population_section(reports)
    assert "a GPU; 8, batch 4:" in text
    assert "| 64 | 30,000 | 120,000 | 25 % | `throughput-64`, `update-64` |" in text
    assert "| 128 | not measured | 125,000 |  | `update-128` |" in text
    assert "Not complete for 1, 10, 32, 128, 256 agents: `benchmarks/gpu.sh FOLDER" in text
    assert "benchmarks/gpu.sh" not in population_section(
        {
            f"{kind}-{agents}": training(kind, agents, name, 5)
            for kind, name in (("throughput", whole), ("update", alone))
            for agents in (1, 10, 32, 64, 128, 256)
        }
    )


def test_update_keeps_the_text_outside_the_marks(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{BEGIN}\nold tables\n{END}\nafter\n", encoding="utf-8")
    write_performance(results, REFERENCES, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old tables" not in text
    write_performance(results, REFERENCES, page)
    assert page.read_text(encoding="utf-8") == text


def test_report_command_writes_the_page(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", "--results", str(results), "--out", str(tmp_path / "page.md")]
    assert main(words) == 0
    assert f"Wrote {tmp_path / 'page.md'}" in capsys.readouterr().out


def test_bad_pages_and_results_raise_one_sentence(results: Path, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("no marks", encoding="utf-8")
    with pytest.raises(UserError, match="the marks are missing"):
        write_performance(results, REFERENCES, tmp_path / "page.md")
    (results / "broken.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="not a stored benchmark"):
        read_reports(results)
    (results / "broken.json").write_text('{"benchmark": "update"}', encoding="utf-8")
    with pytest.raises(UserError, match="not a complete benchmark: 'settings' is missing"):
        read_reports(results)
