"""`td3 tune`: train the trials of a study, population after population."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna

from td3.config import varied
from td3.environments.simulators import resolve_version
from td3.errors import UserError, first_line
from td3.files import check_folder, make_folder, remove_empty
from td3.launch.session import open_training
from td3.launch.setup import Setup, set_up
from td3.run.checkpoint import prune
from td3.run.folder import create, read_config
from td3.run.lock import lock_run
from td3.run.versions import differences
from td3.signals import StopRequest
from td3.training.metrics import Sink
from td3.tuning.confirm import Confirmation, confirm
from td3.tuning.plan import Plan
from td3.tuning.refill import ChangingPopulation
from td3.tuning.results import TrialResult
from td3.tuning.rows import TrialTraining
from td3.tuning.trials import Halving, Place, Trials, open_storage

STUDY = "td3"  # name of the study in the journal of its folder
OnTraining = Callable[[TrialTraining], None]


class Search:
    """A study and the populations that train its trials, in one folder."""

    training_kind = TrialTraining

    def __init__(self, plan: Plan, folder: Path, study: optuna.Study, pruner: Any = None) -> None:
        self.plan, self.folder, self.space = plan, folder, plan.space
        if pruner is None:
            pruner = Halving(plan.rungs) if plan.pruner == "halving" else optuna.pruners.NopPruner()
        shared = bool(plan.storage)
        self.check_lock = lambda: None
        self.sinks: list[Sink] = []
        """They get the records of the populations."""
        self.trials = Trials(study, self.space, plan.owner, plan.config.seed, pruner, shared)

    def run(self, stop: StopRequest, on_training: OnTraining = lambda training: None) -> bool:
        """Train all trials that are left; returns False if the user stopped it."""
        number = 0
        while (done := self.asked_before(number)) < self.plan.trials:
            if not self.is_over(number, done):
                with self.open_population(number, done) as training:
                    on_training(training)
                    training.loop(stop)
                    if not training.finished:
                        return False
                remove_state(self.path(number))
            number += 1
        return True

    def confirm(self, best: TrialResult, hidden: bool) -> tuple[Confirmation | None, int]:
        """Compare a trial with the default; returns None if it was stopped, and an exit code."""
        return confirm(self.plan, best, self.folder, hidden)

    def path(self, number: int) -> Path:
        return self.folder / "populations" / f"{number:04d}"

    def asked_before(self, number: int) -> int:
        """How many trials the populations before this one have had."""
        return sum(place.population < number for place in self.trials.places)

    def is_over(self, number: int, done: int) -> bool:
        """Whether all trials of this population ended."""
        own = [trial for place, trial in self.trials.places.items() if place.population == number]
        over = all(self.trials.read(trial).state.is_finished() for trial in own)
        return len(own) == self.plan.quota(done) and over

    @contextmanager
    def open_population(self, number: int, done: int) -> Iterator[TrialTraining]:
        """A population, new or continued, with its trials."""
        folder, quota = self.path(number), self.plan.quota(done)
        shape = self.choose_shape(number)
        setup = self.set_up(folder, shape, min(self.plan.slots, quota))
        with ExitStack() as stack:
            stack.enter_context(closing(setup.environment))
            check_folder(folder.parent)
            check_folder(folder)
            origin: dict[str, str] = {}
            if (folder / "config.toml").exists():
                origin = read_config(folder)[1]
            else:
                create(setup.config, folder, more_versions=setup.more_versions)
            training = stack.enter_context(
                open_training(
                    setup.config,
                    folder,
                    replay_place=setup.replay_place,
                    first=setup.environment,
                    sinks=self.sinks,
                    kind=self.training_kind,
                    population_kind=ChangingPopulation,
                )
            )
            assert isinstance(training, TrialTraining)
            training.check_lock = self.check_lock
            if origin:
                changed = differences(origin, setup.more_versions)
                remarks = [f"not exact: {difference}" for difference in changed]
                for remark in training.restore() + remarks:
                    training.recorder.warn(training.step, remark)
            stored = {own.name: own.encode(shape[own.key]) for own in self.space.shapes}
            first, objective = self.space.encode(self.plan.config), self.plan.score
            training.join(
                self.trials, number, self.plan.steps, quota, stored, first, objective,
                self.plan.defaults(),
            )  # fmt: skip
            yield training

    def choose_shape(self, number: int) -> dict[str, Any]:
        """What the trials of a population share: as its first trial, which the study proposes.

        The first population has the settings that the search began with.
        """
        if not self.space.shapes:
            return {}
        place = Place(number, 0, 0)
        trial = self.trials.places.get(place)
        if trial is None:
            first = self.space.encode(self.plan.config)
            trial = self.trials.ask(place, {}, first)
        own = self.trials.settings(trial)
        return {parameter.key: own[parameter.key] for parameter in self.space.shapes}

    def set_up(self, folder: Path, shape: dict[str, Any], slots: int) -> Setup:
        """Check the configuration of a population, or read that of one that was stopped."""
        if (folder / "config.toml").exists():
            return set_up(read_config(folder)[0])
        config = self.plan.population(shape, slots)
        return set_up(varied(config, {"environment.id": resolve_version(config.environment.id)}))


@contextmanager
def open_study(plan: Plan, folder: Path) -> Iterator[optuna.Study]:
    """The study in its storage, new or existing."""
    name = plan.study or (folder.name if plan.storage else STUDY)
    storage = open_storage(plan.storage, folder, plan.trials)
    try:
        try:
            study = optuna.create_study(
                storage=storage, study_name=name, direction="maximize", load_if_exists=True
            )
        except Exception as error:
            raise UserError(f"Cannot open the study {name}: {first_line(error)}.") from error
        yield study
    finally:
        if isinstance(storage, optuna.storages.RDBStorage):
            storage.remove_session()
            storage.engine.dispose()


@contextmanager
def open_search(
    plan: Plan, folder: Path, pruner: Any = None, kind: Callable[..., Search] = Search
) -> Iterator[Search]:
    """Lock the folder of a search and open its study; `kind` makes the search."""
    make_folder(folder)
    with lock_run(folder) as lock, open_study(plan, folder) as study:
        search = kind(plan, folder, study, pruner)
        search.check_lock = lock.check
        yield search


def remove_state(folder: Path) -> None:
    """Remove what only a population that trains needs; its metrics stay."""
    prune(folder, kept=0)
    for name in ("checkpoints", "replay"):
        with suppress(FileNotFoundError):
            remove_empty(folder / name)  # unless it holds a file of the user
