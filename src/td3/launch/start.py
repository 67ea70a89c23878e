"""Begin a run, or continue one: everything that happens around the loop."""

import dataclasses
import shutil
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import torch

from td3.algorithm.images.frame_replay import FrameReplay
from td3.config import Config, from_dict, load_recipe
from td3.config.checks import check
from td3.environments.environment import Environment, Task, versioned
from td3.errors import Diverged, RunBusy, RunStopped, UserError
from td3.files import CURVES, check_file, remove
from td3.integrations import tracker
from td3.launch.progress import Display, displayed
from td3.layout import has_images
from td3.run import checkpoint
from td3.run import folder as runs
from td3.run.lock import lock_run
from td3.run.memory import IMAGES_FILE, check_disk, check_memory
from td3.run.versions import differences
from td3.signals import StopRequest
from td3.training.loop import Training
from td3.training.metrics import Guarded, Record, Sink


def train(
    environment: str | Mapping[str, Any] = "",
    recipe: str = "paper",
    *,
    run: str | Path | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Path:
    """Train, showing how it goes unless `quiet`, and return the run folder.

    `environment` is a Gymnasium id, or a table of settings with an `id`, e.g.
    `{"id": "CarRacing-v3", "frame_stack": 3}`. `settings` are the other fields of
    `td3.config.Config`, e.g. `seeds=10` or `agent={"batch_size": 100}`, also by their dotted names,
    `**{"agent.batch_size": 100}`; `steps` stands for `loop.steps`.
    """
    if "steps" in settings:
        settings["loop.steps"] = settings.pop("steps")
    if environment:
        named = {"id": environment} if isinstance(environment, str) else environment
        if not isinstance(named, Mapping):
            raise UserError(
                f"Name the environment by its id, e.g. 'Pendulum-v1', not by {environment!r}: "
                "a run makes its own, to bring it back when it resumes."
            )
        settings["environment"] = dict(named)
    config = from_dict(nested(settings), default=load_recipe(recipe))
    with displayed(config, quiet) as shown:
        folder, code = start(config, Path(run) if run else None, shown)
    if code:
        # Whoever called may be in a loop over runs.
        raise KeyboardInterrupt(f"saved; 'td3 resume {folder}' goes on")
    return folder


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted names in their tables, beside what these hold already."""
    tables = {name: value for name, value in settings.items() if "." not in name}
    for dotted in [name for name in settings if name not in tables]:
        table, _, name = dotted.partition(".")
        known = tables.get(table, {})
        if not isinstance(known, Mapping):
            raise UserError(f"{table} is a table of settings, not {known!r}.")
        if name in known:
            raise UserError(f"{dotted} is given twice.")
        tables[table] = {**known, name: settings[dotted]}
    return tables


def start(
    config: Config, folder: Path | None = None, display: Display | None = None
) -> tuple[Path, int]:
    """Begin a run; returns its folder and an exit code (130 after Ctrl-C)."""
    config = dataclasses.replace(check(config), device=str(pick_device(config.device)))
    full = dataclasses.replace(config.environment, id=versioned(config.environment.id))
    config = dataclasses.replace(config, environment=full)
    task = refuse_early(config)
    config = with_threads(config, task)
    own = folder is None or not folder.exists()
    folder = runs.create(config, folder)
    try:
        check_disk(config, task, check_memory(config, task), folder)
        with prepared(config, folder, display) as training:
            tell(training, {"kind": "folder", "message": str(folder)})
            return folder, execute(training, "start", display)
    except RunBusy:
        raise
    except UserError:
        if not (folder / "metrics.jsonl").exists():  # refused before it began
            if own:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                remove(folder / "config.toml")
                remove(folder / ".lock")
        raise


def resume(
    folder: Path,
    steps: int | None = None,
    display: Display | None = None,
    device: str | None = None,
) -> int:
    """Continue a run from its newest valid checkpoint, on to `steps` if given."""
    config, origin = runs.read_config(folder)
    if (folder / CURVES).is_file():
        raise UserError(f"{folder} holds results of a run, not the run; it cannot be continued.")
    if steps is not None:
        config = dataclasses.replace(config, loop=dataclasses.replace(config.loop, steps=steps))
    device = str(pick_device(device or config.device))
    config = check(dataclasses.replace(config, device=device))
    task = refuse_early(config)
    config = with_threads(config, task)
    check_disk(config, task, check_memory(config, task), folder)
    with prepared(config, folder, display) as training:
        remarks = training.restore()
        runs.rewrite_config(folder, config, origin)
        remarks += [f"not exact: {difference}" for difference in differences(origin)]
        facts = {"best": training.best, "frozen": training.population.frozen.tolist()}
        tell(training, {"kind": "resumed", "step": training.step, **facts})
        for remark in remarks:
            training.run.event("warning", step=training.step, message=remark)
            tell(training, {"kind": "remark", "message": remark})
        return execute(training, "resume", display)


def refuse_early(config: Config) -> Task:
    """Refuse a task that cannot be trained, or a ring that cannot be held, before anything."""
    environment = Environment(config.environment)
    environment.close()
    task = environment.task
    if config.environment.normalize_observations and has_images(task.layout):
        raise UserError(
            f"{task.id} observes images, which need no environment.normalize_observations; "
            "turn it off."
        )
    check_memory(config, task)
    return task


def with_threads(config: Config, task: Task) -> Config:
    """The configuration with the number of threads that proves fastest, unless it has one."""
    if config.threads:
        return config
    threads = 1
    if config.device == "cpu":
        from td3.execution.threads import fastest_threads, fastest_threads_for_images

        agent, agents = config.agent, len(config.agent_seeds)
        if has_images(task.layout):
            threads = fastest_threads_for_images(
                task.layout, agent.channels, agent.features, agent.batch_size, agents
            )
        else:
            threads = fastest_threads(
                task.state_dim, task.action_dim, agent.hidden_sizes, agent.batch_size, agents
            )
    return dataclasses.replace(config, threads=threads)


@contextmanager
def prepared(config: Config, folder: Path, display: Display | None) -> Iterator[Training]:
    """The training in its folder, locked for this process, with its sinks."""
    with ExitStack() as stack:
        stack.enter_context(lock_run(folder))
        runs.check_entries(folder)
        checkpoint.check_entries(folder)
        check_file(folder / IMAGES_FILE)
        sinks: list[Sink] = []

        def report(message: str) -> None:
            training.run.event("warning", step=training.step, message=message)
            tell(training, {"kind": "remark", "message": message})

        for name in config.track:
            sinks.append(Guarded(name, tracker(name, config, folder), report))
            stack.callback(sinks[-1].close)
        training = Training(config, folder, sinks)
        stack.callback(training.close)
        if display:
            shown = Guarded("The display", display, report)
            sinks.append(shown)
            training.on_step = partial(shown.attempt, display.step)
        if len(training.environments.states) > 1:
            tell(training, {"kind": "environments", "message": training.environments.arrangement})
        if config.device != "cpu" or isinstance(training.replay, FrameReplay):
            tell(training, {"kind": "environments", "message": f"Replay: {training.rings}"})
        if remark := training.environments.remark:
            tell(training, {"kind": "remark", "message": remark})
        yield training


def tell(training: Training, record: Record) -> None:
    """Something to show, not to keep."""
    for sink in training.sinks:
        sink.write(record)


def execute(training: Training, event: str, display: Display | None = None) -> int:
    """Run the loop until it ends, is asked to stop, or cannot go on."""
    arrangement = training.environments.arrangement
    facts = {"environments": arrangement, "replay": training.rings}
    training.run.event(event, step=training.step, **facts)
    if remark := training.environments.remark:
        training.run.event("warning", step=training.step, message=remark)
    if training.config.loop.random_steps >= (steps := training.config.loop.steps):
        remark = f"All {steps:,} steps are random (loop.random_steps): the policy never acts."
        training.run.event("warning", step=training.step, message=remark)
        tell(training, {"kind": "remark", "message": remark})
    try:
        with StopRequest(display.stopping if display else lambda: False) as stop:
            training.loop(stop)
    except torch.OutOfMemoryError as error:
        training.run.event("stop", step=training.step, message=str(error))
        raise RunStopped(
            "The GPU ran out of memory; train fewer agents at once, or with a smaller "
            f"--loop.replay-size; all until step {training.saved_at:,} is saved."
        ) from error
    except (RunStopped, OSError) as error:
        cause = traceback.format_exception(error.__cause__ or error)
        training.run.event("stop", step=training.step, message=str(error), traceback=cause)
        what = str(error) if isinstance(error, RunStopped) else f"Cannot write: {error}"
        saved = f"training stopped, and all until step {training.saved_at:,} is saved"
        if not isinstance(error, Diverged):  # which it would do again
            saved += f"; td3 resume {quote(str(training.run.folder))} goes on from there"
        raise RunStopped(f"{what}; {saved}.") from error
    if stop.requested and not training.finished:
        training.run.event("stop", step=training.step)
        return stop.exit_code
    training.run.event("finish", step=training.step)
    return 0


def pick_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("There is no CUDA device here; use --device cpu or auto.")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"There is no device {name!r}; use cpu, cuda or auto.") from error
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise UserError(f"There is no {name}: this machine has {torch.cuda.device_count()} GPUs.")
    return device
