"""`td3 export --to hub` writes a model repository that the Hub can read."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.policies import POSITION, make_policy

import td3
from td3.config import load_recipe
from td3.errors import UserError
from td3.exports import hub
from td3.exports.hub import Repository, hub_files, run_of
from td3.policy.policy import Policy
from td3.run.folder import read_config

RUN = Path(__file__).parents[2] / "benchmarks/results/halfcheetah-v5-100k"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy of a stored run, with a film of its best policy."""
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    (run / "videos").mkdir()
    (run / "videos/agent-2.mp4").write_bytes(b"film")
    return run


def card_of(policy: Policy, repository: Repository) -> str:
    return hub_files(policy, repository, {})["README.md"].decode()


def test_hub_repository_of_a_pretrained_policy_is_complete(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    pytest.importorskip("onnxscript")
    hub_package = pytest.importorskip("huggingface_hub")
    policy = td3.load_policy(pretrained="InvertedPendulum-v5")
    paths = td3.export(policy, "hub", tmp_path, licence="apache-2.0")
    names = {path.name for path in paths}
    assert names >= {"README.md", "policy.py", "policy.c", "policy.mjs", "policy.onnx"}
    assert names >= {"policy.pt2", "policy.safetensors", "policy_vectors.bin"}
    card = hub_package.ModelCard((tmp_path / "README.md").read_text())
    assert card.data.license == "apache-2.0"
    assert card.data.to_dict()["library_name"] == "td3"
    assert card.data.model_name == "TD3"
    [result] = card.data.eval_results
    assert (result.dataset_name, result.metric_type) == ("InvertedPendulum-v5", "mean_reward")
    assert result.metric_value == "1000.00 +/- 0.00"
    assert "| 100 | 1,000 | 1,000 to 1,000 | 0 |" in card.text
    assert "td3 train InvertedPendulum-v5 --recipe paper --seeds 10" in card.text
    for name in names - {"README.md"}:
        assert f"`{name}`" in card.text
    again = td3.load_policy(tmp_path / "policy.safetensors")
    observation = np.float32([0.1, 0.2, 0.3, 0.4])
    assert again(observation) == policy(observation)
    assert again.card["tested"] == policy.card["tested"]


def test_hub_card_of_a_run_has_its_recipe_film_and_returns(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.setattr(hub, "EPISODES", 2)
    policy = td3.load_policy(run)
    files = hub_files(policy, Repository(run_of(run / "policy/agent-2.safetensors")), {})
    assert files["replay.mp4"] == b"film"
    text = files["README.md"].decode()
    evaluation = policy.evaluate(2)
    assert f"{evaluation.mean:,.0f}" in text
    assert "td3 evaluate policy.safetensors --episodes 2" in text
    assert "The policy is that of seed 2 at step 100000." in text
    assert "| agent.batch\\_size | 256 |" in text
    assert "| version of mujoco | 3.11.0 |" in text
    assert "replay.mp4" in text
    recipe = tmp_path / "recipe.toml"
    recipe.write_bytes(files["recipe.toml"])
    found, original = load_recipe(str(recipe)), read_config(run)[0]
    assert (found.agent, found.loop, found.environment) == (
        original.agent,
        original.loop,
        original.environment,
    )


def test_hub_card_of_a_task_that_cannot_be_played_reports_training() -> None:
    policy, _ = make_policy(POSITION)
    text = card_of(policy, Repository())
    assert "model-index" not in text
    policy.card |= {"mean_return": 12.5, "std_return": 1.0}
    text = card_of(policy, Repository())
    assert '"12.50 +/- 1.00"' in text
    assert "which is biased upwards" in text
    assert "its recipe is not known" in text


def test_hub_card_is_safe_from_text_in_a_policy() -> None:
    hub_package = pytest.importorskip("huggingface_hub")
    policy, _ = make_policy(POSITION)
    policy.card["environment"]["id"] = 'a"\n---\nlicense: gpl\n# <b>'
    card = hub_package.ModelCard(card_of(policy, Repository()))
    assert card.data.license == "mit"
    assert "<b>" not in card.text
    assert "\n# &lt;" not in card.text


def test_hub_film_is_given_or_missing(run: Path, tmp_path: Path) -> None:
    policy, _ = make_policy(POSITION)
    film = tmp_path / "film.mp4"
    with pytest.raises(UserError, match=r"Cannot read the film .*film.mp4: No such file"):
        hub_files(policy, Repository(film=film), {})
    film.write_bytes(b"other")
    assert hub_files(policy, Repository(film=film), {})["replay.mp4"] == b"other"
    link = run / "videos/some.mp4"
    link.symlink_to(film)
    assert "replay.mp4" not in hub_files(policy, Repository(run), {})
