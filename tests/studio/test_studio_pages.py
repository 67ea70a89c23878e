"""What the pages say about a run: advice, explanations, the command, comparisons, searches."""

import io
import json
import re
import shlex
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.studio import ask, make_folder, rows

from td3.cli import parse
from td3.cli.train import Arguments, default, resolve_config
from td3.config import changes, from_dict, read_toml, to_dict
from td3.doctor.learning_checks import Learner, check_learner, check_units, dead_units
from td3.policy.load import load_policy
from td3.policy.pretrained import pretrained
from td3.report.curves import curves
from td3.report.summary import read_run
from td3.studio import explain, site
from td3.studio.command import FACTS, train_command
from td3.studio.site import Studio, play_token

ROOT = Path(__file__).parents[2]
STORED = ROOT / "benchmarks" / "results"
CONFIGS = [*STORED.rglob("config.toml"), *(ROOT / "tests" / "formats").rglob("run/config.toml")]
STEPS = np.arange(0, 400_000, 5000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_folder(tmp_path_factory.mktemp("studio") / "runs")
    (root / "finished" / "policy").mkdir()
    (root / "finished" / "videos").mkdir()
    for name in ("agent-0", "agent-0-last"):
        shutil.copy(pretrained("Reacher-v5"), root / "finished" / "policy" / f"{name}.safetensors")
    (root / "finished" / "videos" / "agent-0.mp4").write_bytes(b"film")
    return root


@pytest.fixture(scope="module")
def studio(folder: Path) -> Studio:
    studio = Studio(folder, {"mine": STORED.parent / "reference" / "tianshou.csv"})
    rows(studio)
    return studio


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_command_of_a_run_gives_its_settings(path: Path) -> None:
    tables = read_toml(path)
    words = shlex.split(train_command(tables))
    assert words[:2] == ["td3", "train"]
    found = resolve_config(parse(Arguments, "train", words[2:], default(words[2:])))
    wanted = from_dict({key: value for key, value in tables.items() if key not in FACTS})
    different = changes(to_dict(wanted), to_dict(found))
    assert different.keys() <= {"recipe"}  # one of your own is spelled out in flags


def learner(**lines: Any) -> Learner:
    settings = {"loop.random_steps": 10_000, "agent.discount": 0.99}
    arrays = {
        name: (STEPS[: len(values)], np.asarray(values, float)) for name, values in lines.items()
    }
    return Learner("Agent 0", arrays, settings)


def found_by(own: Learner) -> list[str]:
    return [check.name for check in check_learner(own)]


RISING = np.linspace(0, 1000, len(STEPS))
LENGTHS = np.full(len(STEPS), 100.0)


def test_checks_healthy_agent_has_no_warning() -> None:
    healthy = learner(
        mean_return=RISING,
        std_return=LENGTHS,
        q=RISING / 2,
        saturated=np.full(len(STEPS), 0.98),
        episode_return=RISING,
        episode_length=LENGTHS,
    )
    assert found_by(healthy) == []
    assert found_by(learner()) == []


def test_checks_stored_runs_that_learned_have_no_warning() -> None:
    for path in CONFIGS:
        if "formats" in path.parts:
            continue
        run = read_run(path.parent)
        for agent, own in run.evaluations.items():
            names = ("q", "saturated", "episode_return", "episode_length")
            lines = {name: run.logged(name, agent) for name in names}
            lines |= {"mean_return": (own.steps, own.mean_returns)}
            lines |= {"std_return": (own.steps, own.std_returns)}
            problems = set(found_by(Learner("x", lines, run.settings)))
            assert problems <= {"collapse"}, (path, agent, problems)


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ({"mean_return": -5 * np.ones(len(STEPS)), "std_return": np.ones(80)}, "no learning"),
        ({"mean_return": np.r_[RISING[:60], np.zeros(20)], "std_return": np.ones(80)}, "collapse"),
        ({"saturated": np.ones(80)}, "saturated actions"),
        (
            {"q": 1e6 * np.ones(80), "episode_return": RISING, "episode_length": LENGTHS},
            "exploding Q",
        ),
    ],
)
def test_checks_sick_agent_is_reported_with_advice(lines: dict[str, Any], name: str) -> None:
    (check,) = check_learner(learner(**lines))
    assert check.name == name
    assert check.advice


def test_checks_early_run_is_not_judged() -> None:
    assert found_by(learner(mean_return=np.zeros(10), std_return=np.ones(10))) == []


def test_dead_units_are_counted_on_states() -> None:
    policy = load_policy(pretrained="Reacher-v5")
    states = np.random.default_rng(0).normal(size=(50, 10)).astype(np.float32)
    policy.layers[0][1][:250] = -1e6  # these units never wake
    first, second = dead_units(policy, states)
    assert first == (250, 256) or first[0] >= 250
    assert second[1] == 256
    (check,) = check_units("Agent 0", [first, (100, 256)])
    assert "of 256 units in hidden layer 1" in check.message


def test_explanations_come_from_the_guide() -> None:
    found = explain.explanations()
    text = json.dumps(found["q"]["blocks"])
    assert "overestimation or divergence" in text
    assert {block["tone"] for block in found["critic-loss"]["blocks"]} == {"", "good", "bad"}
    assert explain.signs("q")["alarming"] == "far beyond any possible return"
    assert explain.signs("actor_loss") == {"healthy": "about −Q", "alarming": ""}
    assert explain.signs("episodes") == {"healthy": "", "alarming": ""}


def test_every_metric_that_training_writes_is_explained() -> None:
    names = {"mean_return", "std_return", "success", "steps_per_second", "info.x_velocity"}
    source = (ROOT / "src/td3/training/metrics.py").read_text()
    names |= set(re.findall(r'"(\w+)": (?:mean|int)\(', source)) | {"critic_loss", "q"}
    assert {"saturated", "updates", "episode_length", "episodes"} <= names
    assert {
        name for name in names if explain.anchor_of(name) not in explain.explanations()
    } == set()


def test_wheel_includes_the_guide() -> None:
    tables = (ROOT / "pyproject.toml").read_text()
    assert f'"{explain.GUIDE}" = "td3/studio/{explain.PACKAGED.name}"' in tables


def test_run_page_has_everything(studio: Studio) -> None:
    page = ask(studio, "run", run="finished")
    names = [metric["name"] for metric in page["metrics"]]
    assert names[:3] == ["mean_return", "episode_return", "q"]
    assert page["films"] == ["agent-0.mp4"]
    assert page["policies"] == ["agent-0", "agent-0-last"]
    assert page["events"][0]["event"] == "finish"
    assert page["wall_seconds"] == pytest.approx(40_000 / 300, rel=1e-3)
    assert [own["seed"] for own in page["agents"]] == [0, 1, 2]
    assert page["playable"]
    assert "corrupt" in ask(studio, "run", run="corrupt")["row"]["status"]


def test_episodes_have_the_returns_of_each_evaluation(studio: Studio) -> None:
    found = ask(studio, "episodes", run="finished", agent="1")
    stored = read_run(studio.root / "finished").evaluations[1]
    assert [own["step"] for own in found] == stored.steps.tolist()
    means = [float(np.mean(own["returns"])) for own in found]
    assert means == pytest.approx(stored.mean_returns.tolist())


def test_compare_has_the_curves_of_td3_plot(studio: Studio) -> None:
    keys = ["finished", "sweep/grid"]
    answer = ask(studio, "compare", runs=keys, references=["mine"])
    expected = curves([read_run(studio.root / key) for key in keys])
    assert [own["label"] for own in answer["curves"]] == [own.label for own in expected]
    for own, curve in zip(answer["curves"], expected, strict=True):
        assert own["mean"]["y"] == pytest.approx(curve.mean.tolist(), rel=1e-6)
        assert own["low"] == pytest.approx(curve.low.tolist(), rel=1e-6)
        assert len(own["lines"]) == len(curve.lines)
    assert {own["environment"] for own in answer["references"]} == {"HalfCheetah-v5", "Ant-v5"}
    differ = [row["name"] for row in answer["settings"] if row["differ"]]
    assert "environment.id" in differ
    assert "agent.discount" not in differ
    assert answer["settings"][0]["differ"]


def test_task_without_models_or_curves_offers_neither_playground_nor_references(
    tmp_path: Path,
) -> None:
    make_folder(tmp_path / "runs")
    config = tmp_path / "runs" / "finished" / "config.toml"
    config.write_text(config.read_text().replace("HalfCheetah-v5", "Unheard-v0"))
    studio = Studio(tmp_path / "runs", {"mine": STORED.parent / "reference" / "tianshou.csv"})
    rows(studio)
    assert not ask(studio, "run", run="finished")["playable"]
    assert ask(studio, "compare", runs=["finished"])["offered"] == []
    assert "mine" in ask(studio, "compare", runs=["finished", "sweep/grid"])["offered"]


def test_compare_against_hours_uses_the_times_of_the_runs(studio: Studio) -> None:
    (curve,) = ask(studio, "compare", runs=["finished"], x="hours")["curves"]
    assert curve["mean"]["x"][-1] == pytest.approx(40_000 / 300 / 3600, rel=1e-3)


def test_points_of_a_grid_are_its_combinations(studio: Studio) -> None:
    found = ask(studio, "points", runs=["sweep/grid"])
    assert [own["settings"] for own in found] == [{"agent.tau": 0.005}, {"agent.tau": 0.02}]
    assert [own["agents"] for own in found] == [[0, 1], [2, 3]]
    assert all(own["value"] and own["seeds"] == 2 for own in found)


def test_study_is_read_from_its_journal_without_a_change(studio: Studio, folder: Path) -> None:
    journal = folder / "tune-hopper" / "study.journal"
    before = journal.stat().st_mtime_ns
    with journal.open("a") as file:
        file.write('{"op_code": 4, "stud')  # half a line
    stamp = journal.stat()
    page = ask(studio, "study", study="tune-hopper")
    assert journal.stat().st_mtime_ns == stamp.st_mtime_ns >= before
    assert (page["task"], page["plan"]["trials"], len(page["trials"])) == ("Hopper-v5", 8, 5)
    assert page["trials"][3]["settings"] == {"agent.discount": 0.96, "agent.tau": 0.02}
    assert [own["state"] for own in page["trials"]] == ["complete"] * 4 + ["running"]
    assert page["trials"][4]["value"] == 42.0


def test_study_equals_the_trials_that_td3_tune_stores(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    from optuna.storages.journal import JournalFileBackend

    folder = tmp_path / "tune"
    folder.mkdir()
    (folder / "tune.toml").write_text('[settings.environment]\nid = "x"\n')
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(folder / "study.journal")))
    study = optuna.create_study(storage=storage, direction="maximize")
    for k in range(3):
        trial = study.ask()
        trial.suggest_float("1 - agent.discount", 0.001, 0.1, log=True)
        trial.suggest_categorical("agent.hidden_sizes", ["64 64", "400 300"])
        trial.report(1.5 * k, 1000)
        study.tell(trial, 2.0 * k)
    page = ask(Studio(tmp_path), "study", study="tune")
    for found, own in zip(page["trials"], study.trials, strict=True):
        discount = 1 - own.params["1 - agent.discount"]
        shape = own.params["agent.hidden_sizes"]
        assert found["settings"] == {"agent.discount": discount, "agent.hidden_sizes": shape}
        assert (found["value"], found["means"]) == (own.value, [[1000, 1.5 * own.number]])
        assert found["state"] == "complete"


def test_film_and_exports_are_downloads(studio: Studio) -> None:
    film = studio.find("film", {"run": "finished", "name": "agent-0.mp4"})
    assert film == (b"film", "video/mp4", "")
    query = {"run": "finished", "policy": "agent-0"}
    policy = studio.find("export", query | {"kind": "policy"})
    assert policy is not None
    assert policy.body == Path(pretrained("Reacher-v5")).read_bytes()
    assert policy.download == "finished-agent-0.safetensors"
    made = studio.find("export", query | {"kind": "numpy"})
    assert made is not None
    names = zipfile.ZipFile(io.BytesIO(made.body)).namelist()
    assert "finished-agent-0-numpy/policy_vectors.bin" in names
    assert not (studio.root / "finished" / "exports").exists()


def test_playground_of_a_run_is_below_the_studio(studio: Studio) -> None:
    base = f"play/{play_token('finished')}"
    page = studio.find(f"{base}/", {})
    assert page is not None
    assert b"td3 playground" in page.body
    policies = studio.find(f"{base}/policies.json", {})
    assert policies is not None
    names = [own["name"] for own in json.loads(policies.body)["policies"]]
    assert names == ["finished-agent-0", "finished-agent-0-last"]
    assert studio.find(f"play/{'0' * 16}/", {}) is None


@pytest.mark.parametrize(
    "name", ["../config.toml", "config.toml", "/etc/passwd", "", "agent-0.mp4/"]
)
def test_file_that_is_not_listed_is_not_served(studio: Studio, name: str) -> None:
    assert studio.find("film", {"run": "finished", "name": name}) is None
    query = {"run": "finished", "policy": name, "kind": "policy"}
    assert studio.find("export", query) is None
    assert studio.find("export", {"run": "finished", "policy": "agent-0", "kind": name}) is None
    for path in (name, f"api/{name}", f"play/{play_token('finished')}/../{name}"):
        found = studio.find(path, {})
        assert found is None or b"td3 playground" in found.body


@pytest.mark.parametrize("key", ["../finished", "/etc", "finished/../killed", "finished/", "\0"])
def test_run_that_is_not_listed_is_not_found(studio: Studio, key: str) -> None:
    for name in ("run", "series", "episodes", "units"):
        assert ask(studio, name, run=key) is None
    assert ask(studio, "study", study=key) is None
    assert ask(studio, "compare", runs=[key])["curves"] == []


def test_microscope_is_asked_for_its_own_addresses_only(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(site, "find_microscope", lambda *given: asked.append(given))
    assert studio.find("microscope/update.json", {"run": "x"}) is None
    assert asked == [("microscope/update.json", {"run": "x"}, studio.root)]
