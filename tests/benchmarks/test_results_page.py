"""docs/results.md and the results in README.md: known answers, and missing numbers."""

import json
import re
import shutil
from pathlib import Path

import pytest
from support.stored_results import REFERENCES, ROOT, write_authors, write_stored_run

from benchmarks.td3_bench import main
from benchmarks.td3_bench.markdown import BEGIN, END, replace_generated
from benchmarks.td3_bench.outcomes import (
    elapsed_seconds,
    improvement,
    interquartile_score,
    mean_score,
    read_tasks,
    read_walkers,
)
from benchmarks.td3_bench.plan import Plan
from benchmarks.td3_bench.results_page import (
    PAPER_SETTINGS,
    readme_content,
    results_content,
    write_results,
)
from benchmarks.td3_bench.results_tables import difference_to_authors, returns_row
from td3.errors import UserError


def test_report_without_results_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This is the folder of a plan that has just started."""
    shutil.copytree(REFERENCES, tmp_path / "reference")
    (tmp_path / "results" / "paper" / "policies").mkdir(parents=True)
    words = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "page.md")]
    assert main(["report", *words]) == 2
    assert "results has neither *.json nor paper/. " in capsys.readouterr().err


def test_results_page_lists_tasks_in_the_order_of_the_paper(trained: Plan, tmp_path: Path) -> None:
    page, front = tmp_path / "docs" / "results.md", tmp_path / "README.md"
    written = write_results(trained.results.parent, REFERENCES, page, front)
    assert {path.name for path in written} == {"results.md", "results.png", "results.svg"}
    text = page.read_text(encoding="utf-8")
    assert BEGIN in text
    first, second = (text.index(f"| {task} | 2 |") for task in trained.tasks)
    assert first < second
    assert "published no curves of these tasks at these steps" in text
    assert "every 50, 2 episodes" in text
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="has no results"):
        write_results(tmp_path / "empty", REFERENCES, page, front)


def test_readme_changes_only_between_its_marks(trained: Plan, tmp_path: Path) -> None:
    page, front = tmp_path / "docs" / "results.md", tmp_path / "README.md"
    front.write_text("# Mine\n")
    write_results(trained.results.parent, REFERENCES, page, front)
    assert front.read_text() == "# Mine\n"
    front.write_text(f"# Mine\n{BEGIN}\nold\n{END}\nwords\n")
    assert front in write_results(trained.results.parent, REFERENCES, page, front)
    text = front.read_text(encoding="utf-8")
    assert text.startswith("# Mine\n")
    assert text.endswith(f"{END}\nwords\n")
    assert "old" not in text
    assert all(f"| {task} |" in text for task in trained.tasks)


def test_results_page_and_readme_are_up_to_date() -> None:
    """If not, run: python -m benchmarks report"""
    results = ROOT / "benchmarks" / "results"
    authors = REFERENCES / "td3_authors_curves.csv"
    outcomes, originals = (
        read_tasks(results / name, authors) for name in ("paper", PAPER_SETTINGS)
    )
    others = read_tasks(results / "paper", REFERENCES / "tianshou.csv")
    tables = {
        "docs/results.md": results_content(
            outcomes, others, originals, read_walkers(results, REFERENCES / "pybullet.csv")
        ),
        "README.md": readme_content(outcomes),
    }
    for page, made_now in tables.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        assert replace_generated(text, made_now) == text, page


def test_report_of_another_folder_leaves_the_readme_unchanged(
    trained: Plan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(trained.results, tmp_path / "benchmarks" / "results" / "paper")
    shutil.copytree(trained.results, tmp_path / "mine" / "paper")
    monkeypatch.chdir(tmp_path)
    front = tmp_path / "README.md"
    front.write_text(f"{BEGIN}\nold\n{END}\n")
    assert main(["report"]) == 2
    assert "benchmarks/reference does not exist" in capsys.readouterr().err
    shutil.copytree(REFERENCES, tmp_path / "benchmarks" / "reference")
    assert main(["report", "--out", "mine.md"]) == 0
    assert main(["report", "--results", "mine"]) == 0
    assert main(["report", "--results", "mine/paper"]) == 2
    assert "mine/paper contains tasks; move them to a folder paper" in capsys.readouterr().err
    assert (tmp_path / "mine" / "results.md").is_file()
    assert not (tmp_path / "docs").exists()
    assert "old" in front.read_text()
    assert main(["report", "--results", str(tmp_path / "benchmarks" / "results")]) == 0
    assert "old" not in front.read_text(encoding="utf-8")
    front.write_text(f"{BEGIN}\n")
    with pytest.raises(UserError, match=r"^README.md: the marks are missing"):
        write_results(Path("mine"), REFERENCES, Path("docs/results.md"), Path("README.md"))


def test_walkers_are_compared_with_stable_baselines(tmp_path: Path) -> None:
    task, values = "AntBulletEnv-v0", [[0.0, 3000.0, 2000.0], [0.0, 3200.0, 2200.0]]
    write_stored_run(tmp_path / "paper", "Ant-v5", values)
    write_stored_run(tmp_path / "course", task, values)
    write_stored_run(tmp_path / "bullet", task, values, every=500_000)
    write_stored_run(tmp_path / "bullet", "MyWalker-v0", values)
    page = tmp_path / "docs" / "results.md"
    written = write_results(tmp_path, REFERENCES, page, tmp_path / "README.md")
    assert page.parent / "media" / "walkers.png" in written
    _, text = page.read_text(encoding="utf-8").split("## The course's tasks")
    assert text.count(f"| {task} | ") == 2
    assert "| course | 2 | 10,000 | " in text
    assert text.count("| 2,100 ± 100 | 3,305 ± 74.5 |") == 2
    assert text.count("| 3,305 ± 74.5 |  |") == 1  # no difference after fewer steps
    # Squared errors of 10,000 and 2,775 with 1.57 degrees of freedom.
    assert "| 3,305 ± 74.5 | -1,205 (-1,843 to -567): below |" in text
    assert "| 2,100 ± 100 |  |  |" in text  # no published figure exists for an own task
    assert text.count("| `") == 4


def test_settings_of_the_paper_are_compared_with_current_ones(tmp_path: Path) -> None:
    for name, end, more in (("paper", 100.0, [500.0] * 10), (PAPER_SETTINGS, 4000.0, [])):
        seeds = [[0.0, *[end + seed] * 20, *more] for seed in range(3)]
        write_stored_run(tmp_path / name, "Walker2d-v5", seeds)
    write_stored_run(tmp_path / "paper", "Ant-v5", [[0.0, 1.0], [0.0, 2.0]])
    page = tmp_path / "docs" / "results.md"
    written = write_results(tmp_path, REFERENCES, page, tmp_path / "README.md")
    assert page.parent / "media" / "original.png" in written
    svg = (page.parent / "media" / "original.svg").read_text(encoding="utf-8")
    assert all(word in svg for word in ("Walker2d-v5", "paper (3 seeds)", "original (3 seeds)"))
    assert "Ant-v5" not in svg
    _, text = page.read_text(encoding="utf-8").split("## Settings or code")
    own, circumstances = text.split("## Machines and versions")
    assert "| Walker2d-v5 | 3 | 4,001 ± 0.816 |" in own
    today, _, _ = own.partition("| probability of improvement |")
    assert (
        "| Walker2d-v5 | last ten evaluations | 4,001 | 101 | 3,900 (3,898 to 3,902): above |"
        in today
    )
    assert "| best mean over time | Walker2d-v5 |" in today
    assert "Ant" not in own
    assert circumstances.count("| `") == 3


def test_tianshou_is_compared_with_runs_of_the_same_length(tmp_path: Path) -> None:
    for task, every in (("Humanoid-v5", 500_000), ("Walker2d-v5", 500_000), ("Ant-v5", 100_000)):
        write_stored_run(
            tmp_path / "paper", task, [[0.0, 5400.0, 10.0], [0.0, 5300.0, 20.0]], every
        )
    write_stored_run(tmp_path / "paper", "MyTask-v0", [[0.0, 1.0, 2.0], [0.0, 1.0, 3.0]], 500_000)
    write_stored_run(tmp_path / "paper", "Swimmer-v5", [[0.0, 1.0, 2.0]], 500_000)
    page = tmp_path / "docs" / "results.md"
    write_results(tmp_path, REFERENCES, page, None)
    _, text = page.read_text(encoding="utf-8").split("## Comparison with another implementation")
    text, _ = text.split("## Machines and versions")
    # Squared errors of 2,500 and 3,540 with 4.78 degrees of freedom, of Student's t 2.61.
    found = (
        "| Humanoid-v5 | 5,350 ± 50 | 5,190 ± 178 | 160 (-42.2 to 363): no significant difference |"
    )
    assert f"{found}  |" in text
    # Of 4,683 ± 540, both of ten seeds: 3,982 ± 274.
    assert ": above | -700 (-1,135 to -266): below |" in text
    assert not any(task in text for task in ("Ant", "MyTask", "Swimmer"))


def test_results_page_without_walkers_omits_their_section(trained: Plan, tmp_path: Path) -> None:
    assert read_walkers(tmp_path, REFERENCES / "pybullet.csv") == []
    outcomes = read_tasks(trained.results, REFERENCES / "td3_authors_curves.csv")
    assert "course" not in results_content(outcomes)
    assert "own settings" not in results_content(outcomes)


def test_results_page_has_the_known_answers(tmp_path: Path) -> None:
    """Ours: half of the seeds one deviation above the authors' mean, half one below."""
    level = [[0.0, *[100.0 + 10 * (-1) ** seed] * 20] for seed in range(10)]
    better = [[0.0, *[150.0 + seed] * 20] for seed in range(10)]
    perfect = [[0.0, *[1000.0] * 20] for _ in range(10)]
    for task, seeds in (("Ant-v5", level), ("Hopper-v5", better), ("InvertedPendulum-v5", perfect)):
        write_stored_run(tmp_path / "paper", task, seeds)
    authors = write_authors(
        tmp_path / "theirs.csv", Ant=(100, 10), Hopper=(100, 10), InvertedPendulum=(982, 18)
    )
    hopper, ant, pendulum = read_tasks(tmp_path / "paper", authors)
    assert improvement([ant]) == pytest.approx((0.5, 0.3, 0.7), abs=0.03)
    assert improvement([hopper]) == (1, 1, 1)
    assert interquartile_score([ant])[0] == pytest.approx(1.0)
    assert interquartile_score([hopper])[0] == pytest.approx(1.545)
    assert mean_score([hopper]) == pytest.approx((1.545, 1.45, 1.65), abs=0.03)
    assert returns_row(ant)[4:7] == ("100 ± 10", "92.5 to 108", "100 ± 10")
    assert difference_to_authors(ant).endswith(": no significant difference")
    assert difference_to_authors(hopper).endswith(": above")
    text = results_content([hopper, ant, pendulum])
    assert "| last ten evaluations | InvertedPendulum-v5 | 18 (" in text
    assert re.search(r"\| InvertedPendulum-v5 \| 0\.75 \(0\.60 to 0\.90\) \| 1\.02 \(", text)
    assert "| **all tasks** | 0.75 (" in text
    time = "1 min 0 s (sum of all runs: 3 min 0 s; some ran at the same time)."
    assert f"3 of the 7 tasks of the paper took {time}" in text


def test_results_page_with_missing_files_shows_unknown(tmp_path: Path) -> None:
    """For changed results, and for a seed that ended early."""
    values = [[0.0, 1.0, 2.0], [0.0, 2.0]]
    write_stored_run(tmp_path / "paper", "Ant-v5", values)
    folder = tmp_path / "paper" / "Ant-v5"
    (folder / "events.jsonl").unlink()
    settings = 'device = "cpu"\nseeds = 2\n[environment]\nid = "Ant-v5"\n[loop]\nsteps = 10_000\n'
    (folder / "config.toml").write_text(settings)
    outcomes = read_tasks(tmp_path / "paper", REFERENCES / "td3_authors_curves.csv")
    assert "| Ant-v5 until 5,000 steps |" in readme_content(outcomes)
    assert "every ?, ? episodes | unknown |" in results_content(outcomes)
    (folder / "events.jsonl").write_text('{"event": "start", "step": 0}\n')
    (outcome,) = read_tasks(tmp_path / "paper", REFERENCES / "td3_authors_curves.csv")
    assert "The training time of the paper's tasks is unknown." in results_content([outcome])


def test_elapsed_seconds_skips_pauses_and_counts_simultaneous_runs_once(
    tmp_path: Path,
) -> None:
    tasks = {
        "Ant-v5": [
            (0, "start"),
            (60, "stop"),
            (500, "warning"),
            (1000, "resume"),
            (1030, "finish"),
        ],
        "Hopper-v5": [(50, "start"), (70, "finish")],
        "Swimmer-v5": [(1010, "start"), (1050, "finish")],
    }
    for task, events in tasks.items():
        write_stored_run(tmp_path / "paper", task, [[0.0, 1.0], [0.0, 2.0]])
        lines = [{"time": time, "event": event, "step": 0} for time, event in events]
        stored = tmp_path / "paper" / task / "events.jsonl"
        stored.write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcomes = read_tasks(tmp_path / "paper", REFERENCES / "td3_authors_curves.csv")
    assert elapsed_seconds(outcomes) == 70 + 50
    time = "1 min 40 s (sum of all runs: 1 min 50 s; some ran at the same time)."
    sentence = f"2 of the 7 tasks of the paper took {time} With the other tasks: 2 min 0 s."
    assert sentence in results_content(outcomes)


def test_evaluations_are_compared_at_the_same_steps(tmp_path: Path) -> None:
    write_stored_run(
        tmp_path / "sparse", "Ant-v5", [[0.0, 1.0, 2.0], [0.0, 2.0, 3.0]], every=50_000
    )
    write_stored_run(tmp_path / "elsewhere", "Ant-v5", [[0.0, 1.0], [0.0, 2.0]], every=1234)
    write_stored_run(tmp_path / "alone", "Ant-v5", [[0.0, 1.0]])
    authors = write_authors(tmp_path / "theirs.csv", Ant=(100, 10))
    (sparse,) = read_tasks(tmp_path / "sparse", authors)
    assert sparse.window.tolist() == [[1, 2], [2, 3]]  # evaluations before training do not count
    assert sparse.authors_window is not None
    assert sparse.authors_window.steps.tolist() == [50_000, 100_000]
    assert sparse.authors is not None
    assert sparse.authors.steps.tolist() == [0, 50_000, 100_000]
    assert "| Ant-v5 | 0.00 | 0.02 | 0.02 |" in results_content(
        [sparse]
    )  # two seeds are too few for resampling
    for folder in ("elsewhere", "alone"):
        outcomes = read_tasks(tmp_path / folder, authors)
        assert "published no curves of these tasks at these steps" in results_content(outcomes)
