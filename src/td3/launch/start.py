"""Start a run, or continue one."""

import dataclasses
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import torch

from td3.config import Config, StopConfig, varied
from td3.config.checks import check
from td3.environments.environment import Environment
from td3.environments.factories import (
    GIVEN,
    Factory,
    bind_environment,
    is_local,
    remember_environment,
)
from td3.environments.simulators import resolve_version
from td3.errors import RunBusy, RunStopped, UserError
from td3.files import CURVES, check_file, remove
from td3.integrations import make_tracker
from td3.launch.assembly import assemble
from td3.launch.overview import DurationEstimate, describe_plan, suggest_recipe
from td3.launch.progress import Display, best_steps
from td3.launch.setup import Setup, set_up
from td3.launch.stop_messages import describe_early_stop, describe_full_gpu, describe_stop
from td3.launch.variant_source import check_code, code_facts
from td3.run import checkpoint
from td3.run.folder import (
    check_entries,
    create,
    read_code,
    read_config,
    rewrite_config,
    write_code,
)
from td3.run.lock import LOCK_FILE, lock_run
from td3.run.memory import IMAGES_FILE, check_disk, describe_replay
from td3.run.versions import differences
from td3.signals import StopRequest
from td3.training.callbacks import Callback, Callbacks, check_callback, load_callback
from td3.training.loop import Training
from td3.training.metrics import Guarded, Sink
from td3.training.stop_conditions import make_stop_conditions

OnTraining = Callable[[Training], None]


def start(
    config: Config,
    folder: Path | None = None,
    display: Display | None = None,
    callbacks: Sequence[Callback] = (),
    on_training: OnTraining = lambda training: None,
) -> tuple[Path, int]:
    """Start a run; returns its folder and an exit code (130 after Ctrl-C).

    `on_training` gets the training before its first step.
    """
    show_phase(display, "making the environment and measuring threads")
    given = check(config).environment
    environment = dataclasses.replace(given, id=resolve_version(given.id))
    remember_environment(environment.id)
    setup = set_up(dataclasses.replace(config, environment=environment))
    with closing(setup.environment):
        return start_training(setup, folder, display, callbacks, on_training)


def start_training(
    setup: Setup,
    folder: Path | None,
    display: Display | None,
    callbacks: Sequence[Callback],
    on_training: OnTraining,
) -> tuple[Path, int]:
    """Make the run folder and run the loop; returns the folder and an exit code."""
    is_new = folder is None or not folder.exists()
    folder = create(setup.config, folder)
    try:
        check_disk(setup.config, setup.task, setup.replay_place, folder)
        with open_training(
            setup.config, folder, display, setup.replay_place, setup.environment, callbacks
        ) as training:
            if facts := training_code(training):
                write_code(folder, facts)
            show_plan(training, folder)
            on_training(training)
            return folder, run_loop(training, "start", display)
    except RunBusy:
        raise
    except UserError:
        if not (folder / "metrics.jsonl").exists():
            remove_start(folder, is_new)
        raise


def show_plan(training: Training, folder: Path) -> None:
    """Show where the run is, what it will do, and, after the first updates, how long it takes."""
    show, config = training.recorder.show, training.config
    show({"kind": "folder", "message": str(folder)})
    show({"kind": "plan", "message": describe_plan(config)})
    if hint := suggest_recipe(config, training.environments.task):
        show({"kind": "plan", "message": hint})
    DurationEstimate(training)


def remove_start(folder: Path, is_new: bool) -> None:
    """Remove what a run wrote that was refused before training began."""
    if is_new:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        remove(folder / "config.toml")
        remove(folder / LOCK_FILE)


def resume(
    folder: Path,
    steps: int | None = None,
    display: Display | None = None,
    device: str | None = None,
    environment: Factory | None = None,
    callbacks: Sequence[Callback] = (),
    accept_changes: bool = False,
    ignore_stop: bool = False,
    on_training: OnTraining = lambda training: None,
) -> int:
    """Continue a run from its newest valid checkpoint; returns an exit code.

    Args:
        folder: The run folder.
        steps: New total number of steps.
        display: Shows the progress.
        device: Another device.
        environment: Makes the environments of a run whose class or function cannot be imported.
        callbacks: Objects that the run uses besides those that its config.toml names.
        accept_changes: Continue even if the code of the variant changed.
        ignore_stop: Drop the run's stop conditions.
        on_training: Gets the training when it is restored.
    """
    config, origin = read_config(folder)
    find_environment(folder, config.environment.id, environment)
    if (folder / CURVES).is_file():
        raise UserError(
            f"{folder} contains only the results of a run, without checkpoints; "
            "it cannot be continued."
        )
    if steps is not None:
        config = varied(config, {"loop.steps": steps})
    if ignore_stop:
        config = varied(config, {"stop": StopConfig()})
    show_phase(display, "making the environment and measuring threads")
    setup = set_up(dataclasses.replace(config, device=device or config.device))
    with closing(setup.environment):
        check_disk(setup.config, setup.task, setup.replay_place, folder)
        return continue_training(
            setup, folder, origin, display, callbacks, accept_changes, on_training
        )


def training_code(training: Training) -> dict[str, str]:
    """Which code of the user this training executes; empty for plain TD3."""
    agent = training.agent
    parts: list[object] = [agent, training.replay]
    for network in agent.trained.values():
        parts += [network.online, network.optimizer]
    parts += [part for part in (agent.normalizer, training.collector.exploration) if part]
    return code_facts(training.config.variant.name, parts)


def find_environment(folder: Path, env_id: str, environment: Factory | None) -> None:
    """Let the run's name of its task stand for `environment`; refuse a task that is missing."""
    if environment is not None:
        bind_environment(env_id, environment)
    elif is_local(env_id) and env_id not in GIVEN:
        raise UserError(
            f"{folder} was trained on {env_id}, which cannot be imported; continue it from Python "
            f"with the class or function: td3.resume({str(folder)!r}, environment=make_env)."
        )
    remember_environment(env_id)


def continue_training(
    setup: Setup,
    folder: Path,
    origin: dict[str, str],
    display: Display | None,
    callbacks: Sequence[Callback],
    accept_changes: bool,
    on_training: OnTraining,
) -> int:
    """Restore the newest checkpoint and run the loop; returns an exit code."""
    with open_training(
        setup.config, folder, display, setup.replay_place, setup.environment, callbacks
    ) as training:
        code, before = training_code(training), read_code(folder)
        if not accept_changes:
            check_code(code, before, folder)
        show_phase(display, "loading the checkpoint")
        remarks = training.restore()
        rewrite_config(folder, setup.config, origin)
        if code != before:
            write_code(folder, code)
            remarks.append("not exact: the code of the variant changed")
        remarks += [f"not exact: {difference}" for difference in differences(origin)]
        facts = {"best": training.best, "frozen": training.population.frozen.tolist()}
        found = best_steps(folder / "metrics.jsonl")
        record = {"kind": "resumed", "step": training.step, "best_steps": found, **facts}
        training.recorder.show(record)
        for remark in remarks:
            training.recorder.warn(training.step, remark)
        on_training(training)
        return run_loop(training, "resume", display)


@contextmanager
def open_training(
    config: Config,
    folder: Path,
    display: Display | None = None,
    replay_place: str = "",
    first: Environment | None = None,
    callbacks: Sequence[Callback] = (),
) -> Iterator[Training]:
    """Lock a run folder and build its training, with trackers, display and callbacks.

    `first` is an environment of this configuration that was already made; training takes it over.
    """
    with ExitStack() as stack:
        stack.enter_context(lock_run(folder))
        check_entries(folder)
        checkpoint.check_entries(folder)
        check_file(folder / IMAGES_FILE)
        all_callbacks = make_callbacks(config, callbacks)
        sinks: list[Sink] = []

        def warn(message: str) -> None:
            training.recorder.warn(training.step, message)

        for name in config.track:
            sinks.append(Guarded(name, make_tracker(name, config, folder), warn))
            stack.callback(sinks[-1].close)
        show_phase(display, "making networks, replay buffer and environments")
        training = assemble(config, folder, sinks, replay_place, first)
        training.callbacks = all_callbacks
        stack.callback(training.close)
        if display:
            shown = Guarded("The display", display, warn)
            sinks.append(shown)
            training.on_step = partial(shown.attempt, display.step)
        show_arrangement(training)
        yield training


def make_callbacks(config: Config, given: Sequence[Callback]) -> Callbacks:
    """The callbacks of a run: objects from Python, classes in config.toml, stop conditions."""
    own = [check_callback(callback) for callback in given]
    named = [load_callback(path) for path in config.callback]
    return Callbacks([*own, *named, *make_stop_conditions(config.stop)])


def show_phase(display: Display | None, doing: str) -> None:
    """Show what happens before the first step, if there is a display."""
    if display:
        display.phase(doing)


def show_arrangement(training: Training) -> None:
    """Show who steps the environments and where the replay buffers are, unless it is obvious."""
    recorder, environments = training.recorder, training.environments
    if len(environments.states) > 1:
        recorder.show({"kind": "environments", "message": environments.description})
    if training.config.device != "cpu" or training.replay.stores_frames:
        recorder.show({"kind": "environments", "message": f"Replay: {replay_facts(training)}"})
    if environments.warning:
        recorder.show({"kind": "remark", "message": environments.warning})


def replay_facts(training: Training) -> str:
    """Size and place of the replay buffers, in words."""
    return describe_replay(training.config, training.environments.task, training.replay_place)


def run_loop(training: Training, event: str, display: Display | None = None) -> int:
    """Train until the end, a stop request or an error; returns an exit code."""
    recorder = training.recorder
    facts = {"environments": training.environments.description, "replay": replay_facts(training)}
    recorder.event(event, step=training.step, **facts)
    if remark := training.environments.warning:
        recorder.event("warning", step=training.step, message=remark)
    if training.config.loop.random_steps >= (steps := training.config.loop.steps):
        message = f"All {steps:,} steps are random (loop.random_steps): the policy never acts."
        recorder.warn(training.step, message)
    show_phase(display, "" if training.step else "evaluating the untrained policy")
    try:
        with StopRequest(display.stopping if display else lambda: False) as stop:
            training.loop(stop)
    except torch.OutOfMemoryError as error:
        recorder.event("stop", step=training.step, message=str(error))
        raise RunStopped(describe_full_gpu(training)) from error
    except (RunStopped, OSError) as error:
        cause = traceback.format_exception(error.__cause__ or error)
        recorder.event("stop", step=training.step, message=str(error), traceback=cause)
        raise RunStopped(describe_stop(training, error)) from error
    if training.finished:
        recorder.event("finish", step=training.step)
        return 0
    if reason := training.callbacks.reason:
        recorder.event("stop", step=training.step, reason=reason)
        recorder.show({"kind": "stopped", "message": describe_early_stop(training)})
        return 0
    recorder.event("stop", step=training.step)
    return stop.exit_code
