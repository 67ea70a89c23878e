"""Trials in an Optuna storage that is also the log of every decision."""

from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from td3.config import load_recipe
from td3.errors import UserError
from td3.tuning.space import make_space
from td3.tuning.trials import End, Halving, Place, Trials, open_storage, shown

CONFIG = load_recipe("quick")
FIRST = Place(0, 0, 0)


class Killed(Exception):
    """Stands for a kill."""


def open_trials(folder: Path, search: dict[str, Any] | None = None) -> Trials:
    space = make_space(CONFIG, search)
    study = optuna.create_study(
        storage=open_storage("", folder),
        study_name="study",
        direction="maximize",
        load_if_exists=True,
    )
    return Trials(study, space, "me", 0, Halving([100]), shared=False)


def finish(trials: Trials, number: int, value: float) -> None:
    trials.report(number, 100, value)
    trials.tell(number, End(100, "complete"), value, {})


def run_trials(trials: Trials, count: int) -> None:
    for number in range(len(trials.places), count):
        finish(trials, trials.ask(Place(0, 0, number), {}, None), -abs(number - 5.5))


def test_first_trial_has_the_settings_that_the_search_began_with(tmp_path: Path) -> None:
    trials = open_trials(tmp_path)
    number = trials.ask(FIRST, {}, trials.space.encode(CONFIG))
    settings = trials.settings(number)
    assert settings["agent.tau"] == CONFIG.agent.tau
    assert settings["agent.discount"] == pytest.approx(CONFIG.agent.discount)


def test_reopened_study_proposes_what_it_would_have_proposed(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    whole = open_trials(tmp_path / "one")
    run_trials(whole, 14)
    for count in (3, 12, 14):
        run_trials(open_trials(tmp_path / "other"), count)
    pieces = open_trials(tmp_path / "other")
    assert [own.params for own in pieces.all()] == [own.params for own in whole.all()]


@pytest.mark.parametrize("before", [1, 12])
@pytest.mark.parametrize("written", [0, 1, 3])
def test_kill_while_asking_does_not_change_the_trial(
    before: int, written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    whole, trials = open_trials(tmp_path / "one"), open_trials(tmp_path / "other")
    run_trials(whole, before + 1)
    run_trials(trials, before)

    original, calls = optuna.storages.JournalStorage.set_trial_param, [0]

    def interrupted(*given: Any) -> None:
        calls[0] += 1
        if calls[0] > written:
            raise Killed
        original(*given)

    with monkeypatch.context() as patch:
        patch.setattr(optuna.storages.JournalStorage, "set_trial_param", interrupted)
        with pytest.raises(Killed):
            trials.ask(Place(0, 0, before), {}, None)
    again = open_trials(tmp_path / "other")
    run_trials(again, before + 1)
    assert len(again.all()) == len(whole.all())
    assert again.read(before).params == whole.read(before).params


def test_study_of_another_space_is_refused(tmp_path: Path) -> None:
    run_trials(open_trials(tmp_path), 1)
    with pytest.raises(UserError, match=r"searches agent\.tau over another range"):
        open_trials(tmp_path, {"agent": {"tau": {"low": 0.01, "high": 0.02}}})


def test_shape_of_population_is_kept(tmp_path: Path) -> None:
    trials = open_trials(tmp_path, {"agent": {"n_step": [1, 3]}})
    for slot in range(12):
        number = trials.ask(Place(0, slot, 0), {"agent.n_step": 3}, None)
        assert trials.settings(number)["agent.n_step"] == 3
        finish(trials, number, slot)


def test_decision_in_the_log_is_repeated(tmp_path: Path) -> None:
    trials = open_trials(tmp_path)
    number = trials.ask(FIRST, {}, None)
    trials.report(number, 100, 1.0)
    trials.tell(number, End(100, "pruned"), None, {"100": {"0": 1.0}})
    again = open_trials(tmp_path)
    assert again.decide(number, 50, complete=False, diverged=False) is None
    assert again.decide(number, 100, complete=False, diverged=False) == End(100, "pruned")
    again.report(number, 100, 5.0)  # not written: the trial is finished
    again.tell(number, End(100, "pruned"), None, {})
    assert again.read(number).intermediate_values == {100: 1.0}


def test_halving_keeps_better_half_of_all_trials_at_an_age(tmp_path: Path) -> None:
    trials = open_trials(tmp_path)
    numbers = [trials.ask(Place(0, slot, 0), {}, None) for slot in range(6)]
    for number in numbers:
        trials.report(number, 100, number)
    kept = [n for n in numbers if trials.decide(n, 100, complete=False, diverged=False) is None]
    assert kept == numbers[-3:]


def test_halving_keeps_everything_at_other_ages(tmp_path: Path) -> None:
    trials = open_trials(tmp_path)
    for slot in range(6):
        number = trials.ask(Place(0, slot, 0), {}, None)
        trials.report(number, 50, -slot)
        assert trials.decide(number, 50, complete=False, diverged=False) is None


def test_journal_of_killed_process_opens(tmp_path: Path) -> None:
    trials = open_trials(tmp_path)
    finish(trials, trials.ask(FIRST, {}, None), 1.0)
    with (tmp_path / "study.journal").open("ab") as file:
        file.write(b'{"op_code": 5, "wor')
    (tmp_path / "study.journal.lock").symlink_to("study.journal")
    again = open_trials(tmp_path)
    assert again.read(0).value == 1.0
    finish(again, again.ask(Place(0, 0, 1), {}, None), 2.0)
    assert len(open_trials(tmp_path).all()) == 2


def test_journal_loads_with_optuna_alone(tmp_path: Path) -> None:
    run_trials(open_trials(tmp_path), 3)
    backend = JournalFileBackend(str(tmp_path / "study.journal"))
    study = optuna.load_study(study_name="study", storage=optuna.storages.JournalStorage(backend))
    assert len(study.trials) == 3


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ("postgresql://me:secret@127.0.0.1:1/none", "Cannot open --storage postgresql://127.0"),
        ("study.db", "Cannot open --storage study.db: it is no address such as sqlite:///study.db"),
        ("sqlite:////missing/folder/study.db", "Cannot open --storage sqlite"),
    ],
)
def test_wrong_storage_is_refused_without_showing_passwords(
    storage: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message) as found:
        open_storage(storage, tmp_path)
    assert "secret" not in str(found.value)


def test_address_is_shown_without_password() -> None:
    assert shown("postgresql://me:se@cret@host/db") == "postgresql://host/db"
    assert shown("postgresql://me:se://cret@host/db") == "postgresql://host/db"
    assert shown("study.db") == "study.db"
