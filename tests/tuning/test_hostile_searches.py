"""`td3 tune --resume` of a folder that was damaged, or made to do harm."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.bounded import Bounded
from support.faulty_disk import FaultyDisk
from support.hostile_searches import CASES, JOURNAL, make_outside, outside
from support.run_tools import StopAt, tiny

from td3.errors import RunStopped, UserError
from td3.tuning.confirm import FILE, Confirmation, read_confirmation
from td3.tuning.display import open_tune_display
from td3.tuning.journal import open_journal
from td3.tuning.plan import Plan
from td3.tuning.results import TrialResult, read_results
from td3.tuning.run import create_search, tune
from td3.tuning.search import open_search, remove_state

CONFIG = tiny(
    agent={"hidden_sizes": [8, 8]},
    loop={"steps": 300, "random_steps": 50},
    evaluation={"max_steps": 20},
    execution="eager",
    threads=1,
)
PLAN = Plan(CONFIG, trials=4, rows=2, evaluations=3, episodes=1, pruner="none", confirm=0)


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search that was stopped in its first population."""
    _, folder = create_search(PLAN, tmp_path_factory.mktemp("hostile") / "search")
    stop = StopAt(250)

    def watch(training: Any) -> None:
        training.on_step = stop

    with open_search(PLAN, folder) as opened:
        assert not opened.run(stop, watch)
    assert list((folder / "populations/0000/checkpoints").iterdir())
    return folder


@pytest.fixture(scope="module")
def td3(search: Path) -> Iterator[Bounded]:
    shutil.copytree(search, search.parent / "warm")
    with Bounded([["tune", "--resume", str(search.parent / "warm"), "--quiet"]]) as program:
        yield program


@pytest.mark.parametrize("name", CASES)
def test_hostile_search_is_refused_and_nothing_else_changed(
    name: str, search: Path, td3: Bounded, tmp_path: Path
) -> None:
    shutil.copytree(search, tmp_path / "search")
    (tmp_path / "search/notes.txt").write_text("mine")
    before = make_outside(tmp_path)
    CASES[name](tmp_path / "search")
    outcome = td3.run(["tune", "--resume", "search", "--quiet"], str(tmp_path))
    assert not outcome.problem()
    assert outside(tmp_path) == before
    assert (tmp_path / "search/notes.txt").read_text() == "mine"
    assert os.path.lexists(tmp_path / "search" / JOURNAL)


def resume(folder: Path) -> list[TrialResult]:
    """Continue a search with the display of --quiet, up to its report."""
    with open_tune_display(PLAN, quiet=True) as display, open_search(PLAN, folder) as opened:
        opened.sinks.append(display)
        assert opened.run(StopAt(10**9))
        return read_results(opened.trials)


@pytest.fixture(scope="module")
def whole(search: Path) -> list[TrialResult]:
    """The same search without any damage."""
    shutil.copytree(search, search.parent / "whole")
    return resume(search.parent / "whole")


def test_message_names_the_damaged_line(search: Path, tmp_path: Path) -> None:
    data = (search / JOURNAL).read_text().splitlines()
    (tmp_path / JOURNAL).write_text("\n".join([*data[:4], data[4][:-1], *data[5:]]) + "\n")
    with pytest.raises(UserError, match=r"study.journal is damaged: line 5: it is not JSON"):
        open_journal(tmp_path, 4)


def test_search_without_the_end_of_its_journal_repeats_it(
    search: Path, whole: list[TrialResult], tmp_path: Path
) -> None:
    """What the message advises. The records before the last checkpoint are still there."""
    shutil.copytree(search, tmp_path / "search")
    data = (search / JOURNAL).read_text().splitlines(keepends=True)
    reported = [k for k, line in enumerate(data) if json.loads(line)["op_code"] == 7]
    (tmp_path / "search" / JOURNAL).write_text("".join(data[: reported[-1]]) + data[-1][:20])
    assert resume(tmp_path / "search") == whole


def test_search_on_a_full_disk_names_the_file_and_loses_nothing(
    search: Path, whole: list[TrialResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(search, tmp_path / "search")
    settings = tmp_path / "search/populations/0000/config.toml"
    settings.write_text(settings.read_text().replace('retry_for = "1h"', 'retry_for = ""'))
    disk = FaultyDisk(monkeypatch, tmp_path / "search/populations")
    disk.room = 5000
    full = r"Cannot write .*: No space left on device; it needs .* Continue with: td3 tune --resume"
    with open_tune_display(PLAN, quiet=True) as display, pytest.raises(RunStopped, match=full):
        tune(PLAN, tmp_path / "search", display)
    monkeypatch.undo()
    assert resume(tmp_path / "search") == whole


def test_lost_journal_is_reported(
    search: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(search, tmp_path / "search")
    (tmp_path / "search" / JOURNAL).unlink()
    assert len(resume(tmp_path / "search")) == 4
    assert "not exact: the study has no trial of slot 0" in capsys.readouterr().err


def test_damage_of_a_population_is_reported_with_quiet(
    search: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(search, tmp_path / "search")
    with (tmp_path / "search/populations/0000/metrics.jsonl").open("r+b") as file:
        file.write(b"x")
    resume(tmp_path / "search")
    assert "not exact: metrics.jsonl is not as it was" in capsys.readouterr().err


def test_results_have_a_trial_that_was_killed_while_it_was_asked_for(
    search: Path, tmp_path: Path
) -> None:
    shutil.copytree(search, tmp_path / "search")
    records = [json.loads(line) for line in (search / JOURNAL).read_text().splitlines()]
    started = max(k for k, own in enumerate(records) if own["op_code"] == 5)
    text = "".join(f"{json.dumps(own)}\n" for own in records[:started])
    (tmp_path / "search" / JOURNAL).write_text(text)
    with open_search(PLAN, tmp_path / "search") as opened:
        settings = read_results(opened.trials)[-1].settings
    assert 0 < len(settings) < len(PLAN.space.parameters)


def test_refused_search_that_is_resumed_keeps_its_folder(search: Path, tmp_path: Path) -> None:
    shutil.copytree(search, tmp_path / "search")
    shutil.rmtree(tmp_path / "search/populations")
    missing = replace(PLAN, config=tiny(environment={"id": "Missing-v0"}))
    with open_tune_display(PLAN, quiet=True) as display, pytest.raises(UserError):
        tune(missing, tmp_path / "search", display)
    assert (tmp_path / "search" / JOURNAL).exists()


def test_end_of_a_population_removes_only_its_own_files(search: Path, tmp_path: Path) -> None:
    shutil.copytree(search, tmp_path / "search")
    population = tmp_path / "search/populations/0000"
    for name in ("checkpoints/best/notes.txt", "replay/notes.txt", "policy/notes.txt"):
        (population / name).parent.mkdir(parents=True, exist_ok=True)
        (population / name).write_text("mine")
    remove_state(population)
    kept = sorted(str(path.relative_to(population)) for path in population.rglob("*.*"))
    assert kept == [
        ".lock",
        "checkpoints/best/notes.txt",
        "config.toml",
        "events.jsonl",
        "metrics.jsonl",
        "policy/notes.txt",
        "replay/notes.txt",
    ]


@pytest.mark.parametrize("content", ["", "[]", '{"trial": 1}', "[" * 10_000, '{"trial": NaN}'])
def test_damaged_confirmation_counts_as_missing(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(content)
    assert read_confirmation(tmp_path) is None


def test_confirmation_survives_its_file(tmp_path: Path) -> None:
    own = {"trial": 1, "best": [1.0, 2.0], "default": [1.0], "difference": 0.5, "low": 0, "high": 1}
    (tmp_path / FILE).write_text(json.dumps({**own, "of a newer version": 3}))
    assert read_confirmation(tmp_path) == Confirmation(**own)  # type: ignore[arg-type]


def test_two_processes_cannot_search_in_one_folder(search: Path) -> None:
    with (
        open_search(PLAN, search),
        pytest.raises(UserError, match="in use by"),
        open_search(PLAN, search),
    ):
        pass
