"""The data of the page: what it contains, and which requests are refused."""

import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser import serving
from support.microscope import make_run

import td3
from td3.config import read_toml, to_toml
from td3.microscope import background, site
from td3.microscope.background import Experiment


def answer(root: Path, path: str, **query: str) -> dict[str, Any]:
    content = site.find(path, query, root)
    assert content is not None
    assert content.type == site.JSON
    found = json.loads(content.body)
    assert isinstance(found, dict)
    return found


def refusal(root: Path, path: str, **query: str) -> str:
    found = answer(root, path, **query)
    assert list(found) == ["error"]
    return str(found["error"])


@pytest.fixture
def root(run_of: Any) -> Path:
    """A folder with a run `td3`."""
    folder: Path = run_of[""].parent
    return folder


def test_update_has_the_numbers_of_record_update(root: Path) -> None:
    found = answer(root, "microscope/update", run="td3", agent="1", step="160", ahead="1")
    update = td3.record_update(root / "td3", 1, 160, ahead=1)
    for name in ("target_q", "values", "smoothed_action", "slope", "bootstrap"):
        assert np.allclose(found[name], getattr(update, name), rtol=1e-5), name
    assert found["number"] == update.number
    assert found["distances"]["actor"] == pytest.approx(update.distances["actor"], rel=1e-5)
    assert update.episodes is not None
    assert found["transition"] == update.episodes.numbers.tolist()


def test_run_lists_agents_and_all_checkpoints(root: Path) -> None:
    found = answer(root, "microscope/run", run="td3")
    assert found["steps"] == [80, 160, 240]
    assert found["agents"] == ["seed 0", "seed 1"]
    assert (found["keep_every"], found["imports"]) == (80, [])


def test_episode_and_landscape_belong_to_the_chosen_transition(root: Path) -> None:
    query = {"run": "td3", "sample": "5"}
    update = td3.record_update(root / "td3")
    episode = answer(root, "microscope/episode", **query)
    assert episode["rewards"][episode["position"]] == pytest.approx(update.reward[5], rel=1e-5)
    assert episode["position"] in episode["chosen"]
    landscape = answer(root, "microscope/landscape", **query)
    assert np.shape(landscape["target"]["values"]) == (2, 41)
    assert np.shape(landscape["cloud"]) == (300, 1)


def test_returns_play_the_policy_of_the_checkpoint(root: Path) -> None:
    found = answer(root, "microscope/returns", run="td3", step="240", episodes="2")
    assert (found["step"], found["episodes"], found["states"]) == (240, 2, 400)
    points = np.array(found["points"])
    assert points[:, 0].max() < 0  # rewards of Pendulum are negative
    assert found["missing"] < 0.01


def test_steps_show_lines_that_are_in_the_files(root: Path) -> None:
    steps = answer(root, "microscope/steps", run="td3")["steps"]
    assert [own["number"] for own in steps] == list(range(1, 16))
    package = Path(td3.__file__).parents[1]
    for own in steps:
        lines = (package / own["code"]["file"]).read_text(encoding="utf-8").splitlines()
        first = own["code"]["text"].splitlines()[0].strip()
        assert lines[own["code"]["line"] - 1].strip() == first
        assert own["own"] == []  # plain TD3 overrides nothing


@pytest.mark.parametrize(
    "name",
    ["", ".", "./", "./..", "..", "../td3", "td3/..", "/etc", "td3/../../etc", "td3\0", "none",
     "td3/config.toml", "x" * 5000, "~", "td3//../td3"],
)  # fmt: skip
def test_path_that_is_no_run_is_refused(root: Path, name: str) -> None:
    for path in site.ANSWERS:
        found = refusal(root, path, run=name)
        assert "There is no run" in found or "not a run folder" in found, (path, found)
        assert len(found) < 400


def test_folder_that_is_a_run_itself_is_called_a_dot(root: Path) -> None:
    assert answer(root / "td3", "microscope/run", run=".")["steps"] == [80, 160, 240]


def test_link_to_a_run_elsewhere_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root / "td3")
    assert "There is no run" in refusal(tmp_path, "microscope/run", run="link")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"agent": "-1"}, "agent must be a whole number"),
        ({"agent": "1e3"}, "agent must be a whole number"),
        ({"agent": "²"}, "agent must be a whole number"),
        ({"agent": "9" * 30}, "agent must be a whole number"),
        ({"agent": "7"}, "has no agent 7"),
        ({"step": "81"}, "has no checkpoint of step 81"),
        ({"ahead": "5000"}, "ahead must be from 0 to 100"),
        ({"sample": "32"}, "transitions 0 to 31"),
        ({"x": "3"}, "only the number 0"),
    ],
)
def test_wrong_number_is_one_sentence(root: Path, query: dict[str, str], message: str) -> None:
    assert message in refusal(root, "microscope/landscape", run="td3", **query)


def test_unknown_address_has_no_answer(root: Path) -> None:
    for path in (
        "microscope",
        "microscope/",
        "microscope/../run",
        "microscope/none",
        "microscope.html",
    ):
        assert site.find(path, {"run": "td3"}, root) is None


def test_run_with_a_class_of_a_user_asks_before_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "from td3 import TD3\nclass Own(TD3):\n    pass\n"
    (tmp_path / "planted_by_run.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    make_run(tmp_path / "run", "planted_by_run:Own")
    sys.modules.pop("planted_by_run")
    query = {"run": "run"}
    assert answer(tmp_path, "microscope/run", **query)["imports"] == ["planted_by_run:Own"]
    for path in ("update", "steps", "episode", "landscape", "returns"):
        assert "must import its module" in refusal(tmp_path, f"microscope/{path}", **query)
    assert "planted_by_run" not in sys.modules
    found = answer(tmp_path, "microscope/update", **query, **{"import": "planted_by_run:Own"})
    assert found["class"] == "Own"


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("variant", 'name = "planted_by_run:Own"'),
        ("environment", 'id = "planted_by_run:make"'),
        ("environment", 'id = "planted_by_run:Own-v0"'),
        ("environment", 'kwargs = {wrapper = "planted_by_run:make"}'),
        ("grid", '"variant.name" = ["planted_by_run:Own"]'),
        ("", 'variant = "planted_by_run:Own"'),
    ],
)
@pytest.mark.parametrize("place", ["run", "run/kept/000000080"])
def test_module_that_only_a_run_names_is_not_imported(
    run_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, table: str, line: str
) -> None:
    code = f"open({str(tmp_path / 'imported')!r}, 'w')"
    (tmp_path / "planted_by_run.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copytree(run_of[""], tmp_path / "run")
    config = tmp_path / place / "config.toml"
    tables = read_toml(config)
    (key, value), *_ = tomllib.loads(line).items()
    target = tables.setdefault(table, {}) if table else tables
    target[key] = value
    config.write_text(to_toml(tables))
    assert "planted_by_run" in config.read_text()
    for path in site.ANSWERS:
        answer(tmp_path, path, run="run", step="80")
    assert not (tmp_path / "imported").exists()


def test_damaged_and_missing_checkpoints_are_one_sentence(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", seeds=1)
    (run / "checkpoints" / "000000240" / "state.safetensors").write_bytes(b"x" * 100)
    assert "No checkpoint" in refusal(tmp_path, "microscope/update", run="run", step="240")
    assert answer(tmp_path, "microscope/update", run="run", step="160")["number"] == 120
    for folder in (run / "checkpoints").iterdir():
        folder.rename(tmp_path / folder.name)
    assert "has no checkpoint yet" in refusal(tmp_path, "microscope/update", run="run")


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 400
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


@pytest.fixture
def experiment() -> Iterator[Experiment]:
    experiment = Experiment()
    yield experiment
    experiment.stop()


def test_experiment_trains_and_its_folder_goes(experiment: Experiment) -> None:
    experiment.start(experiment.key, "noise", ["delay"], updates=500, seeds=1)
    assert experiment.folder is not None
    folder = Path(experiment.folder.name)
    wait_for(lambda: not experiment.state()["running"])
    found = experiment.state()
    assert found["ended"] == "finished"
    for name in ("predicted", "achieved"):
        curves = found["curves"][name]
        assert list(curves) == ["0", "1"]
        assert [updates for updates, _ in curves["0"]] == [0, 500]
    assert [updates for updates, _ in found["curves"]["q"]["1"]] == [500]
    for points in found["curves"]["achieved"].values():
        assert {value for _, value in points} == {0}  # the expected rewards of this world
    experiment.stop()
    assert not folder.exists()
    assert experiment.state()["running"] is False


def test_experiment_starts_with_its_key_once(experiment: Experiment) -> None:
    key = experiment.key
    for wrong in ("", key[:-1], "ä"):
        with pytest.raises(td3.UserError, match="Load the page again"):
            experiment.start(wrong, "noise", ["twin"])
    with pytest.raises(td3.UserError, match="at least one of"):
        experiment.start(key, "noise", ["twin", "--run=/tmp/x"])
    with pytest.raises(td3.UserError, match="task must be one of: noise, pendulum"):
        experiment.start(key, "os:system", ["twin"])
    assert experiment.link is None
    experiment.start(key, "noise", ["twin"])
    first = experiment.link
    with pytest.raises(td3.UserError, match="Load the page again"):
        experiment.start(key, "noise", ["twin"])
    experiment.start(experiment.key, "pendulum", ["smoothing"])
    assert first is not None
    assert first.process.poll() is not None  # one process at a time
    assert experiment.state()["off"] == ("smoothing",)
    experiment.stop()
    assert experiment.link is None


def test_other_web_page_cannot_start_an_experiment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(background.Experiment, "start", lambda *given: started.append(given))
    with serving(lambda path, query: site.find(path, query, root)) as server:
        good = f"/{server.token}/microscope/tricks/start?off=twin&key=k"
        for path, headers, status in (
            (good.replace(server.token, "wrong"), {}, 403),
            (good, {"Origin": "http://evil.example"}, 403),
            (good, {"Sec-Fetch-Site": "cross-site"}, 403),
            (good, {"Sec-Fetch-Site": "same-site"}, 403),
            (good, {"Sec-Fetch-Site": "same-origin"}, 200),
        ):
            connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
            connection.request("GET", path, headers=headers)
            assert connection.getresponse().status == status
            connection.close()
            assert len(started) == (status == 200)
    site.close()


def test_experiment_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = (
        "import os, time; from td3.microscope.background import Experiment; e = Experiment(); "
        "e.start(e.key, 'noise', ['twin']); print(e.link.process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    wait_for(lambda: not is_alive(child))


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
