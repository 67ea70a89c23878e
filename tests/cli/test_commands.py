"""Every command end to end, on one small run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest

from td3.cli import COMMANDS, main
from td3.cli.evaluate import interval
from td3.cli.outcome import finish, next_commands
from td3.cli.values import read_kwargs
from td3.config import Config, EnvironmentConfig, declared_settings, to_dict, to_toml
from td3.intervals import over_seeds
from td3.policy.load import load_policy
from td3.policy.video import film

SMALL = [
    "--recipe",
    "quick",
    "--steps",
    "400",
    "--loop.random-steps",
    "200",
    "--loop.log-every",
    "100",
    "--evaluation.every",
    "200",
    "--evaluation.episodes",
    "2",
    "--checkpoint.every",
    "200",
    "--agent.hidden-sizes",
    "16",
    "16",
    "--seeds",
    "2",
]


def td3(
    *words: str | Path, code: int = 0, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command like a user; check the exit code and that there is no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "td3", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    td3("train", *SMALL, "--run", folder, "--track", "tensorboard")
    return folder


def test_train_writes_complete_run_folder(run: Path) -> None:
    for part in (
        "config.toml",
        "metrics.jsonl",
        "events.jsonl",
        "checkpoints/000000400/manifest.json",
        "policy/agent-0.safetensors",
        "policy/agent-1.safetensors",
    ):
        assert (run / part).is_file(), part
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    evaluations = [r for r in records if r["kind"] == "evaluation"]
    assert [(r["step"], r["agent"]) for r in evaluations] == [
        (0, 0),
        (0, 1),
        (200, 0),
        (200, 1),
        (400, 0),
        (400, 1),
    ]
    training = [r for r in records if r["kind"] == "train"]
    assert [r["step"] for r in training if r["agent"] == 1] == [100, 200, 300, 400]
    assert training[-1]["updates"] == 200
    assert 0 <= training[-1]["saturated"] <= 1
    assert list((run / "tensorboard").glob("events.out.tfevents.*"))


def test_train_prints_progress_and_next_commands(tmp_path: Path) -> None:
    done = td3("train", *SMALL, "--run", tmp_path / "run", "--show")
    assert "evaluation" in done.stderr
    assert "step       400" in done.stderr
    for command in ("evaluate", "video", "plot", "report"):
        assert f"td3 {command} {tmp_path / 'run'}" in done.stdout, done.stdout
    assert (tmp_path / "run/plots/curves.png").stat().st_size > 5000
    assert (tmp_path / "run/videos/agent-0.mp4").exists() or (
        tmp_path / "run/videos/agent-1.mp4"
    ).exists()


def test_train_with_json_or_quiet_prints_nothing_else(tmp_path: Path) -> None:
    done = td3("train", *SMALL, "--run", tmp_path / "run", "--json")
    outcome = json.loads(done.stdout)
    assert outcome["run"] == str(tmp_path / "run")
    assert outcome["exit_code"] == 0
    assert done.stderr == ""
    done = td3("train", *SMALL, "--run", tmp_path / "quiet", "--quiet")
    assert (done.stdout, done.stderr) == (f"{tmp_path / 'quiet'}\n", "")


def test_grid_trains_reports_and_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    grid = ["--grid", "agent.tau=0.01,0.1", "agent.critic-learning-rate=1e-3,1e30"]
    done = td3("train", *SMALL, *grid, "--run", folder, "--track", "tensorboard")
    assert "Pendulum-v1 · 2 seeds × 4 settings = 8 agents" in done.stderr
    assert done.stderr.count("It is frozen, its best policy is kept, and the others go on.") == 4
    assert "(seed 1 with critic_learning_rate 1e+30, tau 0.1) diverged at step 20" in done.stderr
    assert "best setting critic_learning_rate 0.001, tau 0.1" in done.stderr
    assert "quick, critic_learning_rate 1e+30, tau 0.1  (2 of 2 diverged)" in done.stdout
    assert len(list((folder / "policy").glob("agent-[0-9].safetensors"))) == 8
    done = td3("resume", folder, "--steps", "500")
    assert "Continuing at step 400, 4 of 8 agents frozen." in done.stderr
    outcome = json.loads(td3("plot", folder, "--json").stdout)
    assert [curve["seeds"] for curve in outcome["curves"]] == [2, 2, 2, 2]
    assert sorted(outcome["runs"][0]["frozen"]) == ["4", "5", "6", "7"]
    played = td3("evaluate", folder, "--episodes", "1").stdout.splitlines()
    assert [line.split()[0] for line in played[1:]] == [
        own
        for k in range(0, 8, 2)
        for own in ("critic_learning_rate", f"agent-{k}", f"agent-{k + 1}", "all")
    ]
    assert played.count("critic_learning_rate 0.001, tau 0.1") == 1
    assert all("  2 seeds, 95 % interval " in line for line in played[4::4])
    assert max(map(len, played)) <= 80


def test_over_seeds_gives_students_interval() -> None:
    students = 12.7062  # standard errors, of which there is one
    found = over_seeds("mean", [9.0, 11.0])
    expected = {"mean": 10, "mean_low": 10 - students, "mean_high": 10 + students, "mean_std": 1}
    assert found == pytest.approx(expected, rel=1e-5)
    alone = {
        "mean_return": 9.0,
        **dict.fromkeys(f"mean_return_{e}" for e in ("low", "high", "std")),
    }
    assert over_seeds("mean_return", [9.0]) == alone
    assert interval({"agents": 1, **alone}) == ""


def test_help_in_latin_1_terminal_is_shown() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-m", "td3", "train", "--help-all"],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"--environment.workers" in done.stdout


def test_suggested_command_quotes_spaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finish(tmp_path / "my run", 130, show=False, quiet=False, as_json=False)
    assert f"resume '{tmp_path}/my run'" in capsys.readouterr().out


OWN_CLASS = """
import gymnasium as gym
import numpy as np

class Reach(gym.Env):
    observation_space = action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
class Drawn(Reach):
    metadata = {"render_modes": ["rgb_array"]}
    def render(self):
        pass
"""


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("Pendulum-v1", ["evaluate {} --episodes 100", "video {}"]),
        ("reach:Reach", ["evaluate {} --episodes 100 --environment reach:Reach"]),
        (
            "reach:Drawn",
            [
                "evaluate {} --episodes 100 --environment reach:Drawn",
                "video {} --environment reach:Drawn",
            ],
        ),
        ("__main__:Reach", []),
    ],
)
def test_next_commands_work_for_an_own_environment(
    task: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reach.py").write_text(OWN_CLASS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    config = Config(environment=EnvironmentConfig(task))
    (tmp_path / "config.toml").write_text(to_toml(to_dict(config)), encoding="utf-8")
    assert next_commands(tmp_path) == [*expected, "plot {}", "report {}"]


@pytest.mark.parametrize("words", [["--populations", "4"], ["--storage", "x"], ["--wait", "9m"]])
def test_train_refuses_flags_of_a_cluster_without_one(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", "Pendulum-v1", "--recipe", "quick", *words, "--run", str(run)]) == 2
    error = capsys.readouterr().err
    assert error == f"td3: Leave out {words[0]}: it works only with --cluster.\n"
    assert not run.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["loop.steps=1,2"], "A grid cannot vary loop.steps; it can vary: agent.actor_l"),
        (["tau=0.1,0.2"], "tau is not a setting. Did you mean 'agent.tau'?"),
        (
            ["agent.tau"],
            "--grid expects a setting with values such as agent.tau=0.005,0.01, got agent.tau.",
        ),
        (
            ["agent.tau=x"],
            "--grid expects a setting with values such as agent.tau=0.005,0.01, got agent.tau=x",
        ),
        (["agent.tau=0.1,0.1"], "The grid has the value 0.1 of agent.tau twice."),
        (["agent.tau=0.1", "agent.tau=0.2"], "--grid has agent.tau twice."),
        (["agent.discount=0.9,2"], "agent.discount must be between 0 and 1, got 2.0."),
    ],
)
def test_train_with_bad_grid_fails_with_one_sentence(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "Pendulum-v1", "--grid", *words]) == 2
    assert capsys.readouterr().err.startswith(f"td3: {message}")


@pytest.mark.parametrize(
    "words",
    [
        "train Pendulum-v1 --grid agent.tau=0.1,0.2 --grid agent.discount=0.9,0.99",
        "export --pretrained Hopper-v5 --to c --to js",
    ],
)
def test_list_flag_given_twice_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert "is given twice; give all of its values after one --" in capsys.readouterr().err


def test_grid_from_python_or_recipe_trains(tmp_path: Path) -> None:
    from td3 import train
    from td3.cli import parse
    from td3.cli.train import Arguments, default
    from td3.config import recipe_text

    small = {"loop": {"random_steps": 20}, "evaluation": {"episodes": 1}, "device": "cpu"}
    grid = {"agent.discount": [0.98, 0.99]}
    folder = train("Pendulum-v1", "quick", run=tmp_path / "run", steps=30, grid=grid, **small)
    assert len(list((folder / "policy").glob("agent-[0-9].safetensors"))) == 2
    (tmp_path / "mine.toml").write_text(
        recipe_text("quick") + '\n[grid]\n"agent.discount" = [0.98, 0.99]\n'
    )
    words = ["--recipe", str(tmp_path / "mine.toml")]
    found = parse(Arguments, "train", words, default(words)).config
    assert found.grid == {"agent.discount": (0.98, 0.99)}


def test_train_without_run_creates_new_folder(tmp_path: Path) -> None:
    td3("train", *SMALL, "--quiet", cwd=tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("Pendulum-v1-quick-seed0-")


def test_train_tracks_with_wandb_offline(tmp_path: Path) -> None:
    environment = {**os.environ, "WANDB_MODE": "offline"}
    words = ["train", *SMALL, "--run", str(tmp_path / "run"), "--track", "wandb", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "td3", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (log,) = (tmp_path / "run/wandb").glob("offline-run-*/*.wandb")
    assert log.stat().st_size > 1000


def test_resume_of_finished_run_needs_more_steps(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = td3("resume", run, code=2)
    assert done.stderr.endswith(
        f"td3: {run} is finished (400 steps). To train longer: td3 resume {run} --steps 800\n"
    )
    before = sorted(run.rglob("*"))
    assert main(["resume", str(run), "--steps", "100"]) == 2
    assert capsys.readouterr().err == (
        f"td3: {run} already has 400 steps; give --steps a larger number.\n"
    )
    assert sorted(run.rglob("*")) == before
    td3("train", *SMALL, "--run", tmp_path / "run", "--quiet")
    td3("resume", tmp_path / "run", "--steps", "500", "--quiet")
    assert (tmp_path / "run/checkpoints/000000500").is_dir()


def test_evaluate_twice_gives_same_numbers(run: Path) -> None:
    first = json.loads(td3("evaluate", run, "--episodes", "3", "--json").stdout)
    again = json.loads(td3("evaluate", run, "--episodes", "3", "--json").stdout)
    assert first == again
    assert first["episodes"] == 6
    assert {row["agent"] for row in first["agents"]} == {"agent-0", "agent-1"}
    returns = [value for row in first["agents"] for value in row["returns"]]
    assert first["mean_return"] == pytest.approx(sum(returns) / 6)
    one = json.loads(td3("evaluate", run, "--agent", "1", "--episodes", "3", "--json").stdout)
    assert one["agents"] == [row for row in first["agents"] if row["agent"] == "agent-1"]
    assert "agent-0" in td3("evaluate", run, "--episodes", "2").stdout


def test_evaluate_on_training_seeds_repeats_training_evaluation(run: Path) -> None:
    """On the seeds of the evaluation that selected it, the stored policy gives equal returns."""
    from td3.policy.load import load_policy

    asked = ["--agent", "1", "--seed", "1", "--episodes", "2", "--json"]
    found = json.loads(td3("evaluate", run, *asked).stdout)
    assert found["mean_return"] == load_policy(run, agent=1).card["mean_return"]


def test_evaluate_of_stateful_simulator_repeats_training_evaluation(tmp_path: Path) -> None:
    """BipedalWalker keeps state across resets, so all episodes use one object, as in training."""
    small = ["--steps", "210", "--loop.random-steps", "200", "--evaluation.episodes", "3"]
    td3("train", "BipedalWalker-v3", *small, "--seed", "4", "--run", tmp_path / "run", "--quiet")
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    best = max(
        (record for record in records if record["kind"] == "evaluation"),
        key=lambda record: record["mean_return"],
    )
    asked = ["--seed", "4", "--episodes", "3", "--json"]
    found = json.loads(td3("evaluate", tmp_path / "run", *asked).stdout)
    assert found["agents"][0]["returns"] == best["returns"]


def test_evaluate_cuts_episodes_like_training(tmp_path: Path) -> None:
    small = ["--steps", "210", "--loop.random-steps", "200", "--evaluation.max-steps", "7"]
    td3("train", "Pendulum-v1", *small, "--run", tmp_path / "run", "--quiet")
    found = json.loads(td3("evaluate", tmp_path / "run", "--json").stdout)
    assert found["agents"][0]["mean_length"] == 7


def test_video_without_display_is_playable(run: Path, tmp_path: Path) -> None:
    done = td3("video", run, "--seconds", "1", "--out", tmp_path / "film.mp4", "--json")
    mp4, gif = (Path(path) for path in json.loads(done.stdout)["videos"])
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(mp4))
    assert (frames, seconds) == (20, pytest.approx(1.0, abs=0.1))
    assert (mp4.name, gif.name) == ("film.mp4", "film.gif")
    assert gif.read_bytes().startswith(b"GIF89a")


OWN_TASK = """
from pathlib import Path

import gymnasium as gym

with (Path(__file__).parent / "imports").open("a") as file:
    file.write("x")
gym.register("Own-v0", "gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=20)
"""


def test_evaluate_and_video_import_a_module_only_if_the_user_names_it(tmp_path: Path) -> None:
    (tmp_path / "own_task.py").write_text(OWN_TASK, encoding="utf-8")
    small = ["--steps", "210", "--loop.random-steps", "200", "--evaluation.episodes", "1"]
    done = td3("train", "own_task:Own-v0", *small, "--run", "run", "--show", cwd=tmp_path)
    assert "run/videos/agent-0.mp4" in done.stdout
    for command in ("evaluate run --episodes 100", "video run"):
        assert f"td3 {command} --environment own_task:Own-v0\n" in done.stdout
    (tmp_path / "imports").unlink()
    for source in ("run", "run/policy/agent-0.safetensors"):
        for command in ("evaluate", "video"):
            errors = td3(command, source, code=2, cwd=tmp_path).stderr
            assert errors == (
                "td3: The policy agent-0 names the task own_task:Own-v0, which imports the Python "
                "module own_task. If you trust it, repeat it: "
                f"td3 {command} {source} --environment own_task:Own-v0\n"
            )
    flags = ["--episodes", "5", "--which", "last", "--json"]
    errors = td3("evaluate", "run", *flags, code=2, cwd=tmp_path).stderr
    assert errors.endswith(f"--environment own_task:Own-v0 {' '.join(flags)}\n")
    errors = td3("video", "run", "--no-caption", "--out", "my film", code=2, cwd=tmp_path).stderr
    assert errors.endswith("--environment own_task:Own-v0 --out 'my film' --no-caption\n")
    assert not (tmp_path / "imports").exists()
    repeated = ["--environment", "own_task:Own-v0", "--json"]
    found = json.loads(td3("evaluate", "run", *repeated, cwd=tmp_path).stdout)
    assert (found["environment"], found["episodes"]) == ("own_task:Own-v0", 10)
    assert len(json.loads(td3("video", "run", *repeated, cwd=tmp_path).stdout)["videos"]) == 2
    assert (tmp_path / "imports").exists()


@pytest.mark.parametrize(
    ("words", "searched"),
    [
        (["evaluate", "none"], False),
        (["video", "none", "--seconds", "1"], False),
        (["evaluate", "none", "--environment", "my_package:MyEnv-v0"], True),
        (["video", "none", "--environment=my_package:MyEnv-v0"], True),
        (["resume", "none"], True),
    ],
)
def test_current_folder_is_searched_for_modules_only_if_the_user_names_the_task(
    words: list[str], searched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(words) == 2
    assert (str(tmp_path) in sys.path) == searched


def test_film_reports_progress(run: Path, tmp_path: Path) -> None:
    counts: list[int] = []
    film(load_policy(run), tmp_path / "film", episodes=2, seconds=0.2, on_frame=counts.append)
    assert len(counts) > 2
    assert counts == list(range(1, len(counts) + 1))


def test_video_of_mujoco_task_is_written(tmp_path: Path) -> None:
    small = ["--steps", "210", "--loop.random-steps", "200", "--evaluation.episodes", "1"]
    td3("train", "HalfCheetah-v5", *small, "--run", tmp_path / "run", "--quiet")
    td3("video", tmp_path / "run", "--seconds", "0.5")
    frames, _ = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "run/videos/agent-0.mp4"))
    assert frames == 10
    assert (tmp_path / "run/videos/agent-0.gif").stat().st_size > 5000


def test_plot_and_report_write_their_files(run: Path, tmp_path: Path) -> None:
    td3("plot", run, "--out", tmp_path / "curve")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "curve.svg").read_text()
    td3("report", run, "--out", tmp_path / "report")
    assert "Pendulum-v1" in (tmp_path / "report/report.md").read_text()
    assert "<html" in (tmp_path / "report/report.html").read_text()


def test_plot_reports_skipped_folders_and_end_of_mean(run: Path, tmp_path: Path) -> None:
    shorter = tmp_path / "shorter"
    words = ["300" if word == "400" else word for word in SMALL]
    td3("train", *words, "--seed", "7", "--run", shorter, "--quiet")
    errors = td3("plot", run, shorter, tmp_path, "--out", tmp_path / "curves").stderr
    assert f"Skipped (not run folders): {tmp_path}\n" in errors
    assert "quick: mean and interval end at step 200, the last one evaluated by all 4" in errors
    (shorter / "metrics.jsonl").write_text("")
    assert "mean and interval" not in td3("plot", run, shorter, "--out", tmp_path / "b").stderr
    td3("plot", run, tmp_path / "nowhere", code=2)


def test_recipes_lists_shows_and_copies(tmp_path: Path) -> None:
    assert set(json.loads(td3("recipes", "--json").stdout)) == {
        *("bullet", "course", "flash", "lean", "paper", "quick", "pixels", "pixels-quick")
    }
    assert "hidden_sizes = [400, 300]" in td3("recipes", "show", "course").stdout
    td3("recipes", "copy", "paper", tmp_path / "mine.toml")
    td3("recipes", "copy", "paper", tmp_path / "mine.toml", code=2)
    mine = tmp_path / "mine.toml"
    mine.write_text(mine.read_text().replace("batch_size = 256", "batch_size = 17"))
    words = [*SMALL, "--run", tmp_path / "run", "--recipe", mine, "--quiet"]
    td3("train", "Pendulum-v1", *words)
    text = (tmp_path / "run/config.toml").read_text()
    assert "batch_size = 17" in text
    assert 'recipe = "mine"' in text


MISTAKES: dict[str, tuple[list[str], str]] = {
    "command": (["trian"], "No command 'trian'. Did you mean 'train'?"),
    "flag": (["train", "--agent.batch-sze", "3"], "Did you mean --agent.batch-size?"),
    "flag without its table": (["train", "--discount", "1"], "Did you mean --agent.discount?"),
    "flag of two tables": (["train", "--keep-every", "3"], "mean --evaluation.keep-every?"),
    "flag of another tool": (["train", "--gamma", "0.9"], "Did you mean --agent.discount?"),
    "flag of the command": (["train", "--quite"], "Did you mean --quiet?"),
    "flag of another command": (["evaluate", "--episode", "3"], "Did you mean --episodes?"),
    "flag instead of a task": (["train", "--env", "Ant-v5"], "needs no flag: td3 train Ant-v5."),
    "flag with its task": (["train", "--env=Ant-v5"], "needs no flag: td3 train Ant-v5."),
    "flags without a task": (["train", "--env", "--foo"], "needs no flag: td3 train Pendulum-v1."),
    "steps of another tool": (["train", "--max-timesteps", "9"], "Did you mean --steps?"),
    "nothing to track": (["train", "Pendulum-v1", "--track"], "e.g. --track tensorboard."),
    "no recipe": (["train", "--recipe"], "--recipe needs a value, e.g. --recipe course."),
    "nothing to vary": (["train", "Pendulum-v1", "--grid", "--json"], "--grid needs a value"),
    "task for a run": (
        ["evaluate", "Hopper-v5"],
        "pretrained policy use --pretrained Hopper-v5, or",
    ),
    "value": (["train", "--agent.batch-size", "a"], "td3: --agent.batch-size: 'a' is not a whole"),
    "part of a step": (["train", "--steps", "1.5"], "--steps: '1.5' is not a whole number."),
    "no number": (["train", "--seeds", "ten"], "--seeds: 'ten' is not a whole number."),
    "number": (["train", "Pendulum-v1", "--agent.batch-size", "0"], "agent.batch_size must be"),
    "share": (["train", "Pendulum-v1", "--agent.tau", "2"], "agent.tau must be between 0 and 1"),
    "recipe": (["train", "--recipe", "papr"], "No recipe 'papr'. Did you mean 'paper'?"),
    "recipe file": (["train", "--recipe", "no.toml"], "No recipe file no.toml"),
    "environment": (["train", "Pendulm-v1"], "Did you mean 'Pendulum-v1'?"),
    "no environment": (["train"], "Name an environment"),
    "discrete": (["train", "CartPole-v1"], "needs continuous actions"),
    "device": (["train", "Pendulum-v1", "--device", "tpu"], "device must be cpu, cuda or auto"),
    "nothing to learn": (["train", "Pendulum-v1", "--steps", "10"], "must be less than loop.steps"),
    "run": (["resume", "runs/none"], "runs/none does not exist."),
    "file for a run": (["resume", "/dev/null"], "/dev/null is not a run folder."),
    "policy": (["evaluate", "runs/none"], "runs/none does not exist."),
    "video": (["video", "runs/none"], "runs/none does not exist."),
    "plot": (["plot", "runs/none"], "runs/none"),
    "report": (["report", "runs/none"], "runs/none"),
    "film for ever": (["video", "runs/none", "--seconds", "inf"], "must be greater than 0 and at"),
    "film of nothing": (["video", "runs/none", "--seconds", "nan"], "must be greater than 0 and"),
    "film nowhere": (["video", "runs/none", "--out", "."], "--out . is not a file name."),
    "many episodes": (
        ["evaluate", "runs/none", "--episodes", "10000000000000"],
        "between 1 and 1,000,000",
    ),
    "episodes": (
        ["evaluate", "runs/none", "--episodes", "0"],
        "--episodes must be between 1 and 1,000,000",
    ),
    "kwargs without a value": (["train", "--environment.kwargs", "g"], "expects pairs of name"),
    "missing run": (["resume"], "td3: RUN is missing. See 'td3 resume --help'."),
    "choice": (["plot", "--x", "y"], "--x: 'y' is not one of steps, hours."),
    "choices": (["export", "r", "--to", "c", "cpp"], "--to: 'cpp' is not one of numpy, c, js, on"),
    "shell": (["completion", "ksh"], "td3: 'ksh' is not one of bash, zsh, fish."),
    "no shell": (["completion"], "td3: Give bash, zsh or fish."),
    "no measurement": (["bench"], "td3: Give update or throughput. See 'td3 bench --help'."),
    "measurement": (["bench", "foo"], "td3: 'foo' is not one of update, throughput."),
    "unknown flag": (["evaluate", "r", "--foo", "5"], "td3: Unknown option --foo. See 'td3 eval"),
    "unknown flag of a trial": (["tune", "--step", "5"], "--step. Did you mean --steps?"),
    "two tasks": (["train", "A-v5", "B-v5"], "Only one ENVIRONMENT is allowed, got also B-v5."),
    "three folders": (["copy", "a", "b", "c"], "Only RUN and FOLDER are allowed, got also c."),
    "task of updates": (["bench", "update", "A-v5"], "Only options are allowed, got also A-v5."),
    "flag without value": (["evaluate", "r", "--episodes"], "td3: --episodes needs a value."),
    "kwargs": (["train", "Pendulum-v1", "--environment.kwargs", "gg", "3"], "Cannot make Pendulum"),
}


def test_whole_numbers_accept_exponent_underscore_and_point_zero() -> None:
    from td3.cli import parse
    from td3.cli.train import Arguments, default

    words = ["Pendulum-v1", "--steps", "1e6", "--loop.replay-size", "2_000", "--seeds", "3.0"]
    arguments = parse(Arguments, "train", words, default(words))
    assert (arguments.steps, arguments.config.seeds) == (10**6, 3)
    assert arguments.config.loop.replay_size == 2000


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_prints_one_sentence_and_returns_2(
    mistake: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    words, expected = MISTAKES[mistake]
    assert main(words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert expected in output.err
    assert output.err.startswith("td3: ")
    assert output.err.endswith((".\n", "?\n"))
    assert output.err.count("\n") == 1
    assert not list(tmp_path.iterdir()), "a refused command leaves nothing behind"


def test_recipe_with_unknown_key_names_it(tmp_path: Path, capsys: Any) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text("[agent]\nbatch_sise = 3\n")
    assert main(["train", "Pendulum-v1", "--recipe", str(recipe)]) == 2
    assert (
        "Unknown setting 'agent.batch_sise'. Did you mean 'agent.batch_size'?"
        in capsys.readouterr().err
    )
    recipe.write_text("[agent\n")
    assert main(["train", "Pendulum-v1", "--recipe", str(recipe)]) == 2
    assert "is not valid TOML" in capsys.readouterr().err


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    for command in COMMANDS:
        assert command in overview
        assert main([command, "--help-all"]) == 0
        text = capsys.readouterr().out
        assert f"td3 {command}" in text
        if command == "resume":
            assert "--steps INT" in text
            assert "--device STR" in text


def test_train_help_does_not_import_torch() -> None:
    code = (
        "import sys; from td3.cli import main\n"
        "main(['train', '--help']), main(['train', '--help-all'])\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("recipe", ["paper", "pixels"])
def test_train_help_fits_two_screens_of_80_columns(
    recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--recipe", recipe, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 50
    assert [line for line in lines if len(line) > 80] == []
    assert f"  {'--recipe':<30}Recipe or TOML file to start from [{recipe}]" in lines
    assert lines[-1] == "td3 train --help-all shows every setting."


def test_train_help_all_shows_every_setting_in_80_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["train", "--help-all"]) == 0
    text = capsys.readouterr().out.replace("[no-]", "")
    for key in declared_settings(Config):
        flag = key.removesuffix(".name").replace("_", "-")  # --variant, not --variant.name
        assert f"--{flag}" in text
    assert [line for line in text.splitlines() if len(line) > 80] == []


def complete(*words: str, cwd: Path) -> list[str]:
    """What bash suggests for the last of these words."""
    script = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tyro_td3; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    (cwd / "completion.sh").write_text(td3("completion", "bash").stdout)
    command = ["bash", "-c", script, "bash", "completion.sh", *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completion_suggests_commands_flags_and_choices(tmp_path: Path) -> None:
    assert complete("td3", "eval", cwd=tmp_path) == ["evaluate"]
    assert complete("td3", "train", "Ant-v5", "--agent.b", cwd=tmp_path) == ["--agent.batch-size"]
    assert complete("td3", "train", "--execution", "", cwd=tmp_path) == ["auto", "eager"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_contains_every_command(shell: str) -> None:
    script = td3("completion", shell).stdout
    assert [command for command in COMMANDS if command not in script] == []
    assert "--agent.batch-size" in script


def test_kwargs_are_read_as_bool_int_float_or_text() -> None:
    words = ["a", "True", "b", "3", "c", "0.5", "d", "x"]
    assert read_kwargs(words) == {"a": True, "b": 3, "c": 0.5, "d": "x"}
