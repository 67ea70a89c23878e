"""Callbacks: when they are called, what they see, how they stop a run, and what happens if not."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.run_tools import different, tiny, train_in_pieces

import td3
from td3.config import Config
from td3.errors import RunStopped, UserError
from td3.launch.resume import resume
from td3.launch.start import start
from td3.report.summary import read_run
from td3.training.callbacks import (
    HOOKS,
    STOP,
    Callback,
    Callbacks,
    Episode,
    LiveRun,
    Stop,
    check_callback,
    load_callback,
)

SMALL = {"loop": {"steps": 250, "random_steps": 100, "log_every": 70}}


class Recorder(Callback):
    """Notes every call as (method, step)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.episodes: list[Episode] = []
        self.evaluations: list[list[dict[str, Any]]] = []

    def on_start(self, run: LiveRun) -> None:
        self.calls.append(("start", run.step))

    def on_step(self, run: LiveRun) -> None:
        self.calls.append(("step", run.step))

    def on_episode(self, run: LiveRun, episode: Episode) -> None:
        self.calls.append(("episode", run.step))
        self.episodes.append(episode)

    def on_evaluation(self, run: LiveRun, evaluations: list[dict[str, Any]]) -> None:
        self.calls.append(("evaluation", run.step))
        self.evaluations.append(evaluations)

    def on_checkpoint(self, run: LiveRun) -> None:
        self.calls.append(("checkpoint", run.step))

    def on_end(self, run: LiveRun) -> None:
        self.calls.append(("end", run.step))


class Act(Callback):
    """Does something in one method at one step."""

    def __init__(self, method: str, step: int, answer: Any) -> None:
        self.method, self.step, self.answer = method, step, answer
        for name in HOOKS:
            if name == method:
                setattr(self, name, self.act)

    def act(self, run: LiveRun, *given: Any) -> Any:
        if run.step < self.step:
            return None
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Named(Callback):
    """A class that a command line names; it writes where it was used."""

    def on_start(self, run: LiveRun) -> None:
        with (run.folder / "named.txt").open("a") as file:
            file.write(f"{run.step}\n")


class NeedsArgument(Callback):
    def __init__(self, goal: float) -> None:
        self.goal = goal


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def run(config: Config, folder: Path, *callbacks: Callback) -> int:
    return start(config, folder, callbacks=callbacks)[1]


def test_callbacks_are_called_in_order_and_change_no_number(tmp_path: Path) -> None:
    recorder, config = Recorder(), tiny(**SMALL, seeds=2)
    assert run(config, tmp_path / "run", recorder) == 0
    others = [call for call in recorder.calls if call[0] != "step"]
    assert others == [
        ("start", 0),
        ("evaluation", 0),
        ("checkpoint", 100),
        ("evaluation", 150),
        ("episode", 200),
        ("episode", 200),
        ("checkpoint", 200),
        ("evaluation", 250),
        ("checkpoint", 250),
        ("end", 250),
    ]
    assert [call for call in recorder.calls if call[0] == "step"] == [
        ("step", step) for step in range(1, 251)
    ]
    train_in_pieces(config, tmp_path / "plain", [])
    assert different(tmp_path / "run", tmp_path / "plain") == []


def test_on_episode_gets_agent_seed_return_and_length(tmp_path: Path) -> None:
    recorder = Recorder()
    run(tiny(**SMALL, seed=5, seeds=2), tmp_path / "run", recorder)
    first, second = recorder.episodes
    assert [(own.agent, own.seed, own.length) for own in (first, second)] == [
        (0, 5, 200),
        (1, 6, 200),
    ]
    assert first.episode_return != second.episode_return
    assert first.episode_return < -100


def test_on_evaluation_gets_the_records_of_metrics_jsonl(tmp_path: Path) -> None:
    recorder = Recorder()
    run(tiny(**SMALL, seeds=2), tmp_path / "run", recorder)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    written = [own for own in map(json.loads, lines) if own["kind"] == "evaluation"]
    assert [own for round in recorder.evaluations for own in round] == written
    assert [len(round) for round in recorder.evaluations] == [2, 2, 2]


def test_live_run_shows_the_objects_of_the_run(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    class Look(Callback):
        def on_end(self, run: LiveRun) -> None:
            seen.update(
                step=run.step,
                folder=run.folder,
                seeds=run.seeds,
                updates=int(run.agent.updates[0]),
                added=int(run.replay.added[0]),
                steps=run.config.loop.steps,
                elapsed=run.elapsed > 0,
            )

    run(tiny(**SMALL), tmp_path / "run", Look())
    assert seen == {
        "step": 250,
        "folder": tmp_path / "run",
        "seeds": [0],
        "updates": 150,
        "added": 249,  # the last transition is pending
        "steps": 250,
        "elapsed": True,
    }


@pytest.mark.parametrize(
    ("method", "at", "stops_at"),
    [
        ("on_start", 0, 0),
        ("on_step", 37, 37),
        ("on_step", 100, 100),
        ("on_episode", 0, 200),
        ("on_evaluation", 150, 150),
        ("on_checkpoint", 0, 100),
    ],
)
def test_stop_from_any_method_saves_and_resume_gives_the_same_numbers(
    method: str, at: int, stops_at: int, tmp_path: Path
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    train_in_pieces(tiny(), whole, [])
    assert run(tiny(), folder, Act(method, at, STOP("it is enough"))) == 0
    event = events(folder)[-1]
    assert (event["event"], event["step"], event["reason"]) == ("stop", stops_at, "it is enough")
    assert read_run(folder).status == "stopped"
    assert resume(folder) == 0
    assert different(whole, folder) == []


def test_stop_without_reason_names_the_callback(tmp_path: Path) -> None:
    run(tiny(), tmp_path / "run", Act("on_step", 5, STOP))
    assert events(tmp_path / "run")[-1]["reason"] == "the callback Act stopped it"


def test_stop_at_the_last_step_finishes_the_run(tmp_path: Path) -> None:
    run(tiny(**SMALL), tmp_path / "run", Act("on_step", 250, STOP))
    assert read_run(tmp_path / "run").status == "finished"


@pytest.mark.parametrize(
    ("method", "stops_at"),
    [
        ("on_step", 165),
        ("on_episode", 200),
        ("on_evaluation", 300),
        ("on_checkpoint", 200),
        ("on_end", 600),
    ],
)
def test_exception_in_callback_saves_and_names_callback_and_method(
    method: str, stops_at: int, tmp_path: Path
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    train_in_pieces(tiny(), whole, [])
    later = Recorder()
    with pytest.raises(RunStopped) as caught:
        run(tiny(), folder, Act(method, 165, ValueError("no such key")), later)
    where = r"test_callbacks.py, line "
    assert f"The callback Act.{method} raised ValueError: no such key ({where}" in str(caught.value)
    assert "\n" not in str(caught.value)
    step = int(max(path.name for path in (folder / "checkpoints").iterdir()))
    assert step == stops_at
    assert f"Saved up to step {step:,}." in str(caught.value)
    assert ("end" in dict(later.calls)) is False
    last = events(folder)[-1]
    assert last["event"] == "stop"
    assert any("raise self.answer" in line for line in last["traceback"])
    if method != "on_end":
        assert resume(folder) == 0
        assert different(whole, folder) == []


def test_exception_in_on_start_of_a_new_run_stops_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(RunStopped, match=r"Act\.on_start raised KeyError"):
        run(tiny(), tmp_path / "run", Act("on_start", 0, KeyError("x")))
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == ""


@pytest.mark.parametrize("answer", [False, True, "stop"])
def test_callback_that_returns_something_else_is_an_error(answer: Any, tmp_path: Path) -> None:
    """Other libraries stop at False; here it would be ignored."""
    with pytest.raises(RunStopped, match=r"Act\.on_step returned .*, not td3\.STOP or None"):
        run(tiny(), tmp_path / "run", Act("on_step", 3, answer))


def test_first_reason_counts(tmp_path: Path) -> None:
    both = [Act("on_step", 3, STOP("first")), Act("on_step", 3, STOP("second"))]
    run(tiny(), tmp_path / "run", *both)
    assert events(tmp_path / "run")[-1]["reason"] == "first"


def test_callbacks_calls_only_overridden_methods() -> None:
    assert not any(Callbacks([Callback(), Callback()]).hooks.values())
    found = Callbacks([Named(), Act("on_step", 0, None)]).hooks
    assert {name: len(hooks) for name, hooks in found.items() if hooks} == {
        "on_start": 1,
        "on_step": 1,
    }


def test_named_callback_is_recorded_and_used_on_resume(tmp_path: Path) -> None:
    config = tiny(**SMALL, callback=[f"{__name__}:Named"])
    run(config, tmp_path / "run", Act("on_step", 120, STOP))
    assert resume(tmp_path / "run") == 0
    assert (tmp_path / "run" / "named.txt").read_text() == "0\n120\n"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:A", "Cannot import no_such_module, which callback names: No module"),
        (f"{__name__}:Namd", "has no 'Namd'. Did you mean 'Named'?"),
        (f"{__name__}:events", "events must be a subclass of td3.Callback."),
        ("Named", "callback must be module:Class, e.g. my_module:MyClass, got 'Named'."),
        (f"{__name__}:NeedsArgument", "cannot be made without arguments: "),
    ],
)
def test_bad_callback_path_is_refused_before_a_folder_is_made(
    path: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        run(tiny(callback=[path]), tmp_path / "run")
    assert message in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_load_callback_makes_an_object() -> None:
    assert type(load_callback(f"{__name__}:Named")).__name__ == "Named"


@pytest.mark.parametrize(
    ("given", "message"), [(Named, r"write Named\(\)"), (print, "got <built-in function print>")]
)
def test_check_callback_with_anything_else_raises(given: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_callback(given)


def test_train_in_python_stops_at_a_callback(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    callbacks = [Act("on_step", 20, td3.STOP)]
    td3.train("Pendulum-v1", "quick", run=folder, quiet=True, callbacks=callbacks)
    assert events(folder)[-1]["step"] == 20


def test_stop_called_with_a_reason_has_it() -> None:
    assert STOP("why") == Stop("why")
    assert Stop() == STOP
