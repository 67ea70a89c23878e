"""A search trains the trials of a study, and continues exactly after a kill."""

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.run_tools import StopAt, tiny

from td3.config import Config
from td3.errors import UserError
from td3.tuning.plan import Plan, read_plan
from td3.tuning.search import Search, open_search

SMALL: dict[str, Any] = {"trials": 8, "rows": 4, "evaluations": 6, "episodes": 1}
SHAPES = {"agent": {"n_step": [1, 2]}, "default": False, "loop": {"exploration_noise": True}}


def settings(**tables: Any) -> Config:
    return tiny(**({"seeds": 2, "threads": 1} | tables))


def make_plan(**changes: Any) -> Plan:
    return replace(Plan(settings()), **(SMALL | changes)).checked()


def begin(plan: Plan, folder: Path) -> None:
    folder.mkdir()
    plan.write(folder)


def run(folder: Path, stop_at: int = 10**9) -> bool:
    """Run or continue a search; stops at this step of each population."""
    stop = StopAt(stop_at)

    def watch(training: Any) -> None:
        training.on_step = stop

    with open_search(read_plan(folder), folder) as search:
        return search.run(stop, watch)


def results(folder: Path) -> list[Any]:
    with open_search(read_plan(folder), folder) as search:
        return describe(search)


def describe(search: Search) -> list[Any]:
    return [
        (own.number, own.state.name, own.value, own.params, own.intermediate_values)
        for own in search.trials.all()
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search that was never interrupted."""
    folder = tmp_path_factory.mktemp("tune") / "whole"
    begin(make_plan(), folder)
    assert run(folder)
    return folder


def test_search_finishes_all_trials_and_refills_rows(whole: Path) -> None:
    found = results(whole)
    assert len(found) == SMALL["trials"]
    assert {state for _, state, *_ in found} == {"COMPLETE", "PRUNED"}
    with open_search(read_plan(whole), whole) as search:
        began = {place.began for place in search.trials.places}
    assert len(began) > 2
    assert not (whole / "populations" / "0000" / "checkpoints").exists()


@pytest.mark.parametrize("stop_at", [150, 201, 400])
def test_search_stopped_and_resumed_equals_uninterrupted(
    whole: Path, stop_at: int, tmp_path: Path
) -> None:
    folder = tmp_path / "stopped"
    begin(make_plan(), folder)
    assert not run(folder, stop_at)
    assert run(folder)
    assert results(folder) == results(whole)


KILLED = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from td3.signals import StopRequest
    from td3.tuning.plan import read_plan
    from td3.tuning.search import open_search
    folder, at = Path(sys.argv[1]), int(sys.argv[2])

    def watch(training):
        original = training.trials.study.tell
        def tell(*given, **options):
            original(*given, **options)
            if training.step >= at:
                os.kill(os.getpid(), signal.SIGKILL)
        training.trials.study.tell = tell

    with open_search(read_plan(folder), folder) as search:
        search.run(StopRequest(), watch)
    """
)


def test_search_killed_between_decisions_equals_uninterrupted(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    begin(make_plan(), folder)
    for at in (200, 700):  # steps at which a trial ends; the process dies before the next begins
        process = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(at)], check=False)
        assert process.returncode == -signal.SIGKILL
    assert run(folder)
    assert results(folder) == results(whole)
    assert os.listdir(folder / "populations") == ["0000"]


def test_shapes_are_grouped_into_populations(tmp_path: Path) -> None:
    begin(make_plan(search=SHAPES, trials=6), tmp_path / "shapes")
    assert run(tmp_path / "shapes")
    with open_search(read_plan(tmp_path / "shapes"), tmp_path / "shapes") as search:
        shapes: dict[int, set[int]] = {}
        for place, number in search.trials.places.items():
            own = search.trials.settings(number)["agent.n_step"]
            shapes.setdefault(place.population, set()).add(own)
    assert len(shapes) == 3
    assert all(len(own) == 1 for own in shapes.values())
    assert shapes[0] == {1}


def test_diverged_trial_is_pruned_and_others_continue(tmp_path: Path) -> None:
    search = {"default": False, "agent": {"critic_learning_rate": {"low": 1e-4, "high": 1e30}}}
    begin(make_plan(search=search, pruner="none", trials=4), tmp_path / "wild")
    assert run(tmp_path / "wild")
    with open_search(read_plan(tmp_path / "wild"), tmp_path / "wild") as opened:
        reasons = [opened.trials.read(n).user_attrs["end"]["reason"] for n in range(4)]
    assert "diverged" in reasons[1:]
    assert reasons[0] == "complete"


def test_objective_is_mean_of_last_evaluations_or_area() -> None:
    plan = make_plan()
    assert plan.score([0, 1, 2, 3, 4]) == 3
    assert replace(plan, objective="area").score([0, 1, 2, 3, 4]) == 2


def test_rungs_are_evaluations_after_the_random_steps() -> None:
    plan = Plan(settings(loop={"steps": 100_000, "random_steps": 25_000}))
    assert plan.rungs == [40_000, 70_000]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trials": 0}, "trials must be a whole number from 1"),
        ({"rows": 1}, "at least the 2 seeds"),
        ({"evaluations": 5000}, "evaluations must be at most the"),
        ({"confirm": 1}, "0 or 2 or more"),
        ({"config": settings(grid={"agent.tau": [0.1]})}, "has no grid"),
        ({"config": settings(agent={"learning_rate_schedule": "linear"})}, "constant"),
        ({"config": settings(loop={"update": "episode"})}, "update step"),
        ({"config": settings(track=["wandb"])}, "no trackers"),
        ({"search": {"agent": {"tua": True}}}, "Unknown setting"),
    ],
)
def test_wrong_plan_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_plan(**changes)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_search_on_gpu_stopped_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    plan = make_plan(config=settings(device="cuda"))
    begin(plan, tmp_path / "whole")
    begin(plan, tmp_path / "stopped")
    assert run(tmp_path / "whole")
    assert not run(tmp_path / "stopped", 250)
    assert run(tmp_path / "stopped")
    assert results(tmp_path / "stopped") == results(tmp_path / "whole")
