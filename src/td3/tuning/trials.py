"""The trials of a study, in an Optuna storage.

The storage is also the log of every decision: where a trial trained, and why and when it ended. A
search that was killed repeats its steps since the last checkpoint and takes the same decisions
from the log. So it needs no other record.
"""

import contextlib
import reprlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, Trial, TrialState

from td3.errors import UserError, first_line
from td3.tuning.journal import OWN, open_journal
from td3.tuning.plan import MOST_TRIALS
from td3.tuning.space import Space
from td3.untrusted import Malformed

PLACE, END, RETURNS = "place", "end", "returns"
"""Names of the attributes of a trial."""

optuna.logging.set_verbosity(optuna.logging.ERROR)


class Place(NamedTuple):
    """Where a trial trains."""

    population: int
    slot: int
    began: int
    """Step of the population."""


@dataclass(frozen=True)
class End:
    """How a trial ended."""

    age: int
    """Its number of steps."""
    reason: Literal["complete", "pruned", "diverged"]


class Trials:
    """Asks Optuna for trials and tells it their results; what was decided before is kept.

    `owner` names this search in a storage that several searches share.
    """

    def __init__(
        self, study: optuna.Study, space: Space, owner: str, seed: int, pruner: Any, shared: bool
    ) -> None:
        self.study, self.space, self.owner, self.seed = study, space, owner, seed
        self.pruner, self.shared = pruner, shared
        self.open: dict[int, Trial] = {}
        self.places: dict[Place, int] = {}
        """Where each trial of this search trains."""
        for trial in study.get_trials(deepcopy=False):
            self.check(trial)
            own = trial.user_attrs.get(PLACE)
            if own and own["owner"] == owner:
                place = Place(own["population"], own["slot"], own["began"])
                self.places[place] = trial.number

    def check(self, trial: FrozenTrial) -> None:
        """Refuse a study of another search space, and attributes that td3 did not write."""
        study, known = self.study.study_name, self.space.distributions()
        try:
            OWN(trial.user_attrs, f"trial {trial.number}")
        except Malformed as error:
            raise UserError(f"The study {study} is damaged: {error}.") from error
        for name, own in trial.distributions.items():
            if known.get(name) != own:
                raise UserError(
                    f"The study {study} searches {name} over another range; use "
                    "the same search space, or another study."
                )
            if not is_in(trial.params[name], own):
                value = reprlib.repr(trial.params[name])
                raise UserError(
                    f"The study {study} is damaged: trial {trial.number} has {name} = {value}."
                )

    def ask(self, place: Place, shape: Mapping[str, Any], first: Mapping[str, Any] | None) -> int:
        """A new trial at this place, with these values of the settings that a population shares.

        `first`: the settings of the first trial of an empty study.
        """
        study, count = self.study, len(self.places)
        study.sampler = make_sampler(self.seed, count, shape)
        if first is not None and not study.get_trials(deepcopy=False):
            study.enqueue_trial(dict(first))
        space = self.space.distributions()
        with quiet():
            orphan = self.find_orphan()
            trial = study.ask(space) if orphan is None else complete(study, orphan, space)
        trial.set_user_attr(PLACE, {"owner": self.owner, **place._asdict()})
        self.places[place] = trial.number
        return trial.number

    def find_orphan(self) -> FrozenTrial | None:
        """The trial that this search was killed while asking for; unknown if others ask too."""
        if self.shared:
            return None
        running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return next((trial for trial in running if PLACE not in trial.user_attrs), None)

    def read(self, number: int) -> FrozenTrial:
        """A trial as the storage has it."""
        return self.study.get_trials(deepcopy=False)[number]

    def all(self) -> list[FrozenTrial]:
        """The trials of this study, also those of other searches."""
        return self.study.get_trials(deepcopy=False)

    def settings(self, number: int) -> dict[str, Any]:
        """The settings of a trial by their dotted names."""
        return self.space.decode(self.read(number).params)

    def report(self, number: int, age: int, value: float) -> None:
        """Report an evaluation, unless it is in the log."""
        if age not in self.read(number).intermediate_values and self.end(number) is None:
            self.handle(number).report(value, age)

    def end(self, number: int) -> End | None:
        """How a trial ended; None if it is still to end."""
        found = self.read(number).user_attrs.get(END)
        return End(found["age"], found["reason"]) if found else None

    def decide(self, number: int, age: int, complete: bool, diverged: bool) -> End | None:
        """How a trial ends at this age, as in the log or newly decided; None if it continues."""
        if end := self.end(number):
            return end if end.age <= age else None
        trial = self.read(number)
        if trial.last_step is not None and trial.last_step > age:
            return None
        if diverged:
            return End(age, "diverged")
        if complete:
            return End(age, "complete")
        with quiet():
            pruned = self.pruner.prune(self.study, trial)
        return End(age, "pruned") if pruned else None

    def tell(self, number: int, end: End, value: float | None, returns: Mapping[str, Any]) -> None:
        """Finish a trial, unless it is finished; `returns` are its evaluations of each seed."""
        if self.read(number).state != TrialState.RUNNING:
            return
        trial = self.handle(number)
        trial.set_user_attr(RETURNS, dict(returns))
        trial.set_user_attr(END, asdict(end))
        if end.reason == "complete" and value is not None:
            self.study.tell(number, value)
        else:
            self.study.tell(number, state=TrialState.PRUNED)

    def handle(self, number: int) -> Trial:
        """A trial to write to."""
        if number not in self.open:
            self.open[number] = Trial(self.study, self.read(number)._trial_id)
        return self.open[number]


def is_in(value: Any, range_: BaseDistribution) -> bool:
    """Whether a study could have proposed this value."""
    if isinstance(range_, FloatDistribution):
        return bool(range_.low <= value <= range_.high)
    return isinstance(range_, CategoricalDistribution) and value in range_.choices


def complete(
    study: optuna.Study, found: FrozenTrial, space: Mapping[str, BaseDistribution]
) -> Trial:
    """Finish what `study.ask` began: the same parameters as if it had not been interrupted."""
    trial = Trial(study, found._trial_id)
    chosen = found.system_attrs.get("fixed_params", {}).keys() | trial.relative_params.keys()
    for name, own in space.items():
        if name in found.params and name not in chosen and not own.single():
            study.sampler.sample_independent(study, found, name, own)  # draws as before
        elif isinstance(own, CategoricalDistribution):
            trial.suggest_categorical(name, own.choices)
        elif isinstance(own, FloatDistribution):
            trial.suggest_float(name, own.low, own.high, log=own.log)
    return trial


def make_sampler(seed: int, count: int, shape: Mapping[str, Any]) -> optuna.samplers.BaseSampler:
    """The sampler of one trial: it depends on nothing but the study and these numbers."""
    own = int(np.random.SeedSequence([seed, count]).generate_state(1)[0])
    with quiet():
        tpe = optuna.samplers.TPESampler(seed=own)
        return optuna.samplers.PartialFixedSampler(dict(shape), tpe) if shape else tpe


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide Optuna's warnings about experimental classes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


class Halving(optuna.pruners.BasePruner):
    """Successive halving: at each of these ages, the better half of all trials so far continues.

    A pure function of the storage, so that a decision can be repeated.
    """

    def __init__(self, ages: Sequence[int]) -> None:
        self.ages = ages

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        age = trial.last_step
        if age is None or age not in self.ages:
            return False
        values = sorted(
            (
                own.intermediate_values[age]
                for own in study.get_trials(deepcopy=False)
                if age in own.intermediate_values
            ),
            reverse=True,
        )
        return trial.intermediate_values[age] < values[(len(values) - 1) // 2]


def open_storage(
    storage: str, folder: Path, trials: int = MOST_TRIALS
) -> optuna.storages.BaseStorage:
    """The storage of a study: the journal in its folder, or a database by its URL."""
    if not storage:
        return open_journal(folder, trials)
    if "://" not in storage:
        raise UserError(
            f"Cannot open --storage {storage}: it is no address such as sqlite:///study.db or "
            "postgresql://host/db."
        )
    url = storage
    if url.startswith("postgresql://"):  # the driver of td3[tune-postgres]
        url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    try:
        return optuna.storages.RDBStorage(url)
    except ImportError as error:
        raise UserError(
            f"--storage {shown(storage)} needs a driver: {first_line(error)}; for PostgreSQL "
            "pip install 'td3[postgres]'."
        ) from error
    except Exception as error:
        raise UserError(f"Cannot open --storage {shown(storage)}: {first_line(error)}.") from error


def shown(storage: str) -> str:
    """The address without user and password."""
    scheme, separator, rest = storage.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if separator else storage
