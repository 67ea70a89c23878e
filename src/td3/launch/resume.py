"""Continue a run."""

import dataclasses
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from td3.config import StopConfig, varied
from td3.environments.factories import (
    GIVEN,
    Factory,
    bind_environment,
    import_factory,
    is_local,
    remember_environment,
)
from td3.errors import UserError
from td3.files import CURVES
from td3.launch.progress import Display, best_steps
from td3.launch.session import (
    OnTraining,
    open_training,
    run_loop,
    show_phase,
    training_code,
)
from td3.launch.setup import Setup, set_up
from td3.launch.start_from import start_from
from td3.launch.variant_source import check_code
from td3.run import checkpoint
from td3.run.copies import rewind
from td3.run.folder import (
    check_entries,
    read_config,
    read_facts,
    rewrite_config,
    write_facts,
)
from td3.run.lock import lock_run
from td3.run.manifest import Invalid, by_step, read_manifest
from td3.run.memory import check_disk
from td3.run.places import current_folder, seen_from_here
from td3.run.versions import differences
from td3.training.callbacks import Callback


def resume(
    folder: Path,
    steps: int | None = None,
    display: Display | None = None,
    device: str | None = None,
    environment: Factory | str | None = None,
    callbacks: Sequence[Callback] = (),
    accept_changes: bool = False,
    ignore_stop: bool = False,
    on_training: OnTraining = lambda training: None,
    at: int | None = None,
) -> int:
    """Continue a run from its newest valid checkpoint; returns an exit code.

    Args:
        folder: The run folder.
        steps: New total number of steps.
        display: Shows the progress.
        device: Another device.
        environment: Makes the environments of a run whose class or function cannot be imported;
            a class, a function, or module:name of one.
        callbacks: Objects that the run uses besides those that its config.toml names.
        accept_changes: Continue even if the code of the variant changed.
        ignore_stop: Drop the run's stop conditions.
        on_training: Gets the training when it is restored.
        at: Continue from the checkpoint of this step instead of the newest.
    """
    with current_folder() as here:
        folder = here / folder
        config, origin = read_config(folder)
        find_environment(folder, config.environment.id, environment)
        if (folder / CURVES).is_file():
            raise UserError(
                f"{folder} contains only the results of a run, without checkpoints; "
                "it cannot be continued."
            )
        if steps is not None:
            refuse_done_steps(folder, steps, at, config.loop.steps)
            config = varied(config, {"loop.steps": steps})
        if ignore_stop:
            config = varied(config, {"stop": StopConfig()})
        show_phase(display, "making the environment and measuring threads")
        setup = set_up(dataclasses.replace(config, device=device or config.device))
        with closing(setup.environment):
            check_disk(setup.config, setup.task, setup.replay_place, folder)
            rewound = rewind_run(folder, at) if at is not None else []
            return continue_training(
                setup, folder, origin, display, callbacks, accept_changes, on_training, rewound
            )


def refuse_done_steps(folder: Path, steps: int, at: int | None, before: int) -> None:
    """Refuse a new total that the run, or its checkpoint `at`, has already reached."""
    done = newest_step(folder) if at is None else at
    if steps <= done and steps != before:
        name = seen_from_here(folder)
        raise UserError(f"{name} already has {done:,} steps; give --steps a larger number.")


def newest_step(folder: Path) -> int:
    """The step of the newest checkpoint with an intact manifest; 0 if there is none."""
    for own in by_step(folder):
        with suppress(Invalid):
            return int(read_manifest(own)["step"])
    return 0


def rewind_run(folder: Path, at: int) -> list[str]:
    """Make the checkpoint of this step the newest one; returns a remark."""
    with lock_run(folder):
        check_entries(folder)
        checkpoint.check_entries(folder)
        try:
            return [rewind(folder, at)]
        except OSError as error:
            raise UserError(
                f"{folder} cannot go back to step {at:,}: {error.strerror} ({error.filename})."
            ) from error


def find_environment(folder: Path, env_id: str, environment: Factory | str | None) -> None:
    """Let the run's name of its task stand for `environment`; refuse a task that is missing."""
    if isinstance(environment, str):
        environment = import_factory(environment)
    if environment is not None:
        bind_environment(env_id, environment)
    elif is_local(env_id) and env_id not in GIVEN:
        raise UserError(
            f"{folder} was trained on {env_id}, which cannot be imported; name the class or "
            "function with --environment module:name, or continue from Python with "
            f"td3.resume({str(folder)!r}, environment=make_env)."
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
    remarks: list[str],
) -> int:
    """Restore the newest checkpoint and run the loop; returns an exit code."""
    changed = differences(origin, setup.more_versions)
    with open_training(
        setup.config, folder, display, setup.replay_place, setup.environment, callbacks
    ) as training:
        code, before = training_code(training), read_facts(folder, "code")
        if not accept_changes:
            check_code(code, before, folder)
        show_phase(display, "loading the checkpoint")
        remarks = remarks + training.restore()
        if setup.config.start_from and not by_step(folder):  # stopped before its first checkpoint
            start_from(training, folder)
        if not (folder / "config.toml").exists():
            remarks.append("config.toml was missing; it is written again from a checkpoint")
        rewrite_config(folder, setup.config, origin)
        if code != before:
            write_facts(folder, "code", code)
            remarks.append("not exact: the code of the variant changed")
        remarks += [f"not exact: {difference}" for difference in changed]
        facts = {"best": training.best, "frozen": training.population.frozen.tolist()}
        found = best_steps(folder / "metrics.jsonl")
        record = {"kind": "resumed", "step": training.step, "best_steps": found, **facts}
        training.recorder.show(record)
        for remark in remarks:
            training.recorder.warn(training.step, remark)
        on_training(training)
        return run_loop(training, "resume", display)
