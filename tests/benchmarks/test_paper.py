"""The paper's tasks: trained in pieces, kept in small files, told on a page."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from td3.bench import paper
from td3.bench.outcomes import (
    elapsed,
    improvement,
    mean_score,
    read_tasks,
    read_walkers,
    score,
)
from td3.bench.pages import BEGIN, END, renewed
from td3.bench.paper import (
    CHOICE_SEED,
    TEST_SEED,
    Plan,
    best_of,
    cores_for,
    earnings,
    keep,
    last_step,
    last_words,
    planned,
    train_tasks,
)
from td3.bench.results import made, made_in_short, returns_row, to_authors, write_results
from td3.bench.stored import COLUMNS, store_run
from td3.cli import main
from td3.errors import RunBusy, UserError
from td3.launch.start import resume
from td3.policy import pretrained
from td3.policy.load import load_policy, policies_of
from td3.policy.policy import Policy
from td3.report.page import table
from td3.report.summary import read_run
from td3.run.lock import lock_run

RECIPE = """
[agent]
hidden_sizes = [8, 8]
batch_size = 8
[loop]
random_steps = 20
replay_size = 200
log_every = 20
[evaluation]
episodes = 2
"""
ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "benchmarks" / "reference"


def plan_in(folder: Path, **changes: Any) -> Plan:
    recipe = folder / "tiny.toml"
    recipe.write_text(RECIPE)
    asked: dict[str, Any] = {
        "tasks": ("InvertedPendulum-v5", "Pendulum-v1"),
        "recipe": str(recipe),
        "seeds": 2,
        "steps": 200,
        "evaluation_every": 50,
        "checkpoint_every": 50,
        "device": "cpu",
        "runs": folder / "runs",
        "results": folder / "results" / "paper",
    }
    return planned(**asked | changes)


def flags(plan: Plan) -> list[str]:
    """The command that asks for this plan."""
    words = [
        *plan.tasks,
        "--recipe",
        plan.recipe,
        "--seeds",
        plan.config.seeds,
        "--steps",
        plan.config.loop.steps,
        "--evaluation.every",
        plan.config.evaluation.every,
        "--checkpoint.every",
        plan.config.checkpoint.every,
        "--device",
        plan.config.device,
        "--runs",
        plan.runs,
        "--results",
        plan.results,
    ]
    return ["bench", "paper", *map(str, words)]


@pytest.fixture(scope="module", autouse=True)
def few_episodes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "TEST_EPISODES", 5)
        patch.setattr(paper, "CHOICE_EPISODES", 2)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    plan = plan_in(tmp_path_factory.mktemp("paper"))
    seen: list[int] = []
    progress = train_tasks(plan, lambda progress: seen.append(len(progress.finished)))
    assert progress.failed == {}
    assert sorted(progress.finished) == sorted(progress.earned) == sorted(plan.tasks)
    assert seen[-1] == 2
    return plan


def test_what_is_kept_says_what_the_run_said(trained: Plan) -> None:
    for task in trained.tasks:
        run, kept = read_run(trained.run_of(task)), read_run(trained.result_of(task))
        assert kept.status == "finished"
        assert kept.config == run.config
        assert kept.wall_seconds == run.wall_seconds
        for agent, found in run.evaluations.items():
            assert kept.evaluations[agent].seed == found.seed
            assert kept.evaluations[agent].steps.tolist() == [0, 50, 100, 150, 200]
            np.testing.assert_allclose(
                kept.evaluations[agent].mean_returns, found.mean_returns, rtol=1e-6
            )
        assert [row["last"] for row in table([kept])] == pytest.approx(
            [row["last"] for row in table([run])], rel=1e-6
        )
        files = {path.name for path in trained.result_of(task).iterdir()}
        assert files == {"config.toml", "curves.csv", "events.jsonl"}


def test_most_reports_of_progress_are_left_out(trained: Plan, tmp_path: Path) -> None:
    shutil.copytree(trained.runs / "Pendulum-v1", tmp_path / "run")
    events = tmp_path / "run" / "events.jsonl"
    first, *_, last = events.read_text().splitlines()
    began, ended = (json.loads(line) for line in (first, last))
    before = [{"time": 10.0 + k, "event": "progress", "step": k} for k in range(995)]
    after = [{"time": 5000.0 + k, "event": "progress", "step": k} for k in range(990, 995)]
    killed = [*before, {"time": 4000.0, "event": "resume", "step": 990}, *after]
    told = [began | {"time": 9.0}, *killed, ended | {"time": 5010.0}]
    events.write_text("".join(json.dumps(event) + "\n" for event in told))
    kept = store_run(tmp_path / "run", tmp_path / "out")
    assert len(kept.events) < 60
    assert kept.status == "finished"
    assert kept.wall_seconds == read_run(tmp_path / "run").wall_seconds


def test_what_is_finished_is_not_trained_again(
    trained: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*given: Any) -> None:
        raise AssertionError(given)

    monkeypatch.setattr(paper, "begin", never)
    assert sorted(train_tasks(trained).finished) == sorted(trained.tasks)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seeds": 3}, "has seeds 2, not 3"),
        ({"steps": 400}, "runs/.* has loop.steps 200, not 400"),
        ({"steps": 400, "runs": Path("elsewhere")}, "results/.* has loop.steps 200, not 400"),
        (
            {"recipe": "paper", "steps": 30_000},
            r"has agent.hidden_sizes \(8, 8\), not \(256, 256\)",
        ),
        ({"at_once": 0}, "at-once must be 1 or more"),
        ({"at_once": 10_000}, "cores for 10000 tasks"),
        ({"steps": 0}, "loop.steps must be greater than 0"),
        ({"recipe": "papr"}, "No recipe 'papr'. Did you mean 'paper'"),
        ({"results": Path("/dev/null/results")}, "Cannot write to /dev/null/results"),
    ],
)
def test_another_plan_is_refused(trained: Plan, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        plan_in(trained.runs.parent, **changes)


def test_results_may_be_kept_of_runs_with_other_checkpoints(trained: Plan) -> None:
    folder, other = trained.runs.parent, {"checkpoint_every": 77}
    plan_in(folder, runs=folder / "again", **other)
    with pytest.raises(UserError, match=r"runs/.* has checkpoint\.every "):
        plan_in(folder, **other)


def test_zeros_are_refused_not_forgotten(trained: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*flags(trained), "--at-once", "0"]) == 2
    assert "at-once must be 1 or more" in capsys.readouterr().err


def test_a_task_named_twice_is_trained_once(tmp_path: Path) -> None:
    assert plan_in(tmp_path, tasks=("Pendulum-v1", "Pendulum-v1")).tasks == ("Pendulum-v1",)
    assert plan_in(tmp_path, tasks=()).tasks == paper.TASKS + paper.BEYOND


@pytest.mark.parametrize(("steps", "every"), [(1_000_000, 20_000), (300_000, 20_000), (2000, 200)])
def test_a_short_training_is_evaluated_as_often(
    steps: int, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Plan] = []

    def pretend(plan: Plan, tell: object) -> paper.Progress:
        asked.append(plan)
        return paper.Progress()

    monkeypatch.setattr(paper, "train_tasks", pretend)
    folders = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    words = ["Pendulum-v1", "--recipe", "quick", "--steps", str(steps), *folders]
    assert main(["bench", "paper", *words]) == 0
    assert asked[0].config.evaluation.every == every


def test_a_grid_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "grid.toml"
    recipe.write_text('[grid]\n"agent.tau" = [0.1, 0.2]\n')
    with pytest.raises(UserError, match="not with a grid"):
        plan_in(tmp_path, recipe=str(recipe))


def test_stopped_and_killed_it_goes_on_to_the_same_curves(tmp_path: Path) -> None:
    """By a Ctrl-C, which is passed on; by a kill of the first process: then its child saves."""
    (tmp_path / "pieces").mkdir()
    longer: dict[str, Any] = {
        "tasks": ("Pendulum-v1",),
        "steps": 20_000,
        "evaluation_every": 10_000,
        "checkpoint_every": 1000,
    }
    whole, plan = plan_in(tmp_path, **longer), plan_in(tmp_path / "pieces", **longer)
    assert train_tasks(whole).finished == ["Pendulum-v1"]
    run = plan.run_of("Pendulum-v1")
    for number, after in ((signal.SIGINT, 1000), (signal.SIGKILL, 5000)):
        child = subprocess.Popen(
            [sys.executable, "-m", "td3", *flags(plan)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda after=after: last_step(run) >= after)
        child.send_signal(number)
        assert child.wait() == {signal.SIGINT: 130, signal.SIGKILL: -9}[number]
        wait_until(lambda: read_run(run).status == "stopped")
        wait_until(lambda: not busy(run))
    assert train_tasks(plan).finished == ["Pendulum-v1"]
    curves = [(p.result_of("Pendulum-v1") / "curves.csv").read_text() for p in (plan, whole)]
    assert curves[0] == curves[1]
    happened = [event["event"] for event in read_run(run).events]
    assert happened.count("resume") == 2
    assert read_run(plan.result_of("Pendulum-v1")).wall_seconds == read_run(run).wall_seconds


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def busy(run: Path) -> bool:
    try:
        with lock_run(run):
            return False
    except RunBusy:
        return True


def test_a_task_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, tasks=("NoSuch-v0", "Pendulum-v1"), steps=60)
    progress = train_tasks(plan)
    assert progress.finished == ["Pendulum-v1"]
    assert "No environment 'NoSuch-v0' is registered" in progress.failed["NoSuch-v0"]


def test_what_cannot_be_kept_is_said(trained: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(run: Path, out: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(paper, "store_run", full)
    progress = train_tasks(trained)
    assert progress.earned == {}
    assert set(progress.failed) == set(trained.tasks)
    assert all(
        "trained, but cannot be kept: [Errno 28]" in said for said in progress.failed.values()
    )


def test_a_task_that_was_killed_says_so(trained: Plan) -> None:
    assert last_words(trained, "Pendulum-v1", -9) == "it was killed by SIGKILL"


def test_a_report_waits_for_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of a plan that has just begun holds none yet."""
    shutil.copytree(REFERENCES, tmp_path / "reference")
    (tmp_path / "results" / "paper" / "policies").mkdir(parents=True)
    words = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "page.md")]
    assert main(["bench", "report", *words]) == 2
    assert "results holds neither *.json nor paper/; " in capsys.readouterr().err


def test_cores_are_shared_out() -> None:
    shares = cores_for(2)
    assert len(shares) == 2
    assert shares[0].isdisjoint(shares[1])
    assert len(shares[0]) == len(shares[1]) >= 1


@pytest.fixture
def shipped(trained: Plan, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """As if the policies came with the package."""
    path = trained.policy_of("Pendulum-v1")
    monkeypatch.setattr(pretrained, "FOLDER", path.parent)
    return dict(load_policy(path).card["tested"])


def test_the_best_policy_is_tested_on_other_episodes(
    trained: Plan, shipped: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = load_policy(trained.policy_of("Pendulum-v1"))
    found = policies_of(trained.run_of("Pendulum-v1"))
    (own,) = [policy for policy in found if policy.card["sha256"] == kept.card["sha256"]]
    steps = trained.config.loop.steps
    added = {"tested": shipped, "chosen_from": {"recipe": "tiny", "seeds": 2, "steps": steps}}
    assert kept.card | {"card_sha256": ""} == own.card | added | {"card_sha256": ""}
    assert shipped["mean_return_low"] < shipped["mean_return"] < shipped["mean_return_high"]
    assert earnings(own) == shipped
    monkeypatch.setattr(paper, "returns_of", None)  # what is known is not played again
    assert keep(trained, "Pendulum-v1") == shipped


def test_a_task_of_a_module_is_kept_because_the_user_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import gymnasium as gym\n"
        "entry_point = 'gymnasium.envs.classic_control:PendulumEnv'\n"
        "gym.register('Kept-v0', entry_point, max_episode_steps=20)\n"
    )
    (tmp_path / "kept_task.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    progress = train_tasks(plan_in(tmp_path, tasks=("kept_task:Kept-v0",)), lambda progress: None)
    assert progress.failed == {}
    assert progress.earned["kept_task:Kept-v0"]["episodes"] == 5


def test_the_best_policy_is_the_best_on_the_same_starts(
    trained: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever each says of itself."""
    policies = policies_of(trained.run_of("Pendulum-v1"))
    asked = []

    def pretended(policy: Policy, seed: int, episodes: int) -> NDArray[np.float64]:
        asked.append((policy.name, seed, episodes))
        return np.array([float(policy.name == "agent-1")])

    monkeypatch.setattr(paper, "returns_of", pretended)
    for best, other in ((0, 1), (1, 0)):
        policies[best].card["mean_return"], policies[other].card["mean_return"] = 1.0, 0.0
        assert best_of(policies).name == "agent-1"
    starts = (CHOICE_SEED, paper.CHOICE_EPISODES)
    assert set(asked) == {("agent-0", *starts), ("agent-1", *starts)}
    assert CHOICE_SEED != TEST_SEED


def test_evaluate_finds_what_is_stated(
    shipped: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    same = ["--episodes", "5", "--seed", str(TEST_SEED), "--json"]
    assert main(["evaluate", "--pretrained", "Pendulum-v1", *same]) == 0
    found = json.loads(capsys.readouterr().out)
    stated = found["agents"][0]["stated"]
    assert stated.items() >= shipped.items()
    assert stated["expected_low"] < stated["mean_return"] < stated["expected_high"]
    assert stated["reproduced"] is True
    assert found["mean_return"] == pytest.approx(shipped["mean_return"], rel=1e-6)
    assert main(["evaluate", "--pretrained", "Pendulum-v1", "--episodes", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Pendulum-v1, 1 episode: mean return ± its deviation over episodes\n")
    assert re.search(r"over 5 other episodes; expected here \(99 %\): .*: agrees\n", said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pretrained", "Pendulm-v1"], "No pretrained policy for 'Pendulm-v1'. Did you mean"),
        ([], "Give a run folder, or a task with --pretrained."),
        (["somewhere", "--pretrained", "Pendulum-v1"], "not both"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "video"])
@pytest.mark.usefixtures("shipped")
def test_what_is_not_there_is_said(
    command: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *words]) == 2
    assert said in capsys.readouterr().err


def test_the_page_tells_all_tasks_in_the_papers_order(trained: Plan, tmp_path: Path) -> None:
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
    with pytest.raises(UserError, match="holds no results"):
        write_results(tmp_path / "empty", REFERENCES, page, front)


def test_the_front_page_shows_what_it_has_room_for(trained: Plan, tmp_path: Path) -> None:
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


def test_what_is_stored_is_what_the_pages_show() -> None:
    """If not: td3 bench report."""
    results = ROOT / "benchmarks" / "results"
    authors = REFERENCES / "td3_authors_curves.csv"
    outcomes, originals = (read_tasks(results / name, authors) for name in ("paper", "original"))
    others = read_tasks(results / "paper", REFERENCES / "tianshou.csv")
    tables = {
        "docs/results.md": made(
            outcomes, others, originals, read_walkers(results, REFERENCES / "pybullet.csv")
        ),
        "README.md": made_in_short(outcomes),
    }
    for page, made_now in tables.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        assert renewed(text, made_now) == text, page


def test_a_page_elsewhere_leaves_the_front_page_alone(
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
    assert main(["bench", "report"]) == 2
    assert "There is no benchmarks/reference" in capsys.readouterr().err
    shutil.copytree(REFERENCES, tmp_path / "benchmarks" / "reference")
    assert main(["bench", "report", "--out", "mine.md"]) == 0
    assert main(["bench", "report", "--results", "mine"]) == 0
    assert main(["bench", "report", "--results", "mine/paper"]) == 2
    assert "mine/paper holds the tasks themselves; they are to be in" in capsys.readouterr().err
    assert (tmp_path / "mine" / "results.md").is_file()
    assert not (tmp_path / "docs").exists()
    assert "old" in front.read_text()
    assert main(["bench", "report", "--results", str(tmp_path / "benchmarks" / "results")]) == 0
    assert "old" not in front.read_text(encoding="utf-8")
    front.write_text(f"{BEGIN}\n")
    with pytest.raises(UserError, match=r"^README.md: the page has lost its marks"):
        write_results(Path("mine"), REFERENCES, Path("docs/results.md"), Path("README.md"))


def test_the_courses_tasks_stand_beside_what_others_published(tmp_path: Path) -> None:
    task, values = "AntBulletEnv-v0", [[0.0, 3000.0, 2000.0], [0.0, 3200.0, 2200.0]]
    pretended(tmp_path / "paper", "Ant-v5", values)
    pretended(tmp_path / "course", task, values)
    pretended(tmp_path / "bullet", task, values, every=500_000)
    pretended(tmp_path / "bullet", "MyWalker-v0", values)
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
    assert "| 2,100 ± 100 |  |  |" in text  # nobody's figure of a task of one's own
    assert text.count("| `") == 4


def test_the_papers_own_settings_stand_beside_todays(tmp_path: Path) -> None:
    for name, end, more in (("paper", 100.0, [500.0] * 10), ("original", 4000.0, [])):
        seeds = [[0.0, *[end + seed] * 20, *more] for seed in range(3)]
        pretended(tmp_path / name, "Walker2d-v5", seeds)
    pretended(tmp_path / "paper", "Ant-v5", [[0.0, 1.0], [0.0, 2.0]])
    page = tmp_path / "docs" / "results.md"
    written = write_results(tmp_path, REFERENCES, page, tmp_path / "README.md")
    assert page.parent / "media" / "original.png" in written
    svg = (page.parent / "media" / "original.svg").read_text(encoding="utf-8")
    assert all(word in svg for word in ("Walker2d-v5", "paper (3 seeds)", "original (3 seeds)"))
    assert "Ant-v5" not in svg
    _, text = page.read_text(encoding="utf-8").split("## With the paper's own settings")
    own, circumstances = text.split("## Circumstances")
    assert "| Walker2d-v5 | 3 | 4,001 ± 0.816 |" in own
    today, authors = own.split("| probability of improvement |")
    assert "| Walker2d-v5 | 4,001 | 101 | 3,900 (3,898 to 3,902): above |" in today
    assert authors.count("above") == 1
    assert "Ant" not in own
    assert circumstances.count("| `") == 3


def test_another_implementation_stands_beside_runs_as_long_as_its_own(tmp_path: Path) -> None:
    for task, every in (("Humanoid-v5", 500_000), ("Walker2d-v5", 500_000), ("Ant-v5", 100_000)):
        pretended(tmp_path / "paper", task, [[0.0, 5400.0, 10.0], [0.0, 5300.0, 20.0]], every)
    pretended(tmp_path / "paper", "MyTask-v0", [[0.0, 1.0, 2.0], [0.0, 1.0, 3.0]], 500_000)
    pretended(tmp_path / "paper", "Swimmer-v5", [[0.0, 1.0, 2.0]], 500_000)
    page = tmp_path / "docs" / "results.md"
    write_results(tmp_path, REFERENCES, page, None)
    _, text = page.read_text(encoding="utf-8").split("## Beside another implementation")
    text, _ = text.split("## Circumstances")
    # Squared errors of 2,500 and 3,540 with 4.78 degrees of freedom, of Student's t 2.61.
    found = "| Humanoid-v5 | 5,350 ± 50 | 5,190 ± 178 | 160 (-42.2 to 363): no difference shown |"
    assert f"{found}  |" in text
    # Of 4,683 ± 540, both of ten seeds: 3,982 ± 274.
    assert ": above | -700 (-1,135 to -266): below |" in text
    assert not any(task in text for task in ("Ant", "MyTask", "Swimmer"))


def test_without_walkers_nothing_is_said_of_them(trained: Plan, tmp_path: Path) -> None:
    assert read_walkers(tmp_path, REFERENCES / "pybullet.csv") == []
    outcomes = read_tasks(trained.results, REFERENCES / "td3_authors_curves.csv")
    assert "course" not in made(outcomes)
    assert "own settings" not in made(outcomes)


def pretended(folder: Path, task: str, seeds: list[list[float]], every: int = 5000) -> None:
    """A stored run with these evaluations, of a recipe of the folder's name."""
    folder = folder / task
    folder.mkdir(parents=True)
    asked = f'recipe = "{folder.parent.name}"\ndevice = "cpu"\nseeds = {len(seeds)}\n'
    tables = f'[environment]\nid = "{task}"\n[evaluation]\nevery = {every}\nepisodes = 10\n'
    (folder / "config.toml").write_text(asked + tables)
    lines = [
        f"{seed},{seed},{every * k},{value},0"
        for seed, values in enumerate(seeds)
        for k, value in enumerate(values)
    ]
    (folder / "curves.csv").write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    events = [{"time": 100.0, "event": "start", "step": 0}]
    events += [{"time": 160.0, "event": "finish", "step": every * (len(seeds[0]) - 1)}]
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def theirs(path: Path, **tasks: tuple[float, float]) -> Path:
    """Authors whose curves rise from 0 to a mean, with a deviation, within the first step."""
    lines = ["env,step,mean_return,std_return,seeds"]
    for task, (mean, std) in tasks.items():
        numbers = [0.0, *[mean] * 20]
        lines += [f"{task}-v1,{5000 * k},{value},{std},10" for k, value in enumerate(numbers)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_page_has_the_known_answers(tmp_path: Path) -> None:
    """Ours: half of the seeds one deviation above the authors' mean, half one below."""
    level = [[0.0, *[100.0 + 10 * (-1) ** seed] * 20] for seed in range(10)]
    better = [[0.0, *[150.0 + seed] * 20] for seed in range(10)]
    perfect = [[0.0, *[1000.0] * 20] for _ in range(10)]
    for task, seeds in (("Ant-v5", level), ("Hopper-v5", better), ("InvertedPendulum-v5", perfect)):
        pretended(tmp_path / "paper", task, seeds)
    authors = theirs(
        tmp_path / "theirs.csv", Ant=(100, 10), Hopper=(100, 10), InvertedPendulum=(982, 54)
    )
    hopper, ant, pendulum = read_tasks(tmp_path / "paper", authors)
    # A seed of theirs counts once, not once for each evaluation: ± 0.27, not 0.22.
    assert improvement([ant]) == pytest.approx((0.5, 0.23, 0.77), abs=0.03)
    assert improvement([hopper]) == pytest.approx((1, 1, 1), abs=1e-3)
    assert score([ant])[0] == pytest.approx(1.0)
    assert score([hopper])[0] == pytest.approx(1.545)
    assert mean_score([hopper]) == pytest.approx((1.545, 1.45, 1.65), abs=0.03)
    assert returns_row(ant)[4:7] == ("100 ± 10", "92.5 to 108", "100 ± 10")
    assert to_authors(ant).endswith(": no difference shown")
    assert to_authors(hopper).endswith(": above")
    text = made([hopper, ant, pendulum])
    assert "| InvertedPendulum-v5 | 18 (" in text
    # No probability at a ceiling; the mean knows that theirs is uncertain.
    assert re.search(r"\|  \| 1\.02 \(0\.9\d to 1\.0\d\) \| 1\.02 \(1\.02 to 1\.02\) \|", text)
    assert "| **together** |  | 0.75 (" in text
    beside = "1 min 0 s, some beside each other (3 min 0 s added up)."
    assert f"3 of the 7 tasks of the paper took {beside}" in text


def test_what_is_missing_is_said_to_be_unknown(tmp_path: Path) -> None:
    """Of results that were tampered with, or of a seed that ended early."""
    values = [[0.0, 1.0, 2.0], [0.0, 2.0]]
    pretended(tmp_path / "paper", "Ant-v5", values)
    folder = tmp_path / "paper" / "Ant-v5"
    (folder / "events.jsonl").unlink()
    settings = 'device = "cpu"\nseeds = 2\n[environment]\nid = "Ant-v5"\n[loop]\nsteps = 10_000\n'
    (folder / "config.toml").write_text(settings)
    outcomes = read_tasks(tmp_path / "paper", REFERENCES / "td3_authors_curves.csv")
    assert "| Ant-v5 until 5,000 steps |" in made_in_short(outcomes)
    assert "every ?, ? episodes | unknown |" in made(outcomes)
    (folder / "events.jsonl").write_text('{"event": "start", "step": 0}\n')
    (outcome,) = read_tasks(tmp_path / "paper", REFERENCES / "td3_authors_curves.csv")
    assert "How long the paper's tasks took is unknown." in made([outcome])


def test_time_between_a_stop_and_a_resume_does_not_count_and_time_beside_counts_once(
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
        pretended(tmp_path / "paper", task, [[0.0, 1.0], [0.0, 2.0]])
        lines = [{"time": time, "event": event, "step": 0} for time, event in events]
        stored = tmp_path / "paper" / task / "events.jsonl"
        stored.write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcomes = read_tasks(tmp_path / "paper", REFERENCES / "td3_authors_curves.csv")
    assert elapsed(outcomes) == 70 + 50
    both = "1 min 40 s, some beside each other (1 min 50 s added up); with the others 2 min 0 s."
    assert f"2 of the 7 tasks of the paper took {both}" in made(outcomes)


def test_evaluations_are_compared_at_the_same_steps(tmp_path: Path) -> None:
    pretended(tmp_path / "seldom", "Ant-v5", [[0.0, 1.0, 2.0], [0.0, 2.0, 3.0]], every=50_000)
    pretended(tmp_path / "elsewhere", "Ant-v5", [[0.0, 1.0], [0.0, 2.0]], every=1234)
    pretended(tmp_path / "alone", "Ant-v5", [[0.0, 1.0]])
    authors = theirs(tmp_path / "theirs.csv", Ant=(100, 10))
    (seldom,) = read_tasks(tmp_path / "seldom", authors)
    assert seldom.window.tolist() == [[1, 2], [2, 3]]  # what was earned untrained is no result
    assert seldom.authors_window is not None
    assert seldom.authors_window.steps.tolist() == [50_000, 100_000]
    assert seldom.authors is not None
    assert seldom.authors.steps.tolist() == [0, 50_000, 100_000]
    assert "| 0.02 | 0.02 |" in made([seldom])  # of two seeds no interval by resampling
    for folder in ("elsewhere", "alone"):
        outcomes = read_tasks(tmp_path / folder, authors)
        assert "published no curves of these tasks at these steps" in made(outcomes)


def test_stored_results_are_no_run_to_go_on_with(tmp_path: Path) -> None:
    pretended(tmp_path, "Ant-v5", [[0.0, 1.0]])
    before = {path.name: path.read_bytes() for path in (tmp_path / "Ant-v5").iterdir()}
    with pytest.raises(UserError, match=r"holds results of a run, not the run; it cannot be cont"):
        resume(tmp_path / "Ant-v5")
    assert {path.name: path.read_bytes() for path in (tmp_path / "Ant-v5").iterdir()} == before
    with pytest.raises(UserError, match="results without policies"):
        load_policy(tmp_path / "Ant-v5")
