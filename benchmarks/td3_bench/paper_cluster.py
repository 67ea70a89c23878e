"""Train the tasks of the TD3 paper on a Ray cluster: one population per task."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping

from benchmarks.td3_bench.best_policy import keep_results
from benchmarks.td3_bench.paper import Progress
from benchmarks.td3_bench.plan import Plan
from td3.cluster.connection import choose_share, connected, read_nodes
from td3.cluster.driver import Driver, Population, is_finished
from td3.cluster.nodes import check_nodes
from td3.cluster.progress import ClusterDisplay
from td3.config import Config, varied
from td3.errors import RunStopped, UserError, first_line
from td3.run.folder import read_config
from td3.signals import StopRequest


def train_tasks_on(
    address: str, plan: Plan, show: Callable[[Progress], None] = lambda progress: None
) -> Progress:
    """Train the tasks that are not finished, keep the results, and test the best policies."""
    progress = Progress()
    tasks = {str(plan.run_folder(task)): task for task in plan.tasks}
    display = ClusterDisplay("paper", lines=True)
    with connected(address) as ray:
        nodes = read_nodes(ray)
        share = choose_share(nodes, plan.config.device, plan.config.threads)
        device = {"device": "cuda" if share.gpus else "cpu", "threads": plan.config.threads or 1}
        populations = [make_population(plan, task, device) for task in plan.tasks]
        check_nodes(ray, nodes, [own.config for own in populations if not own.is_over])
        # The same after a kill, so that what was left on the nodes is removed.
        run_id = hashlib.sha256(str(plan.runs.resolve()).encode()).hexdigest()[:12]

        def tick() -> None:
            for own in populations:
                if own.state != "waiting":
                    progress.steps[tasks[str(own.folder)]] = own.step
            show(progress)

        with StopRequest() as stop:
            driver = Driver(ray, populations, share, "", run_id, display.notify)
            driver.run(stop, tick)
        progress.exit_code = stop.exit_code
    for own in populations:
        task = tasks[str(own.folder)]
        if own.state == "failed":
            progress.failed[task] = own.message
        elif own.state == "finished":
            progress.finished.append(task)
            keep(plan, task, progress)
            show(progress)
    return progress


def make_population(plan: Plan, task: str, device: Mapping[str, object]) -> Population:
    """The run of a task, as it is in its folder or as the plan has it."""
    folder = plan.run_folder(task)
    config: Config = plan.config_of(task)
    if plan.has_started(task):
        config = read_config(folder)[0]
    else:
        config = varied(dataclasses.replace(config, recipe=plan.recipe), device)
    state = "finished" if is_finished(folder) else "waiting"
    return Population(folder.name, config, folder, state)


def keep(plan: Plan, task: str, progress: Progress) -> None:
    """Store the results of a task and test its best policy, on this machine."""
    try:
        progress.returns[task] = keep_results(plan, task)
    except (OSError, RunStopped, UserError) as error:
        message = f"trained, but the results could not be stored: {first_line(error)}"
        progress.failed[task] = message
