"""`td3 tune --cluster`: the populations of a search over the nodes; the study stays here."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from td3.cluster.connection import choose_share, connected, places, read_nodes
from td3.cluster.driver import Driver, Population, is_finished
from td3.cluster.nodes import check_nodes
from td3.cluster.progress import ClusterDisplay
from td3.cluster.run import (
    Cluster,
    describe_share,
    is_cluster_run,
    read_cluster,
    storage_of,
    train_populations,
    wait_for_place,
    with_storage,
    write_cluster,
)
from td3.cluster.shipping import folder_to_ship
from td3.cluster.worker import Job
from td3.config import to_dict, varied
from td3.environments.simulators import resolve_version
from td3.errors import RunStopped
from td3.signals import StopRequest
from td3.text import parse_duration
from td3.tuning.confirm import Confirmation, fresh
from td3.tuning.plan import OWN, SHAPE_SHARE, Plan
from td3.tuning.results import TrialResult, best_config
from td3.tuning.search import OnTraining, Search, remove_state
from td3.tuning.trials import End, Place

MODULE = "td3.cluster.trials"


def search_on(cluster: Cluster, folder: Path, quiet: bool) -> Callable[..., Search]:
    """What makes the search of a folder: on a cluster if its options, or the folder, name one."""
    if not cluster.address and is_cluster_run(folder):
        cluster = dataclasses.replace(cluster, address=read_cluster(folder)[0].address)
    if not cluster.address:
        return Search
    return functools.partial(ClusterSearch, cluster=cluster.checked(), quiet=quiet)


class ClusterSearch(Search):
    """A search whose populations train at the same time on the nodes of a cluster.

    Populations ask for trials in any order, so two searches differ. One that was killed continues:
    where each trial trains, and how it ended, is in the study.
    """

    def __init__(
        self, plan: Plan, folder: Path, study: Any, pruner: Any, cluster: Cluster, quiet: bool
    ) -> None:
        super().__init__(plan, folder, study, pruner)
        self.cluster, self.display = (
            cluster,
            ClusterDisplay(plan.config.environment.id, quiet, lines=True),
        )

    def run(self, stop: StopRequest, on_training: OnTraining = lambda training: None) -> bool:
        """Train all trials that are left; returns False if the user stopped it."""
        self.settle()
        with connected(self.cluster.address, folder_to_ship(self.plan.config)) as ray:
            nodes = read_nodes(ray)
            share = choose_share(nodes, self.plan.config.device, self.plan.config.threads)
            check_nodes(ray, nodes, [self.plan.config])
            wait_for_place(ray, share, parse_duration(self.cluster.wait) or 0, self.display, stop)
            self.lanes = self.cluster.populations or places(nodes, share)
            self.cluster = dataclasses.replace(self.cluster, populations=self.lanes)
            write_cluster(self.folder, self.cluster, share)
            device = "cuda" if share.gpus else "cpu"
            self.plan = dataclasses.replace(
                self.plan, config=varied(self.plan.config, {"device": device, "threads": 1})
            )
            self.display.print(
                f"Up to {self.lanes} populations at a time, each on {describe_share(share)}."
            )
            return self.train_all(ray, share, stop, on_training)

    def settle(self) -> None:
        """Continue with the same populations and the same storage as before."""
        if is_cluster_run(self.folder):
            before, _ = read_cluster(self.folder)
            wait = before.wait if self.cluster.wait == Cluster.wait else self.cluster.wait
            self.cluster = dataclasses.replace(before, address=self.cluster.address, wait=wait)
        elif self.cluster.storage:
            self.cluster = with_storage(self.cluster)

    def train_all(self, ray: Any, share: Any, stop: StopRequest, on_training: OnTraining) -> bool:
        watched = Watched(self)
        on_training(watched)  # type: ignore[arg-type]  # it has what a display uses
        driver = Driver(
            ray,
            [],
            share,
            storage_of(self.cluster, self.folder),
            self.cluster.id,
            self.display.notify,
            self.describe_job,
            lambda population, question: self.answer(watched, population, question),
        )
        self.number = 0
        self.add_populations(driver)

        def tick() -> None:
            watched.progress(driver.populations)
            if not stop.requested:
                self.add_populations(driver)

        driver.run(stop, tick)
        for own in driver.populations:
            if own.state == "finished":
                remove_state(own.folder)
        if failed := [own for own in driver.populations if own.state == "failed"]:
            raise RunStopped(failed[0].message.rstrip("."))
        return not stop.requested

    def add_populations(self, driver: Driver) -> None:
        """Start populations, as many at a time as there are places, while trials are left."""
        while sum(not own.is_over for own in driver.populations) < self.lanes:
            is_known = self.path(self.number).exists()
            if not is_known and len(self.trials.places) >= self.plan.trials:
                return
            if any(own.state == "failed" for own in driver.populations):
                return
            folder = self.path(self.number)
            population = Population(f"{self.number:04d}", self.plan.config, folder)
            self.number += 1
            if is_finished(folder):
                remove_state(folder)
                continue
            driver.add(population)

    @property
    def slots(self) -> int:
        """Trials at the same time in one population."""
        return max(1, min(self.plan.slots, -(-self.plan.trials // self.lanes)))

    def describe_job(self, population: Population, job: Job) -> Job:
        """The job of the process that trains trials."""
        plan = dataclasses.replace(self.plan, rows=self.slots * self.plan.config.seeds)
        job.module = MODULE
        job.facts = {
            "plan": {name: getattr(plan, name) for name in OWN},
            "search": dict(plan.search),
            "settings": to_dict(plan.config),
            "number": int(population.name),
        }
        return job

    def answer(self, watched: "Watched", population: Population, question: dict[str, Any]) -> Any:
        """Answer a population: the study is asked and told in this process only."""
        trials = self.trials
        match question["what"]:
            case "places":
                own = question["population"]
                return [[list(k), v] for k, v in trials.places.items() if k.population == own]
            case "ask":
                return self.ask(Place(*question["place"]), question["shape"], question["first"])
            case "params":
                return dict(trials.read(question["trial"]).params)
            case "report":
                return trials.report(question["trial"], question["age"], question["value"])
            case "end":
                return as_table(trials.end(question["trial"]))
            case "decide":
                facts = {key: question[key] for key in ("age", "complete", "diverged")}
                return as_table(trials.decide(question["trial"], **facts))
            case "tell":
                end = End(**question["end"])
                trials.tell(question["trial"], end, question["value"], question["returns"])
                watched.on_boundary()
        return None

    def ask(self, place: Place, shape: dict[str, Any], first: Any) -> int | None:
        """A new trial for this place; None if the search or its population has had all."""
        own = sum(known.population == place.population for known in self.trials.places)
        most = self.plan.trials
        if self.space.shapes:
            most = max(self.slots, -(-self.plan.trials // SHAPE_SHARE))
        if len(self.trials.places) >= self.plan.trials or own >= most:
            return None
        return self.trials.ask(place, shape, first)

    def confirm(self, best: TrialResult, hidden: bool) -> tuple[Confirmation | None, int]:
        """Train the best setting and the default on the cluster, then compare them."""
        configs = {
            f"trial-{best.number}": best_config(self.plan, best),
            "default": varied(self.plan.config, {"seeds": 1}),
        }
        populations = []
        for name, config in configs.items():
            own = fresh(self.plan, config)
            environment = {"environment.id": resolve_version(own.environment.id)}
            folder = self.folder / "confirm" / name
            population = Population(f"confirm-{name}", varied(own, environment), folder)
            population.state = "finished" if is_finished(folder) else "waiting"
            populations.append(population)
        with connected(self.cluster.address, folder_to_ship(self.plan.config)) as ray:
            share = choose_share(read_nodes(ray), self.plan.config.device, 1)
            storage = storage_of(self.cluster, self.folder)
            code = train_populations(ray, populations, share, storage, self.cluster, self.display)
        if failed := [own for own in populations if own.state == "failed"]:
            raise RunStopped(failed[0].message.rstrip("."))
        return (None, code) if code else super().confirm(best, hidden)


def as_table(end: End | None) -> dict[str, Any] | None:
    return dataclasses.asdict(end) if end else None


class Watched:
    """All populations of a search, as the display of `td3 tune` sees one population."""

    def __init__(self, search: ClusterSearch) -> None:
        self.trials, self.step = search.trials, 0
        self.on_step: Callable[[int], None] = lambda step: None
        self.on_boundary: Callable[[], None] = lambda: None
        self.steps: dict[int, int] = {}

    def progress(self, populations: list[Population]) -> None:
        """Take the steps of all populations."""
        self.steps = {int(own.name): own.step for own in populations if not own.is_over}
        self.step = max([self.step, *self.steps.values()])
        self.on_step(self.step)

    def running(self) -> list[int]:
        """The trials that train."""
        return [
            trial
            for place, trial in self.trials.places.items()
            if place.population in self.steps and not self.trials.end(trial)
        ]

    def trial(self, slot: int) -> int:
        return slot

    def age(self, slot: int) -> int:
        place = next(own for own, trial in self.trials.places.items() if trial == slot)
        return max(0, self.steps.get(place.population, 0) - place.began)
