"""python -m benchmarks paper: which plans are accepted."""

from pathlib import Path
from typing import Any

import pytest
from support.paper_plan import command_of, make_tiny_plan

from benchmarks.td3_bench import main, paper
from benchmarks.td3_bench.paper import share_cores
from benchmarks.td3_bench.plan import OTHER_TASKS, PAPER_TASKS, Plan
from td3.errors import UserError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 3}, "has seeds 2, not 3"),
        ({"steps": 400}, "runs/.* has loop.steps 200, not 400"),
        ({"steps": 400, "runs": Path("elsewhere")}, "results/.* has loop.steps 200, not 400"),
        (
            {"recipe": "paper", "steps": 30_000},
            r"has agent.hidden_sizes \(8, 8\), not \(256, 256\)",
        ),
        ({"at_once": 0}, "at-once must be 1 or more"),
        ({"at_once": 10_000}, "10000 tasks at once need as many cores"),
        ({"steps": 0}, "loop.steps must be 1 or more"),
        ({"recipe": "papr"}, "No recipe 'papr'. Did you mean 'paper'"),
        ({"results": Path("/dev/null/results")}, "Cannot write to /dev/null/results"),
    ],
)
def test_plan_with_other_settings_than_its_folders_raises(
    trained: Plan, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        make_tiny_plan(trained.runs.parent, **changes)


def test_plan_with_other_checkpoints_may_replace_results_but_not_resume(trained: Plan) -> None:
    folder, other = trained.runs.parent, {"checkpoint_every": 77}
    make_tiny_plan(folder, runs=folder / "again", **other)
    with pytest.raises(UserError, match=r"runs/.* has checkpoint\.every "):
        make_tiny_plan(folder, **other)


def test_at_once_0_exits_2(trained: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command_of(trained), "--at-once", "0"]) == 2
    assert "at-once must be 1 or more" in capsys.readouterr().err


def test_plan_with_a_repeated_task_trains_it_once(tmp_path: Path) -> None:
    assert make_tiny_plan(tmp_path, tasks=("Pendulum-v1", "Pendulum-v1")).tasks == ("Pendulum-v1",)
    assert make_tiny_plan(tmp_path, tasks=()).tasks == PAPER_TASKS + OTHER_TASKS


@pytest.mark.parametrize(("steps", "every"), [(1_000_000, 20_000), (300_000, 20_000), (2000, 200)])
def test_evaluation_interval_depends_on_the_number_of_steps(
    steps: int, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Plan] = []

    def record(plan: Plan, show: object) -> paper.Progress:
        plans.append(plan)
        return paper.Progress()

    monkeypatch.setattr(paper, "train_tasks", record)
    folders = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    words = ["Pendulum-v1", "--recipe", "quick", "--steps", str(steps), *folders]
    assert main(["paper", *words]) == 0
    assert plans[0].config.evaluation.every == every


def test_plan_with_a_grid_raises(tmp_path: Path) -> None:
    recipe = tmp_path / "grid.toml"
    recipe.write_text('[grid]\n"agent.tau" = [0.1, 0.2]\n')
    with pytest.raises(UserError, match="The recipe has a grid"):
        make_tiny_plan(tmp_path, recipe=str(recipe))


def test_share_cores_splits_them_equally() -> None:
    shares = share_cores(2)
    assert len(shares) == 2
    assert shares[0].isdisjoint(shares[1])
    assert len(shares[0]) == len(shares[1]) >= 1
