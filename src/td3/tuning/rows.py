"""A population whose rows hold trials: each trial has one row for each of its seeds."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from td3.training.divergence import freeze_diverged
from td3.training.metrics import evaluation_record
from td3.tuning.refill import RefillTraining
from td3.tuning.trials import End, Place, Trials

Objective = Callable[[Sequence[float]], float]
"""One number from the evaluations of a trial, each a mean over its seeds."""


class TrialTraining(RefillTraining):
    """A training that reports evaluations to a study and replaces trials that ended."""

    def join(
        self,
        trials: Trials,
        number: int,
        steps: int,
        quota: int,
        shape: Mapping[str, Any],
        first: Mapping[str, Any] | None,
        objective: Objective,
        defaults: Mapping[str, Any],
    ) -> None:
        """Take part in a study.

        Args:
            trials: The study.
            number: Which population of the search this is.
            steps: Steps of a trial.
            quota: Largest number of trials of this population.
            shape: What all its trials share, as the study stores it.
            first: Settings of the first trial of an empty study.
            objective: What the study maximizes.
            defaults: The settings in which its agents may differ, as they are without a trial.
        """
        self.trials, self.number, self.steps, self.quota = trials, number, steps, quota
        self.shape, self.first, self.objective = shape, first, objective
        self.defaults = dict(defaults)
        self.slots: list[int | None] = [None] * (self.agent.agents // self.config.seeds)
        """The trial of each slot."""
        self.returns: dict[int, dict[str, dict[str, float]]] = {}
        """Trial → age → seed → mean return; JSON has no other keys than text."""
        self.on_boundary: Callable[[], None] = lambda: None
        if self.step == 0:
            self.fill()
        else:
            self.find_trials()

    @property
    def finished(self) -> bool:
        return not any(trial is not None for trial in self.slots)

    def rows(self, slot: int) -> range:
        return range(slot * self.config.seeds, (slot + 1) * self.config.seeds)

    def age(self, slot: int) -> int:
        return int(self.step - self.starts[self.rows(slot)[0]])

    def find_trials(self) -> None:
        """After a resume: find the trials that train, and their evaluations so far."""
        for line in self.recorder.run.metrics.read_bytes().splitlines():
            record = json.loads(line)
            if record["kind"] == "evaluation":
                self.keep(record)
        for slot in range(len(self.slots)):
            began = int(self.starts[self.rows(slot)[0]])
            trial = self.trials.places.get(Place(self.number, slot, began))
            if trial is None:
                lost = f"not exact: the study has no trial of slot {slot} from step {began:,}"
                self.recorder.warn(self.step, lost)
                continue
            end = self.trials.end(trial)
            waits = self.evaluations.step == self.step
            if end is None or end.age > self.age(slot) or (end.age == self.age(slot) and waits):
                self.slots[slot] = trial
                self.report_again(trial)

    def report_again(self, trial: int) -> None:
        """Report evaluations that the study has lost, for example with the end of its journal."""
        for age, found in self.returns.get(trial, {}).items():
            if len(found) == self.config.seeds:
                self.trials.report(trial, int(age), float(np.mean(list(found.values()))))

    def keep(self, record: Mapping[str, Any]) -> None:
        ages = self.returns.setdefault(record["trial"], {})
        ages.setdefault(str(record["age"]), {})[str(record["seed"])] = record["mean_return"]

    def evaluate(self) -> None:
        """Evaluate the agents of all trials, and wait for the results: trials may end now."""
        if self.step == 0:
            return
        freeze_diverged(self)
        agents = [row for slot in self.running() for row in self.rows(slot)]
        self.evaluations.begin(self.step, [a for a in agents if not self.population.frozen[a]])
        self.record_evaluations()

    def finish_evaluation(self) -> bool:
        if self.evaluations.step is None:
            return False
        self.record_evaluations()
        return self.evaluations.step is None

    def record_evaluations(self) -> None:
        """Write the results of the evaluation in progress; end trials and begin others."""
        begun = self.evaluations.step
        if begun is None:
            return
        results = self.evaluations.results(lambda: self.stop.requested)
        if self.evaluations.step is not None:
            return  # stopped in the middle
        for result in results:
            found, agent = result.found, result.agent
            if np.isnan(found.returns).any():
                self.population.frozen[agent] = True
                continue
            slot = agent // self.config.seeds
            seed = self.population.members[agent].seed
            record = evaluation_record(begun, agent, seed, found.returns, found.lengths, False)
            record |= {"trial": self.slots[slot], "age": self.age(slot)}
            self.recorder.write(record)
            self.keep(record)
        self.end_trials()
        self.fill()
        self.on_boundary()

    def running(self) -> list[int]:
        """The slots with a trial."""
        return [slot for slot, trial in enumerate(self.slots) if trial is not None]

    def end_trials(self) -> None:
        """Report all evaluations, then decide which trials end."""
        values = {slot: self.mean(slot) for slot in self.running()}
        for slot, value in values.items():
            if value is not None:
                self.trials.report(self.trial(slot), self.age(slot), value)
        ends: dict[int, End] = {}
        for slot, value in values.items():
            age = self.age(slot)
            over, bad = age >= self.steps, value is None
            if end := self.trials.decide(self.trial(slot), age, complete=over, diverged=bad):
                ends[slot] = end
        for slot, end in ends.items():
            trial = self.trial(slot)
            self.trials.tell(trial, end, self.value(trial), self.returns.pop(trial, {}))
            self.slots[slot] = None

    def trial(self, slot: int) -> int:
        trial = self.slots[slot]
        assert trial is not None
        return trial

    def mean(self, slot: int) -> float | None:
        """Mean over the seeds of the evaluation at this age; None if one of them diverged."""
        found = self.returns.get(self.trial(slot), {}).get(str(self.age(slot)), {})
        if len(found) < self.config.seeds or self.population.frozen[self.rows(slot)].any():
            return None
        return float(np.mean(list(found.values())))

    def value(self, trial: int) -> float | None:
        """The objective of a trial; None without evaluations."""
        ages = sorted(self.returns.get(trial, {}).items(), key=lambda own: int(own[0]))
        means = [float(np.mean(list(found.values()))) for _, found in ages]
        return self.objective(means) if means else None

    def fill(self) -> None:
        """Begin trials in the slots without one, from the log or from the study."""
        for slot in range(len(self.slots)):
            if self.slots[slot] is not None:
                continue
            place = Place(self.number, slot, self.step)
            trial = self.trials.places.get(place)
            if trial is None:
                trial = self.ask(place)
            if trial is not None:
                self.begin(slot, trial)

    def ask(self, place: Place) -> int | None:
        """A new trial for this place; None if the population has had all of its trials."""
        if self.asked >= self.quota:
            return None
        return self.trials.ask(place, self.shape, self.first)

    @property
    def asked(self) -> int:
        """How many trials this population has had."""
        return sum(place.population == self.number for place in self.trials.places)

    def begin(self, slot: int, trial: int) -> None:
        """Give the rows of a slot to a trial."""
        own = self.trials.settings(trial)
        values = self.defaults | {key: own[key] for key in self.defaults.keys() & own.keys()}
        for row in self.rows(slot):
            if self.step == 0:
                self.apply_settings(row, values)
            else:
                self.replace(row, values)
        self.slots[slot] = trial
