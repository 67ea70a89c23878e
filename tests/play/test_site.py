"""The files of the playground: what it shows, and what it leaves out."""

import inspect
import json
import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from td3.errors import UserError
from td3.play.entries import PAGE, describe, numbers, tasks
from td3.play.site import finder, make_files
from td3.play.sources import FILMS, policies_to_play, pretrained_policies
from td3.policy.load import load_policy
from td3.policy.policy import Policy
from td3.policy.pretrained import names, pretrained


def changed(policy: Policy, **environment: object) -> Policy:
    card = {**policy.card, "environment": {**policy.card["environment"], **environment}}
    return Policy(card, policy.tensors)


def test_site_simulates_every_pretrained_mujoco_policy() -> None:
    entries = json.loads(make_files(pretrained_policies())["policies.json"]())["policies"]
    assert [entry["name"] for entry in entries if not entry["reason"]] == list(tasks())
    others = {entry["name"]: entry["reason"] for entry in entries if entry["reason"]}
    assert set(others) == {name for name in names() if "Bullet" in name}
    assert all(entry["film"].startswith("films/") for entry in entries if entry["reason"])
    assert others["AntBulletEnv-v0"] == (
        "AntBulletEnv-v0 is none of the MuJoCo tasks that this page simulates."
    )


def test_site_models_and_settings_are_those_of_gymnasium() -> None:
    """The defaults in tasks.json, against the signatures of the installed Gymnasium."""
    files = make_files([])
    for task, facts in tasks().items():
        spec = gymnasium.spec(task)
        assert facts["max_steps"] == spec.max_episode_steps
        env = gymnasium.make(task).unwrapped
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(type(env)).parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        found = {"xml_file": facts["model"], "frame_skip": facts["frame_skip"]} | facts["settings"]
        del defaults["default_camera_config"]
        given = {
            k: v if np.isscalar(v) else list(np.where(np.isfinite(v), v, None))
            for k, v in defaults.items()
        }
        assert found == given, task
        xml = Path(env.fullpath).read_bytes()  # type: ignore[attr-defined]
        assert files[f"models/{facts['model']}"]() == xml
        env.close()


def test_entry_card_and_numbers_describe_the_policy() -> None:
    policy = load_policy(pretrained="Reacher-v5")
    entry = describe(policy, "Reacher-v5", "Reacher")
    assert entry["sizes"] == [10, 256, 256, 2]
    assert entry["mean_return"] == policy.card["tested"]["mean_return"]
    assert (entry["max_steps"], entry["episodes"], entry["reason"]) == (50, 100, "")
    floats = np.frombuffer(numbers(policy), dtype="<f4")
    (first, _), *_, (_, last) = policy.layers
    assert np.array_equal(floats[: first.size], first.ravel())
    assert np.array_equal(floats[-2:], last)
    assert floats.size == 10 * 256 + 256 + 256 * 256 + 256 + 256 * 2 + 2


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"id": "Pendulum-v1"}, "Pendulum-v1 is none of the MuJoCo tasks"),
        ({"kwargs": {"xml_file": "/etc/passwd"}}, "does not know the setting xml_file"),
        ({"kwargs": {"ctrl_cost_weight": 0.5}}, ""),
        ({"action_repeat": 2}, ""),
    ],
)
def test_entry_task_that_the_page_cannot_simulate_has_a_reason(
    environment: dict[str, object], reason: str
) -> None:
    entry = describe(changed(load_policy(pretrained="Hopper-v5"), **environment), "x", "x")
    assert reason in entry["reason"]
    assert bool(reason) == bool(entry["reason"])
    assert ("model" in entry) == (not reason)


def test_sources_run_shows_its_policies_film_and_the_pretrained_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for name in ("agent-0", "agent-1", "agent-0-last"):
        target = run / "policy" / f"{name}.safetensors"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pretrained("AntBulletEnv-v0"), target)
    (run / "videos").mkdir()
    (run / "videos" / "agent-1.mp4").write_bytes(b"film")
    (run / "videos" / "agent-0.mp4").symlink_to("/etc/passwd")
    (run / "secret.txt").write_text("only for me")
    files = make_files(policies_to_play([run], ""))
    entries = json.loads(files["policies.json"]())["policies"]
    expected = ["run-agent-0", "run-agent-1", "run-agent-0-last", "AntBulletEnv-v0"]
    assert [entry["name"] for entry in entries] == expected
    films = [None, "films/1.mp4", None, "films/3.mp4"]
    assert [entry.get("film") for entry in entries] == films
    assert files["films/1.mp4"]() == b"film"
    assert not any(b"only for me" in read() or b"root:x:0" in read() for read in files.values())


def test_sources_what_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        policies_to_play([tmp_path / "nothing"], "")
    with pytest.raises(UserError, match="Did you mean 'Hopper-v5'"):
        policies_to_play([], "Hoper-v5")


def test_finder_serves_files_by_exact_address_only() -> None:
    find = finder(make_files([]))
    for path, kind in (
        ("index.html", "text/html; charset=utf-8"),
        ("main.js", "text/javascript; charset=utf-8"),
        ("vendor/mujoco.wasm.gz", "application/gzip"),
        ("models/ant.xml", "text/xml; charset=utf-8"),
    ):
        content = find(path, {})
        assert content is not None
        assert content.type == kind
    for path in (
        "../__init__.py",
        "entries.py",
        "models/../index.html",
        "models/",
        "policies/0.bin",
    ):
        assert find(path, {}) is None


def test_page_first_frame_needs_less_than_six_megabytes() -> None:
    files = make_files(pretrained_policies())
    first = [name for name in files if not name.startswith(("models/", "policies/", "films/"))]
    first += ["models/humanoid.xml", f"policies/{list(tasks()).index('Humanoid-v5')}.bin"]
    assert sum(len(files[name]()) for name in first) < 6_000_000  # even without compression


def test_site_films_belong_to_pretrained_policies() -> None:
    assert {film.stem for film in FILMS.iterdir()} == set(names()) - set(tasks())


def test_page_loads_nothing_from_other_servers() -> None:
    for path in PAGE.glob("*.*"):
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path.name


def test_offline_page_lists_its_files_and_its_version() -> None:
    first, second = ([*pretrained_policies()[:count]] for count in (1, 2))
    pages = [json.loads(make_files(s, offline=True)["policies.json"]()) for s in (first, second)]
    assert {"./", "index.html", "vendor/mujoco.wasm.gz", "policies/0.bin"} <= set(pages[0]["files"])
    assert pages[0]["version"] != pages[1]["version"]
    assert "version" not in json.loads(make_files(first)["policies.json"]())
