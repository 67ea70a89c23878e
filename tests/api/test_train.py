"""`td3.train` and `td3.resume`: what they read, what they return, what they raise."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.own_updates import OwnOptimizer
from support.run_tools import StopAt, different

import td3
from td3.api.train import finish_run, read_settings

TINY: dict[str, Any] = {
    "recipe": "quick",
    "steps": 60,
    "loop": {"random_steps": 20, "log_every": 20},
    "evaluation": {"episodes": 1, "every": 30},
    "agent": {"hidden_sizes": [8], "batch_size": 4},
    "device": "cpu",
    "threads": 1,
    "quiet": True,
}


def test_settings_are_named_in_tables_or_by_dotted_names() -> None:
    nested = {"steps": 9, "agent": {"batch_size": 4}, "environment": {"action_repeat": 2}}
    flat = {"loop.steps": 9, "agent.batch_size": 4, "environment.action_repeat": 2}
    one, other = (read_settings("", "quick", dict(given)) for given in (nested, flat))
    assert one == other
    assert (one.environment.id, one.environment.action_repeat) == ("Pendulum-v1", 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agent.batch_sise": 3}, "'agent.batch_sise'. Did you mean 'agent.batch_size'"),
        ({"agent": {"tau": 0.1}, "agent.tau": 0.2}, "agent.tau is given twice."),
        ({"environment.id": "Hopper-v5"}, "environment.id is given twice."),
        ({"loop": 5, "steps": 3}, "loop is a table of settings, not 5."),
    ],
)
def test_train_with_wrong_settings_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(td3.UserError, match=message):
        td3.train("Pendulum-v1", **settings)


def test_train_after_ctrl_c_names_how_to_continue(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match=rf"Saved. Continue with: td3.resume\('{tmp_path}"):
        finish_run(tmp_path, 130, [])


def stop_after(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the next trainings stop after this step, as after Ctrl-C."""
    from td3.training.loop import Training

    loop = Training.loop

    def stopping(self: Training, stop: Any) -> None:
        request = StopAt(step)
        self.on_step = request
        loop(self, request)
        stop.signal = request.signal

    monkeypatch.setattr(Training, "loop", stopping)


def test_resume_after_ctrl_c_ends_as_the_uninterrupted_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = td3.train(run=tmp_path / "whole", **TINY)
    with monkeypatch.context() as patched:
        stop_after(patched, 40)
        with pytest.raises(KeyboardInterrupt):
            td3.train(run=tmp_path / "pieces", **TINY)
    stopped = td3.load_run(tmp_path / "pieces")
    assert not stopped.finished
    pieces = td3.resume(stopped, quiet=True)
    assert pieces.finished
    assert (pieces / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    one, other = pieces.agent.tensors(), whole.agent.tensors()
    assert all((one[name] == other[name]).all() for name in one)


def test_resume_with_more_steps_trains_longer(tmp_path: Path) -> None:
    run = td3.train(run=tmp_path / "run", **TINY)
    with pytest.raises(td3.UserError, match=r"is finished \(60 steps\)"):
        td3.resume(run, quiet=True)
    longer = td3.resume(run, steps=90, quiet=True)
    assert longer.evaluations["step"].tolist() == [0, 30, 60, 90]
    assert longer.agent.updates.tolist() == [70]
    assert longer.config.loop.steps == 90


def test_resume_unless_quiet_shows_its_progress(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = td3.train(run=tmp_path / "run", **TINY)
    assert tuple(capfd.readouterr()) == ("", "")
    td3.resume(run, steps=90)
    assert "step        90  evaluation -" in capfd.readouterr().err


def test_train_leaves_no_process_and_no_lock(tmp_path: Path) -> None:
    """Another process may resume while the Run is in use."""
    from td3.run.lock import lock_run

    environment = {"count": 2, "vectorization": "workers"}
    run = td3.train(run=tmp_path / "run", environment=environment, **TINY)
    with lock_run(run.folder):
        pass
    children = Path("/proc/self/task").glob("*/children")
    assert "".join(path.read_text() for path in children).split() == []
    open_files = [str(path.resolve()) for path in Path("/proc/self/fd").iterdir()]
    assert [path for path in open_files if str(tmp_path) in path] == []
    records = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert records[-1]["event"] == "finish"


def test_resume_of_a_variant_with_an_optimizer_of_pytorch_matches_one_run(tmp_path: Path) -> None:
    settings = {**TINY, "variant": OwnOptimizer, "checkpoint": {"every": 20}, "seeds": 2}
    settings["evaluation"] = {"episodes": 1, "every": 20}
    whole = td3.train("Pendulum-v1", run=tmp_path / "whole", **settings)
    pieces = td3.train("Pendulum-v1", run=tmp_path / "pieces", **settings | {"steps": 40})
    td3.resume(pieces.folder, steps=60, variant=OwnOptimizer, quiet=True)
    assert different(whole.folder, pieces.folder) == []
