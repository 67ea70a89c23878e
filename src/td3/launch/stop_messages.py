"""What the user reads when a training stops with an error."""

from pathlib import Path
from shlex import quote

from td3.errors import Diverged, RunLost, cannot_write
from td3.run.places import seen_from_here
from td3.training.loop import Training
from td3.training.stop_conditions import STAYS_MET


def describe_stop(training: Training, error: Exception, own: str = "") -> str:
    """One sentence about the error, what is saved, and how to continue.

    `own` describes an exception in code of the user, whose traceback events.jsonl contains.
    """
    if isinstance(error, RunLost):
        return str(error)
    saved = f"Saved up to step {training.saved_at:,}."
    if own:
        return (
            f"{own}; events.jsonl in {folder_of(training)} has the traceback. {saved} "
            f"When it is corrected, continue with: {resume_command(training)} --accept-changes"
        )
    what = cannot_write(error) if isinstance(error, OSError) else str(error)
    if isinstance(error, Diverged):  # resuming would diverge again
        return f"{what}. {saved}"
    return f"{what}. {saved} Continue with: {resume_command(training)}"


def describe_early_stop(training: Training) -> str:
    """Why a callback stopped the run, and how to continue it."""
    stopped = f"Stopped at step {training.step:,}: {training.callbacks.reason}."
    command = resume_command(training)
    if isinstance(training.callbacks.stopped_by, STAYS_MET):
        command += " --ignore-stop"
    return f"{stopped} Continue with: {command}"


def resume_command(training: Training) -> str:
    search = training.recorder.run.folder.parent.parent  # of a population of td3 tune
    if (search / "tune.toml").is_file():
        return f"td3 tune --resume {quote(str(seen_from_here(search)))}"
    return f"td3 resume {quote(str(folder_of(training)))}"


def folder_of(training: Training) -> Path:
    return seen_from_here(training.recorder.run.folder)


def describe_full_gpu(training: Training) -> str:
    return (
        "The GPU ran out of memory. Train fewer agents at once, or use a smaller "
        f"--loop.replay-size. Saved up to step {training.saved_at:,}."
    )
