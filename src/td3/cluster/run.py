"""`td3 train --cluster`: start a run over the nodes of a cluster, or continue one."""

import dataclasses
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from td3.cluster.connection import Share, choose_share, connected, places, read_nodes
from td3.cluster.division import divide
from td3.cluster.driver import Driver, Population, is_finished
from td3.cluster.join import describe, join_results
from td3.cluster.nodes import check_nodes
from td3.cluster.progress import ClusterDisplay, describe_cluster, open_cluster_display
from td3.cluster.shipping import folder_to_ship
from td3.cluster.storage import Storage
from td3.config import Config, check, read_toml, to_toml, varied
from td3.environments.simulators import resolve_version
from td3.errors import RunStopped, UserError
from td3.files import replace_file
from td3.run.folder import RunFolder, create, read_config, refuse_used, rewrite_config
from td3.run.lock import lock_run
from td3.run.versions import differences
from td3.signals import StopRequest
from td3.text import count, parse_duration

FILE = "cluster.toml"
FOLDER = "populations"
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Cluster:
    """Where and how to train a run on a cluster."""

    address: str = "auto"
    """auto: the cluster that this machine belongs to; local: start Ray on this machine; or the
    address of a head node."""
    populations: int = 0
    """Into how many populations to divide the agents; 0: one for each GPU or core."""
    storage: str = ""
    """Shared folder or fsspec address for checkpoints; "": stream them to the driver."""
    wait: str = "1m"
    """How long to wait for the first free place."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    """Names the temporary folders on the nodes."""

    def checked(self) -> "Cluster":
        """The options themselves. Raises UserError if one is wrong."""
        for name in ("address", "storage"):
            if not isinstance(value := getattr(self, name), str):
                raise UserError(f"{name} of the cluster must be text, got {value!r}.")
        if type(self.populations) is not int or self.populations < 0:
            raise UserError(
                f"populations must be a whole number, 0 or more, got {self.populations!r}."
            )
        if not isinstance(self.wait, str) or parse_duration(self.wait) is None:
            raise UserError(f"wait must be a duration such as 90s or 10m, got {self.wait!r}.")
        return self


def read_options(given: str | Mapping[str, Any]) -> Cluster:
    """The options that a Python program passes: an address, or a table."""
    if isinstance(given, str):
        return Cluster(given)
    if unknown := sorted(given.keys() - {"address", "populations", "storage", "wait"}):
        raise UserError(
            f"cluster has an unknown option {unknown[0]!r}; it has address, populations, storage "
            "and wait."
        )
    return Cluster(**given).checked()


def start(
    config: Config, folder: Path | None, cluster: Cluster, quiet: bool = False
) -> tuple[Path, int]:
    """Start a run on a cluster; returns its folder and an exit code (130 after Ctrl-C)."""
    config = check_config(check(config))
    if folder:  # refused here, before the cluster is asked
        refuse_used(folder)
    environment = dataclasses.replace(config.environment, id=resolve_version(config.environment.id))
    config = dataclasses.replace(config, environment=environment)
    with (
        open_cluster_display(title_of(config), quiet) as display,
        connected(cluster.checked().address, folder_to_ship(config)) as ray,
    ):
        nodes = read_nodes(ray)
        share = choose_share(nodes, config.device, config.threads)
        device = "cuda" if share.gpus else "cpu"
        config = varied(config, {"device": device, "threads": config.threads or 1})
        parts = divide(config, cluster.populations or places(nodes, share))
        cluster = dataclasses.replace(cluster, populations=len(parts))
        if cluster.storage:
            cluster = with_storage(cluster)
        display.phase("checking the nodes")
        check_nodes(ray, nodes, [config])
        folder = create(config, folder)
        write_cluster(folder, cluster, share)
        display.print(f"Run folder: {folder}")
        return folder, train(ray, folder, config, cluster, share, parts, display, "start")


def resume(
    folder: Path,
    address: str = "",
    steps: int | None = None,
    quiet: bool = False,
) -> int:
    """Continue a run on a cluster; returns an exit code.

    Args:
        folder: The folder of the run.
        address: Another cluster than before.
        steps: New total number of steps.
        quiet: Show no progress.
    """
    config, origin = read_config(folder)
    cluster, share = read_cluster(folder)
    cluster = dataclasses.replace(cluster, address=address or cluster.address)
    if steps is not None:
        config = varied(config, {"loop.steps": steps})
    parts = divide(config, cluster.populations)
    with (
        open_cluster_display(title_of(config), quiet) as display,
        connected(cluster.address, folder_to_ship(config)) as ray,
    ):
        nodes = read_nodes(ray)
        choose_share(nodes, config.device, share.cpus)
        display.phase("checking the nodes")
        check_nodes(ray, nodes, [config])
        rewrite_config(folder, config, origin)
        write_cluster(folder, cluster, share)
        for difference in differences(origin, {}):
            display.print(f"! not exact: {difference}")
        extended = steps is not None
        return train(ray, folder, config, cluster, share, parts, display, "resume", extended)


def train(
    ray: Any,
    folder: Path,
    config: Config,
    cluster: Cluster,
    share: Share,
    parts: Sequence[Config],
    display: ClusterDisplay,
    event: str,
    extended: bool = False,
) -> int:
    """Train all populations that are not finished; returns an exit code."""
    populations = [
        Population(f"{k:04d}", part, folder / FOLDER / f"{k:04d}") for k, part in enumerate(parts)
    ]
    for population in populations:
        if is_finished(population.folder) and not extended:
            population.state, population.step = "finished", config.loop.steps
    storage = storage_of(cluster, folder)
    run = RunFolder(folder)
    with lock_run(folder), closing(run.events):
        run.event(event, step=0, populations=len(parts))
        code = train_populations(ray, populations, share, storage, cluster, display)
        join_results(config, populations, folder)
        failed = [own for own in populations if own.state == "failed"]
        if code or failed:
            run.event("stop", step=min(own.step for own in populations))
        else:
            run.event("finish", step=config.loop.steps)
    if failed and not code:
        raise_failure(folder, failed, populations)
    return code


def train_populations(
    ray: Any,
    populations: Sequence[Population],
    share: Share,
    storage: str,
    cluster: Cluster,
    display: ClusterDisplay,
) -> int:
    """Train populations until all are over; returns the exit code of a signal, or 0."""
    nodes = read_nodes(ray)
    cpus, gpus = sum(own.cpus for own in nodes), sum(own.gpus for own in nodes)
    display.know(populations, describe_cluster(len(nodes), cpus, gpus))
    display.print(f"{describe(populations)}, each on {describe_share(share)}.")
    with StopRequest(display.stopping) as stop:
        wait_for_place(ray, share, parse_duration(cluster.wait) or 0, display, stop)
        driver = Driver(ray, populations, share, storage, cluster.id, display.notify)
        driver.run(stop, display.tick)
    return stop.exit_code


def wait_for_place(
    ray: Any, share: Share, seconds: float, display: ClusterDisplay, stop: StopRequest
) -> None:
    """Wait until a population can start. Raises UserError if none can for so long."""
    limit, needed = time.monotonic() + seconds, describe_share(share)
    while not share.fits(ray.available_resources()) and not stop.requested:
        if time.monotonic() > limit:
            raise UserError(
                f"The cluster has no free resources: a population needs {needed}, "
                "and other jobs use them; stop those, add nodes, or wait longer with --wait."
            )
        if not (display.redraws or display.doing.startswith("waiting")):
            display.print(f"Waiting for {needed}.")
        display.phase(f"waiting for {needed}")
        time.sleep(POLL_SECONDS)
    display.phase("")


def describe_share(share: Share) -> str:
    parts = [count(share.gpus, "GPU")] if share.gpus else []
    return " and ".join([*parts, count(share.cpus, "CPU")])


def raise_failure(
    folder: Path, failed: Sequence[Population], populations: Sequence[Population]
) -> None:
    """Raise the error of the populations that failed, as a run on one machine would."""
    message = failed[0].message.rstrip(".")
    if len(failed) == len(populations) and all(own.code == 2 for own in failed):
        raise UserError(f"{message}.")
    raise RunStopped(
        f"{len(failed)} of {count(len(populations), 'population')} failed; the first, "
        f"{failed[0].name}: {message}. Continue with: td3 resume {folder}"
    )


def check_config(config: Config) -> Config:
    """Refuse settings that a cluster cannot have."""
    if config.checkpoint.keep_every:
        raise UserError("checkpoint.keep_every does not work with --cluster; leave it out.")
    if config.track:
        raise UserError("track does not work with --cluster; leave it out.")
    if config.device not in ("auto", "cpu", "cuda"):
        raise UserError(f"device must be auto, cpu or cuda with --cluster, got {config.device}.")
    if config.start_from and os.path.lexists(config.start_from):
        return dataclasses.replace(config, start_from=str(Path(config.start_from).resolve()))
    return config


def with_storage(cluster: Cluster) -> Cluster:
    """The options with an absolute address that can be written to."""
    address = cluster.storage
    if "://" not in address:
        address = str(Path(address).resolve())
    Storage(address).check()
    return dataclasses.replace(cluster, storage=address)


def storage_of(cluster: Cluster, folder: Path) -> str:
    """Where a run stores its checkpoints: two runs never meet in one storage."""
    return f"{cluster.storage.rstrip('/')}/{folder.name}-{cluster.id}" if cluster.storage else ""


def write_cluster(folder: Path, cluster: Cluster, share: Share) -> None:
    """Write cluster.toml."""
    tables = {"cluster": dataclasses.asdict(cluster), "population": dataclasses.asdict(share)}
    replace_file(folder / FILE, to_toml(tables).encode())


def is_cluster_run(folder: Path) -> bool:
    return (folder / FILE).is_file()


def continues_on_cluster(folder: Path, cluster: str, **others: object) -> bool:
    """Whether this is a run of a cluster. Raises UserError for options that would be ignored.

    Args:
        folder: The folder of the run.
        cluster: Option of a run of a cluster.
        others: Options of other runs, empty if they are not given.
    """
    on_cluster = is_cluster_run(folder)
    ignored = others if on_cluster else {"cluster": cluster}
    kind = "a run of a cluster" if on_cluster else "a run that was started without --cluster"
    for name, value in ignored.items():
        if value not in (None, False, "", ()):
            raise UserError(f"{folder} is {kind}; it continues without {name}.")
    return on_cluster


def read_cluster(folder: Path) -> tuple[Cluster, Share]:
    """What `write_cluster` wrote."""
    tables = read_toml(folder / FILE)
    try:
        return Cluster(**tables["cluster"]).checked(), Share(**tables["population"])
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder / FILE} is not valid: {error}.") from error


def title_of(config: Config) -> str:
    return f"{config.environment.id} · {count(config.agents, 'agent')}"
