"""python -m benchmarks scores: returns on the usual scale of five tasks."""

import json
from pathlib import Path

import pytest

from benchmarks.td3_bench.joined import join_runs
from benchmarks.td3_bench.scores import REFERENCE, scores_table
from benchmarks.td3_bench.scores_page import write_page
from td3.config.toml import read_toml
from td3.errors import UserError


def store(folder: Path, part: str, task: str, returns: dict[int, list[float]]) -> None:
    """A stored run: step → the return of each seed."""
    run = folder / "raw" / part / task
    run.mkdir(parents=True)
    seeds = len(next(iter(returns.values())))
    (run / "config.toml").write_text(f"seed = 0\nseeds = {seeds}\n[environment]\nid = '{task}'\n")
    records = [
        {"kind": "evaluation", "agent": k, "seed": k, "step": step, "mean_return": value}
        | {"std_return": 1.0}
        for step, values in returns.items()
        for k, value in enumerate(values)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    join_runs([run], folder / "out" / part / task)


def rows(table: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {line[0].strip(): [cell.strip() for cell in line] for line in lines}


def test_scores_of_the_reference_returns_are_zero_and_one(tmp_path: Path) -> None:
    reference = read_toml(REFERENCE)
    for task in reference["td3"]:
        ends = {0: [reference["random"][task]] * 2, 20: [reference["td3"][task]] * 2}
        store(tmp_path, "base", f"{task}-v4", ends)
    found = rows(scores_table(tmp_path / "out", 0))
    assert found["base"][6] == "1.00 (1.00 to 1.00)"
    assert found["part"][1:6] == ["HalfCheetah", "Hopper", "Walker2d", "Ant", "Humanoid"]


def test_scores_differences_to_base_have_an_interval(tmp_path: Path) -> None:
    store(tmp_path, "base", "Hopper-v4", {20: [18.8, 18.8, 18.8]})
    store(tmp_path, "better", "Hopper-v4", {20: [3226.0, 3226.0, 3226.0], 40: [1.0, 1.0, 1.0]})
    found = rows(scores_table(tmp_path / "out", 20))
    assert found["better"] == ["better", "3,226 ± 0", "1.00 (1.00 to 1.00)", "+1.00 (1.00 to 1.00)"]
    with pytest.raises(UserError, match="no evaluations at step 60"):
        scores_table(tmp_path / "out", 60)


def test_scores_of_published_methods_equal_their_published_scores(tmp_path: Path) -> None:
    store(tmp_path, "base", "Hopper-v4", {1_000_000: [3226.0, 3226.0]})
    found = rows(scores_table(tmp_path / "out"))
    for name, own in read_toml(REFERENCE)["published"].items():
        row = found[f"{name}, published"]
        if "at" in own:
            assert row[2] == f"{own['at']['1000000']:.2f} (five tasks)"
    assert found["TD7, published"][2] == "1.57 (five tasks)"


def test_scores_of_a_folder_without_runs_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no stored runs"):
        scores_table(tmp_path)


def test_page_has_the_table_and_figures_of_every_part(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    store(tmp_path, "base", "Hopper-v4", {0: [18.8, 18.8], 20: [3000.0, 3226.0]})
    store(tmp_path, "no-norm", "Hopper-v4", {0: [18.8, 18.8], 20: [1000.0, 2000.0]})
    page = tmp_path / "page" / "ablation.md"
    files = write_page(tmp_path / "out", page)
    assert scores_table(tmp_path / "out") in page.read_text()
    for name in ("ablation-scores.svg", "ablation-curves.svg"):
        assert f"]({name})" in page.read_text()
        figure = page.with_name(name)
        assert figure in files
    with pytest.raises(UserError, match="no evaluations at step 7"):
        write_page(tmp_path / "out", page, 7)
