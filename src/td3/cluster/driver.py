"""The driver: gives populations to workers, takes their files, replaces workers that are lost."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from td3.cluster.connection import Share
from td3.cluster.mirror import FINISH, newest_complete
from td3.cluster.pieces import Piece, empty_folder, folder_pieces, write_pieces
from td3.cluster.worker import REPORT_BYTES, Job, Report, Worker, sweep
from td3.config import Config, to_dict
from td3.errors import UserError, first_line
from td3.files import last_lines, make_folders
from td3.signals import StopRequest

TICK_SECONDS = 0.25
LOSSES = 5
"""How often a population may lose its worker without a new checkpoint in between."""
SWEEP_SECONDS = 30.0


@dataclass
class Population:
    """A unit of work: an ordinary run in its own folder."""

    name: str
    config: Config
    folder: Path
    state: str = "waiting"
    """waiting, starting, running, finished, stopped, failed."""
    step: int = 0
    node: str = ""
    doing: str = ""
    message: str = ""
    """Why it failed."""
    code: int = 0
    losses: int = 0
    saved: int | None = None
    """Step of the newest checkpoint that is stored."""
    saved_before: int | None = None
    """The same when its worker was last lost."""
    returns: dict[int, float] = field(default_factory=dict)
    """Agent → its last evaluation."""

    @property
    def is_over(self) -> bool:
        return self.state in ("finished", "stopped", "failed")


@dataclass
class Handle:
    """A worker, as the driver sees it."""

    population: Population
    actor: Any
    steps: Iterator[Any]
    """What the driver does with it, one call after the other."""
    answers: list[Any] = field(default_factory=list)


class Driver:
    """Trains populations on a cluster."""

    def __init__(
        self,
        ray: Any,
        populations: Sequence[Population],
        share: Share,
        storage: str = "",
        run_id: str = "",
        notify: Callable[[str, Population, dict[str, Any]], None] = lambda *facts: None,
        job: Callable[[Population, Job], Job] = lambda population, job: job,
        answer: Callable[[Population, dict[str, Any]], Any] = lambda population, question: None,
    ) -> None:
        """
        Args:
            ray: The module, connected.
            populations: What to train; finished ones are left alone.
            share: What each of them needs.
            storage: Where checkpoints go; "" streams them to this process.
            run_id: Names the temporary folders on the nodes; the same when a run continues.
            notify: Gets what happens: a kind, the population, and facts.
            job: Changes the job of a population.
            answer: Answers what its process asks.
        """
        self.ray, self.share, self.storage = ray, share, storage
        self.populations = list(populations)
        self.notify, self.job, self.answer = notify, job, answer
        self.run_id = run_id or uuid.uuid4().hex[:8]
        self.futures: dict[Any, Handle] = {}
        self.stopping = False
        self.actor_class = ray.remote(Worker)

    def run(self, stop: StopRequest, tick: Callable[[], None] = lambda: None) -> None:
        """Train until all populations are over, or until the user stops them and all are saved."""
        self.sweep()  # what the workers of a driver left that was killed
        try:
            for population in self.populations:
                if not population.is_over and not self.is_started(population):
                    self.start(population)
            while self.futures:
                ready, _ = self.ray.wait(list(self.futures), timeout=TICK_SECONDS)
                for future in ready:
                    self.take(future)
                if stop.requested and not self.stopping:
                    self.stop()
                tick()
        finally:
            for handle in self.futures.values():
                with suppress(Exception):
                    self.ray.kill(handle.actor)
            self.sweep()

    def is_started(self, population: Population) -> bool:
        return any(own.population is population for own in self.futures.values())

    def add(self, population: Population) -> None:
        """Train one more population."""
        self.populations.append(population)
        self.start(population)

    def start(self, population: Population) -> None:
        """Ask Ray for a worker; it starts when there is a place for it."""
        job = Job(self.run_id, population.name, to_dict(population.config), self.storage)
        job.cores = self.share.cpus
        options = {**self.share.options, "max_restarts": 0, "max_task_retries": 0}
        actor = self.actor_class.options(**options).remote(self.job(population, job))
        handle = Handle(population, actor, iter(()))
        population.state, population.node, population.doing = "waiting", "", ""
        handle.steps = self.prepare(handle)
        self.futures[next(handle.steps)] = handle

    def prepare(self, handle: Handle) -> Iterator[Any]:
        """The calls: the files of a run that continues, its start, then its reports."""
        actor, population = handle.actor, handle.population
        yield actor.where.remote()
        population.state, population.doing = "starting", "loading"
        if not self.storage:
            if newest_complete(population.folder) is None:
                empty_folder(population.folder)
            for pieces in batches(folder_pieces(population.folder)):
                yield actor.write.remote(pieces)
        yield actor.begin.remote()
        population.state = "running"
        while True:
            answers, handle.answers = handle.answers, []
            yield actor.advance.remote(self.stopping, answers)

    def take(self, future: Any) -> None:
        """Take the result of a call and make the next one."""
        handle = self.futures.pop(future)
        population, exceptions = handle.population, self.ray.exceptions
        try:
            found = self.ray.get(future)
        except (exceptions.RayActorError, exceptions.ObjectLostError) as error:
            self.lose(handle, describe_loss(error))
            return
        except exceptions.RayTaskError as error:
            cause = error.cause
            known = isinstance(cause, UserError | OSError)
            message = str(cause) if known else f"{type(cause).__name__}: {first_line(cause)}"
            self.finish(handle, {"code": 2 if known else 1, "message": message})
            return
        if isinstance(found, dict):
            population.node = found["node"]
            self.notify("placed", population, found)
        if isinstance(found, Report):
            make_folders(population.folder)
            write_pieces(population.folder, found.pieces)
            population.saved = found.saved
            for told in found.messages:
                self.hear(handle, told)
            if found.end:
                if found.end.get("lost"):
                    self.lose(handle, found.end["message"])
                else:
                    self.finish(handle, found.end)
                return
        self.futures[next(handle.steps)] = handle

    def hear(self, handle: Handle, message: dict[str, Any]) -> None:
        """Take a message of the process of a population."""
        population = handle.population
        match message["kind"]:
            case "ask":
                handle.answers.append(self.answer(population, message))
            case "step" | "ready":
                population.step, population.doing = message["step"], ""
            case "phase":
                population.doing = message["doing"]
            case "evaluation":
                population.returns[message["agent"]] = message["mean_return"]
        self.notify(message["kind"], population, message)

    def finish(self, handle: Handle, end: dict[str, Any]) -> None:
        """Note how a population ended and give its place back."""
        population = handle.population
        population.code, population.message = end["code"], end["message"]
        stopped = end["code"] > 128
        population.state = "failed" if end["message"] else "stopped" if stopped else "finished"
        if population.state == "finished":
            population.step = population.config.loop.steps
        self.release(handle)
        self.notify(population.state, population, end)

    def release(self, handle: Handle) -> None:
        """End a worker: its process, then the actor."""
        with suppress(Exception):
            self.ray.get(handle.actor.close.remote(), timeout=SWEEP_SECONDS)
        self.ray.kill(handle.actor)

    def lose(self, handle: Handle, why: str) -> None:
        """Start a population again that lost its worker, from its newest checkpoint."""
        population = handle.population
        with suppress(Exception):
            self.ray.kill(handle.actor)
        same = population.saved == population.saved_before
        population.losses = population.losses + 1 if same else 1
        population.saved_before = population.saved
        facts = {"message": why, "saved": population.saved, "stops": self.stopping}
        self.notify("lost", population, facts)
        if is_finished(population.folder):
            population.state = "finished"
        elif self.stopping:
            population.state, population.code = "stopped", 1
        elif population.losses >= LOSSES:
            population.state, population.code = "failed", 1
            population.message = f"it lost its worker {LOSSES} times in a row; the last time {why}"
            self.notify("failed", population, {"message": population.message})
        else:
            self.start(population)

    def stop(self) -> None:
        """Let all populations save and end; those without a place end at once."""
        self.stopping = True
        for future, handle in list(self.futures.items()):
            if handle.population.state == "waiting":
                del self.futures[future]
                self.ray.kill(handle.actor)
                handle.population.state = "stopped"

    def sweep(self) -> None:
        """Remove what killed workers left on the nodes."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        remote = self.ray.remote(sweep)
        with suppress(Exception):
            futures = [
                remote.options(
                    num_cpus=0,
                    scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=True),
                ).remote(self.run_id)
                for node in self.ray.nodes()
                if node["Alive"]
            ]
            self.ray.wait(futures, num_returns=len(futures), timeout=SWEEP_SECONDS)


def is_finished(folder: Path) -> bool:
    """Whether a run has ended; the driver then has all its results."""
    events = folder / "events.jsonl"
    lines = last_lines(events) if events.exists() else []
    return bool(lines) and FINISH in lines[-1]


def batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """Pieces in groups that fit into one call."""
    found: list[Piece] = []
    size = 0
    for piece in pieces:
        found.append(piece)
        size += len(piece.data or b"")
        if size >= REPORT_BYTES:
            yield found
            found, size = [], 0
    if found:
        yield found


def describe_loss(error: Exception) -> str:
    """Why a worker is lost, in a few words."""
    text = " ".join(str(error).split())
    if "node" in text.lower() and ("died" in text or "dead" in text or "lost" in text):
        return "its node was lost"
    return "its worker was killed"
