"""Stop conditions of the table `stop`."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from support.run_tools import RecordingDisplay, different, tiny

from td3.config import Config, StopConfig
from td3.launch.resume import resume
from td3.launch.session import open_training
from td3.launch.start import start
from td3.report.summary import read_run
from td3.run.folder import create, read_config
from td3.signals import StopRequest
from td3.training.callbacks import STOP, LiveRun
from td3.training.stop_conditions import (
    StopAtReturn,
    StopWithoutImprovement,
    make_stop_conditions,
)

NO_RUN = cast("LiveRun", None)  # these conditions read nothing but the evaluations


def evaluations(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [record for record in records if record["kind"] == "evaluation"]


def train(config: Config, folder: Path) -> int:
    """Train until a stop condition ends the run; returns its step."""
    start(config, folder)
    return int(last_event(folder)["step"])


def last_event(folder: Path) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((folder / "events.jsonl").read_text().splitlines()[-1])
    return event


def test_make_stop_conditions_makes_those_that_are_set() -> None:
    assert make_stop_conditions(StopConfig()) == []
    made = make_stop_conditions(StopConfig(at_return=0.0, after="1m", patience=2))
    assert [vars(one) for one in made][:2] == [{"value": 0.0}, {"seconds": 60.0}]
    assert isinstance(made[2], StopWithoutImprovement)


def test_at_return_stops_when_the_mean_over_agents_reaches_it() -> None:
    condition = StopAtReturn(2.0)

    def see(*returns: float) -> object:
        return condition.on_evaluation(NO_RUN, [{"mean_return": one} for one in returns])

    assert [see(1, 2), see(0, 3.9)] == [None, None]
    assert see(1, 3) == STOP("the mean return 2 reached 2")


def test_at_return_reached_by_the_untrained_policy_stops_before_the_first_step(
    tmp_path: Path,
) -> None:
    start(tiny(), tmp_path / "whole")
    folder = tmp_path / "run"
    assert train(tiny(stop={"at_return": -1e9}), folder) == 0
    event = last_event(folder)
    assert (event["event"], event["step"]) == ("stop", 0)
    assert event["reason"].startswith("the mean return ")
    assert resume(folder, ignore_stop=True) == 0
    assert different(folder, tmp_path / "whole") == []


def test_patience_stops_the_run_with_a_checkpoint_and_an_event(tmp_path: Path) -> None:
    start(tiny(seeds=2), tmp_path / "whole")
    found = [record["mean_return"] for record in evaluations(tmp_path / "whole")]
    means = [(one + other) / 2 for one, other in zip(found[::2], found[1::2], strict=True)]
    bests = [max(means[: k + 1]) for k in range(len(means))]
    step = 150 * next(k for k in range(1, 5) if bests[k] == bests[k - 1])
    folder = tmp_path / "run"
    assert train(tiny(seeds=2, stop={"patience": 1}), folder) == step
    assert last_event(folder)["reason"].startswith("1 evaluation without improvement over ")
    assert read_run(folder).status == "stopped"
    assert int(max(path.name for path in (folder / "checkpoints").iterdir())) == step


def test_patience_stops_after_evaluations_without_improvement(tmp_path: Path) -> None:
    condition = StopWithoutImprovement(2)

    def see(*returns: float) -> bool:
        records = [{"mean_return": one} for one in returns]
        return condition.on_evaluation(NO_RUN, records) is not None

    assert [see(1, 3), see(2, 1), see(4, 1), see(0, 5), see(2, 2)] == [
        False,
        False,
        False,
        False,
        True,
    ]


def test_patience_counts_evaluations_before_a_resume(tmp_path: Path) -> None:
    config = tiny()
    with open_training(config, create(config, tmp_path / "run")) as training:
        training.loop(StopRequest())
        means = [record["mean_return"] for record in evaluations(tmp_path / "run")]
        condition = StopWithoutImprovement(1)
        condition.on_start(LiveRun(training))
    assert condition.best == max(means)
    assert condition.waited == len(means) - 1 - means.index(max(means))


def test_after_stops_and_resume_continues_to_the_same_numbers(tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    start(tiny(), whole)
    step = train(tiny(stop={"after": "0.001s"}), folder)
    assert step == 1
    assert resume(folder, ignore_stop=True) == 0
    assert read_config(folder)[0].stop == StopConfig()
    assert read_run(folder).status == "finished"
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_stop_condition_met_at_the_last_step_finishes_the_run(tmp_path: Path) -> None:
    config = tiny(loop={"steps": 150}, evaluation={"every": 150}, stop={"patience": 1})
    start(config, tmp_path / "run")
    assert last_event(tmp_path / "run")["step"] in (0, 150)
    assert last_event(tmp_path / "run")["event"] == "finish"


@pytest.mark.parametrize("flag", ["", " --ignore-stop"])
def test_stop_message_names_the_command_that_continues(flag: str, tmp_path: Path) -> None:
    heard = RecordingDisplay()
    stop: dict[str, Any] = {"at_return": -1e9} if flag else {"after": "0.001s"}
    start(tiny(stop=stop), tmp_path / "run", heard)  # type: ignore[arg-type]
    assert heard.messages[-1].startswith("Stopped at step ")
    assert heard.messages[-1].endswith(f"Continue with: td3 resume {tmp_path / 'run'}{flag}")
