"""On a node: a population whose rows hold trials. The driver has the study; it asks and tells."""

import dataclasses
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from td3.cluster.population import Channel, run_reported
from td3.config import from_dict
from td3.environments.workers.processes import serve_parent
from td3.signals import StopRequest
from td3.training.metrics import Sink
from td3.tuning.plan import Plan
from td3.tuning.rows import TrialTraining
from td3.tuning.search import Search
from td3.tuning.space import Space
from td3.tuning.trials import End, Place, Trials


class NothingLeft(Exception):
    """The search has begun all its trials before this population had one."""


class RemoteTrials(Trials):
    """The trials of a study that the driver has."""

    def __init__(self, channel: Channel, space: Space, population: int) -> None:
        self.channel, self.space = channel, space
        found = channel.ask("places", population=population)
        self.places = {Place(*place): trial for place, trial in found}
        self.is_over = False
        """Whether the search has begun all its trials."""

    def request(self, place: Place, shape: Mapping[str, Any], first: Any) -> int | None:
        """A new trial, or None if the search has begun all its trials."""
        if self.is_over:
            return None
        given = dict(first) if first is not None else None
        trial = self.channel.ask("ask", place=list(place), shape=dict(shape), first=given)
        if trial is None:
            self.is_over = True
            return None
        self.places[place] = trial
        return int(trial)

    def ask(self, place: Place, shape: Mapping[str, Any], first: Any) -> int:
        """As `request`; raises NothingLeft instead of returning None."""
        if (trial := self.request(place, shape, first)) is None:
            raise NothingLeft
        return trial

    def settings(self, number: int) -> dict[str, Any]:
        return self.space.decode(self.channel.ask("params", trial=number))

    def report(self, number: int, age: int, value: float) -> None:
        self.channel.ask("report", trial=number, age=age, value=value)

    def end(self, number: int) -> End | None:
        return as_end(self.channel.ask("end", trial=number))

    def decide(self, number: int, age: int, complete: bool, diverged: bool) -> End | None:
        facts = {"age": age, "complete": complete, "diverged": diverged}
        return as_end(self.channel.ask("decide", trial=number, **facts))

    def tell(self, number: int, end: End, value: float | None, returns: Mapping[str, Any]) -> None:
        facts = {"end": dataclasses.asdict(end), "value": value, "returns": dict(returns)}
        self.channel.ask("tell", trial=number, **facts)


def as_end(found: dict[str, Any] | None) -> End | None:
    return End(**found) if found else None


class NodeTraining(TrialTraining):
    """A training that gets its trials from the driver, as many as the search has left."""

    def ask(self, place: Place) -> int | None:
        assert isinstance(self.trials, RemoteTrials)
        return self.trials.request(place, self.shape, self.first)


class NodeSearch(Search):
    """One population of a search whose study the driver has."""

    training_kind = NodeTraining

    def __init__(self, plan: Plan, folder: Path, trials: Trials) -> None:
        self.plan, self.folder, self.space, self.trials = plan, folder, plan.space, trials
        self.check_lock = lambda: None
        self.sinks: list[Sink] = []

    def path(self, number: int) -> Path:
        return self.folder


def serve(connection: Connection, facts: dict[str, Any]) -> None:
    """Train the trials of a population, new or continued, and report how it ended."""

    def action(channel: Channel) -> int:
        try:
            return train(channel, facts)
        except NothingLeft:
            return 0

    run_reported(connection, action)


def train(channel: Channel, facts: dict[str, Any]) -> int:
    """Train until the search has no trial left for this population; returns an exit code."""
    plan = Plan(from_dict(facts["settings"]), search=facts["search"], **facts["plan"])
    number, folder = facts["number"], Path(facts["folder"])
    search = NodeSearch(plan, folder, RemoteTrials(channel, plan.space, number))
    with search.open_population(number, 0) as training, StopRequest(lambda: True) as stop:
        training.on_step = channel.step
        channel.tell("ready", step=training.step)
        training.loop(stop)
        if training.finished:
            training.recorder.event("finish", step=training.step)
        return stop.exit_code


if __name__ == "__main__":
    serve_parent(int(sys.argv[1]), int(sys.argv[2]), serve)
