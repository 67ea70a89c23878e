"""Files that somebody made to do harm are refused: one sentence, 2 seconds, 100 MB."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.bounded import Bounded, Outcome
from support.hostile_policies import CASES as POLICIES
from support.hostile_runs import all_cases
from support.long import pick
from support.run_tools import tiny, train_in_pieces

from td3.policy.file import read_policy_file

RUNS = dict(list(all_cases().items())[:: pick(5, 1)])
PROBLEMS: dict[str, Callable[[Outcome], str]] = {
    "refused": Outcome.problem,
    "used": Outcome.problem_of_use,
    "older": lambda own: own.problem_of_use("checkpoint 000000200 is not used: "),
    "checked": lambda own: own.excess() if own.code in (0, 1) else own.problem(),
    "handled": lambda own: own.problem_of_use() if own.code == 0 else own.problem(),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "run"
    config = tiny(
        agent={"hidden_sizes": [8, 8]},
        loop={"steps": 200, "update": "episode"},
        evaluation={"every": 100, "max_steps": 20},
        execution="eager",
        threads=1,
    )
    train_in_pieces(config, folder, [])
    return folder


@pytest.fixture(scope="module")
def td3(run: Path) -> Iterator[Bounded]:
    policy, resumed = str(run / "policy/agent-0.safetensors"), run.parent / "resumed"
    shutil.copytree(run, resumed)
    warm = [
        ["evaluate", policy, "--episodes", "1"],
        ["resume", str(resumed), "--steps", "210"],
        ["doctor", str(run)],
        ["report", str(run), "--out", str(run.parent / "out")],
        ["plot", str(run), "--out", str(run.parent / "out")],
    ]
    with Bounded(warm) as program:
        yield program


@pytest.mark.parametrize("name", POLICIES)
def test_hostile_policy_is_refused(name: str, run: Path, td3: Bounded, tmp_path: Path) -> None:
    card, arrays = read_policy_file(run / "policy/agent-0.safetensors")
    POLICIES[name](tmp_path / "policy.safetensors", card, arrays)
    outcome = td3.run(["evaluate", "policy.safetensors", "--episodes", "1"], str(tmp_path))
    assert not outcome.problem()


@pytest.mark.parametrize("name", RUNS)
def test_hostile_run_or_recipe_is_refused(
    name: str, run: Path, td3: Bounded, tmp_path: Path
) -> None:
    case = RUNS[name]
    shutil.copytree(run, tmp_path / "run")
    case.change(tmp_path / "run")
    outcome = td3.run(case.words, str(tmp_path))
    assert not PROBLEMS[case.expected](outcome)
