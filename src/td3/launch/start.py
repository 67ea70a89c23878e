"""Start a run."""

import dataclasses
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from td3.config import Config
from td3.config.checks import check
from td3.environments.factories import remember_environment
from td3.environments.simulators import describe_outdated, resolve_version
from td3.errors import RunBusy, UserError
from td3.files import remove
from td3.launch.overview import DurationEstimate, describe_plan, suggest_recipe
from td3.launch.progress import Display
from td3.launch.session import (
    OnTraining,
    open_training,
    run_loop,
    show_phase,
    training_code,
)
from td3.launch.setup import Setup, set_up
from td3.launch.start_from import find_source, start_from
from td3.run.folder import FILES, create, refuse_used, write_facts
from td3.run.lock import LOCK_FILE
from td3.run.memory import check_disk
from td3.run.places import current_folder, seen_from_here
from td3.training.callbacks import Callback
from td3.training.loop import Training


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
    given = check(config).environment
    if folder:  # refused here, before the environment is made, which takes a while
        refuse_used(folder)
    show_phase(display, "making the environment and measuring threads")
    environment = dataclasses.replace(given, id=resolve_version(given.id))
    remember_environment(environment.id)
    source = str(find_source(config.start_from)) if config.start_from else ""
    with current_folder() as here:
        setup = set_up(dataclasses.replace(config, environment=environment, start_from=source))
        with closing(setup.environment):
            place = here / folder if folder else None
            place, code = start_training(setup, place, here, display, callbacks, on_training)
        return folder or place.relative_to(here), code


def start_training(
    setup: Setup,
    folder: Path | None,
    here: Path,
    display: Display | None,
    callbacks: Sequence[Callback],
    on_training: OnTraining,
) -> tuple[Path, int]:
    """Make the run folder and run the loop; returns the folder and an exit code."""
    is_new = folder is None or not folder.exists()
    folder = create(setup.config, folder, here, setup.more_versions)
    try:
        check_disk(setup.config, setup.task, setup.replay_place, folder)
        with open_training(
            setup.config, folder, display, setup.replay_place, setup.environment, callbacks
        ) as training:
            if facts := training_code(training):
                write_facts(folder, "code", facts)
            if setup.config.start_from:
                show_phase(display, "loading the networks to start from")
                start_from(training, folder)
            show_plan(training, seen_from_here(folder))
            on_training(training)
            return folder, run_loop(training, "start", display)
    except RunBusy:
        raise
    except UserError:
        metrics = folder / "metrics.jsonl"
        if not metrics.exists() or not metrics.stat().st_size:
            remove_start(folder, is_new)
        raise


def show_plan(training: Training, folder: Path) -> None:
    """Show where the run is, what it will do, and, after the first updates, how long it takes."""
    show, config = training.recorder.show, training.config
    show({"kind": "folder", "message": str(folder)})
    if outdated := describe_outdated(config.environment.id):
        show({"kind": "remark", "message": outdated})
    show({"kind": "plan", "message": describe_plan(config)})
    if hint := suggest_recipe(config, training.environments.task):
        show({"kind": "plan", "message": hint})
    DurationEstimate(training)


def remove_start(folder: Path, is_new: bool) -> None:
    """Remove what a run wrote that was refused before training began."""
    if is_new:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        for name in (*FILES, LOCK_FILE):
            remove(folder / name)
