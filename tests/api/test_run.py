"""A Run has everything that training gave, live and from its folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.run_tools import tiny

import td3
from td3.api.files import Files
from td3.errors import UserError
from td3.launch import restore
from td3.run.lock import lock_run

STORED = Path(__file__).parents[2] / "benchmarks/results/halfcheetah-v5-100k"
SETTINGS: dict[str, Any] = {
    "seeds": 2,
    "loop": {"steps": 150, "random_steps": 50, "replay_size": 120, "log_every": 50},
    "agent": {"hidden_sizes": [8, 8], "batch_size": 8},
    "evaluation": {"every": 50, "episodes": 2},
    "checkpoint": {"every": 60},
    "device": "cpu",
    "threads": 1,
    "quiet": True,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> td3.Run:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return td3.train("Pendulum-v1", run=folder, grid={"agent.tau": [0.005, 0.01]}, **SETTINGS)


@pytest.fixture
def loaded(trained: td3.Run, tmp_path: Path) -> td3.Run:
    """The same run, copied to another place."""
    return td3.load_run(shutil.copytree(trained, tmp_path / "copied"))


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_load_run_gives_the_agent_and_the_replay_buffer_of_training(
    trained: td3.Run, loaded: td3.Run
) -> None:
    assert same(trained.agent.tensors(), loaded.agent.tensors())
    assert trained.replay.rows is not None
    assert loaded.replay.rows is not None
    assert torch.equal(trained.replay.rows, loaded.replay.rows)
    assert loaded.replay.sizes.tolist() == [120] * 4
    assert loaded.agent is loaded.agent
    assert loaded.replay is loaded.replay


def test_load_run_trains_on_with_the_same_random_numbers(loaded: td3.Run) -> None:
    again = td3.load_run(loaded)
    for run in (loaded, again):
        run.agent.train(run.replay, 3, batch_size=8)
    assert same(loaded.agent.tensors(), again.agent.tensors())
    config, _, _ = restore.read_shapes(loaded.folder, "cpu")
    facts = restore.read_newest(loaded.folder, config).facts
    fresh = td3.load_run(loaded)
    for k, stream in enumerate(fresh.agent.smooth):
        assert stream.bit_generator.state == facts["streams"][f"smooth.{k}"]
    for k, stream in enumerate(fresh.replay.streams):
        assert stream.bit_generator.state == facts["streams"][f"replay.{k}"]


def test_load_run_makes_no_environment_and_writes_nothing(
    loaded: td3.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise AssertionError("an environment was made")

    monkeypatch.setattr("gymnasium.make", refuse)
    before = contents(loaded.folder)
    with lock_run(loaded.folder):  # a running training holds it
        run = td3.load_run(loaded)
        assert len(run.replay) == 120
        assert run.agent.agents == 4
        assert run.policy(np.zeros(3)).shape == (1,)
        assert len(run.evaluations) == 16
        assert "Run(" in repr(run) + run._repr_html_()
    found = contents(loaded.folder)
    del found[".lock"], before[".lock"]  # the lock of this test wrote its process id
    assert found == before


def test_load_run_without_torch_reads_tables(trained: td3.Run) -> None:
    code = (
        "import sys, td3; run = td3.load_run(sys.argv[1]); run.evaluations, run.config, repr(run); "
        "run._repr_html_(); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, os.fspath(trained)], check=True)


def test_run_tables_have_agents_seeds_and_settings(trained: td3.Run) -> None:
    table = trained.evaluations
    assert table.columns[:5] == ["step", "agent", "seed", "agent.tau", "mean_return"]
    assert table["step"].tolist() == [step for step in (0, 50, 100, 150) for _ in range(4)]
    assert table["agent"].tolist() == [0, 1, 2, 3] * 4
    assert table["seed"].tolist() == [0, 1, 0, 1] * 4
    assert table["agent.tau"].tolist() == [0.005, 0.005, 0.01, 0.01] * 4
    assert table["returns"].shape == (16, 2)
    np.testing.assert_allclose(table["returns"].mean(axis=1), table["mean_return"])
    losses = trained.metrics.where(agent=3)
    assert losses["step"].tolist() == [50, 100, 150]
    assert np.isnan(losses["critic_loss"]).tolist() == [True, False, False]


def test_run_gives_policies_settings_and_status(trained: td3.Run) -> None:
    best = trained.evaluations["mean_return"].max()
    assert trained.policy.mean_return == best
    assert trained.last_policy.step == 150
    assert trained.config.agent.hidden_sizes == (8, 8)
    assert trained.finished
    assert repr(trained) == (
        f"Run({trained.folder}: Pendulum-v1, 2 seeds × 2 settings = 4 agents, finished, "
        f"150 of 150 steps, {describe(trained)})"
    )


def describe(run: td3.Run) -> str:
    last = run.evaluations["mean_return"][-4:].mean()
    best = np.mean([run.evaluations.where(agent=k)["mean_return"].max() for k in range(4)])
    return f"mean return {last:,.0f} (best {best:,.0f})"


def test_run_works_as_the_path_of_its_folder(trained: td3.Run, tmp_path: Path) -> None:
    assert os.fspath(trained) == str(trained) == str(trained.folder)
    assert Path(trained) == trained.folder
    assert trained / "config.toml" == trained.folder / "config.toml"
    assert td3.load_policy(trained, agent=2).name == "agent-2"
    assert td3.load_run(trained).folder == trained.folder
    with open(os.path.join(trained, "metrics.jsonl")) as file:
        assert len(file.readlines()) == 4 * (4 + 3)


def test_run_of_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        td3.load_run(tmp_path)
    assert repr(td3.Run(tmp_path / "gone")) == f"Run({tmp_path / 'gone'})"


@pytest.mark.parametrize("part", ["agent", "replay"])
def test_run_without_checkpoint_has_no_agent(part: str) -> None:
    run = td3.load_run(STORED)
    assert len(run.evaluations.where(seed=1)) == 21
    with pytest.raises(UserError, match=r"has no checkpoint, .* its policies can"):
        getattr(run, part)


def test_run_without_policy_folder_is_refused_in_one_sentence(loaded: td3.Run) -> None:
    shutil.rmtree(loaded / "policy")
    with pytest.raises(UserError, match="has no policy, which describes the observations"):
        _ = loaded.agent


def test_run_with_damaged_newest_checkpoint_uses_the_one_before(loaded: td3.Run) -> None:
    (loaded / "checkpoints/000000150/state.safetensors").write_bytes(b"")
    assert loaded.agent.updates.tolist() == [70] * 4
    shutil.rmtree(loaded / "checkpoints/000000120")
    with pytest.raises(UserError, match=r"No checkpoint in .* can be used"):
        _ = loaded.replay


def test_run_with_changed_shape_in_its_settings_is_refused(loaded: td3.Run) -> None:
    path = loaded / "config.toml"
    path.write_text(path.read_text().replace("hidden_sizes = [8, 8]", "hidden_sizes = [8, 9]"))
    with pytest.raises(UserError, match=r"agent.hidden_sizes was .*; change it back"):
        _ = loaded.agent


def test_run_that_goes_on_is_read_again_if_its_checkpoints_move(
    loaded: td3.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training removed all checkpoints that were listed while the first one was read."""
    listed, read = restore.by_step(loaded.folder), restore.newest_checkpoint
    tries: list[int] = []

    def removed_at_first(*given: Any) -> Any:
        tries.append(len(tries))
        if len(tries) == 1:
            raise UserError("No checkpoint can be used.")
        return read(*given)

    listings = iter([listed[1:], listed, listed])
    monkeypatch.setattr(restore, "newest_checkpoint", removed_at_first)
    config, _, _ = restore.read_shapes(loaded.folder, "cpu")
    monkeypatch.setattr(restore, "by_step", lambda folder: next(listings))
    assert restore.read_newest(loaded.folder, config).step == 150
    assert len(tries) == 2


@pytest.mark.parametrize("place", ["cpu", "disk"])
def test_run_of_images_restores_its_replay_buffer(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = {"channels": [4, 4], "features": 8, "n_step": 2}
    find = {"id": "support.find:Find-v0", "frame_stack": 2}
    settings = SETTINGS | {"environment": find, "agent": SETTINGS["agent"] | images, "seeds": 1}
    run = td3.train(run=tmp_path / "run", **settings)
    monkeypatch.setattr(restore, "check_memory", lambda config, task: place)
    before = contents(run.folder)
    again = td3.load_run(run)
    drawn = np.stack([np.arange(60), *([np.zeros(60, dtype=np.int64)] * 4)], axis=1)[None]
    drawn[..., 0] += run.replay.index.oldest[:, None]  # type: ignore[attr-defined]
    for one, other in zip(run.replay.gather(drawn), again.replay.gather(drawn), strict=True):
        assert torch.equal(one, other)
    assert same(run.agent.tensors(), again.agent.tensors())
    assert contents(run.folder) == before


def test_run_html_is_escaped_and_complete(loaded: td3.Run) -> None:
    path = loaded / "config.toml"
    path.write_text(path.read_text().replace('"Pendulum-v1"', '"<script>-v1"'))
    page = td3.load_run(loaded)._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    for text in ("<svg", "tau 0.005", "agent.hidden_sizes = (8, 8)", "run.plot()", "mean return"):
        assert text in page
    assert "td3.resume" not in page


def test_run_html_before_its_first_evaluation_names_the_next_command(tmp_path: Path) -> None:
    from td3.run.folder import create

    run = td3.load_run(create(tiny(), tmp_path / "run"))
    assert "No evaluations yet." in run._repr_html_()
    assert "td3.resume(" in run._repr_html_()
    assert "unfinished, 0 of 600 steps" in repr(run)


def test_run_plot_and_report_write_files_that_a_notebook_shows(
    trained: td3.Run, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    written = trained.plot(tmp_path / "curve.png")
    assert written == [tmp_path / "curve.png", tmp_path / "curve.svg"]
    assert 'src="data:image/svg+xml;base64,' in written._repr_html_()
    pages = trained.report(tmp_path / "page")
    assert pages == [tmp_path / "page/report.md", tmp_path / "page/report.html"]
    assert "<img" not in pages._repr_html_()


def test_run_video_writes_a_film(trained: td3.Run, tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    films = trained.video(tmp_path / "film", agent=1, seconds=0.2)
    assert films == [tmp_path / "film.mp4", tmp_path / "film.gif"]
    assert "data:image/gif" in films._repr_html_()


def test_files_names_are_escaped() -> None:
    assert "<b>" not in Files([Path("<b>.png")])._repr_html_()
