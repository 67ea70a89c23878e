"""Pretrained policies in the package: for each task the best one of all seeds."""

from pathlib import Path

from td3.errors import UserError, nearest

FOLDER = Path(__file__).parent / "weights"


def names() -> list[str]:
    """The tasks with a pretrained policy."""
    return sorted(path.stem for path in FOLDER.glob("*.safetensors"))


def pretrained(task: str) -> Path:
    """The file of the pretrained policy for a task."""
    path = FOLDER / f"{task}.safetensors"
    if task not in names():
        known = ", ".join(names()) or "none"
        raise UserError(
            f"No pretrained policy for {task!r}.{nearest(task, names())} There are: {known}."
        )
    return path


def run_or_pretrained(run: Path | None, task: str) -> Path:
    """The path to load from: a run, or the pretrained policy for a task."""
    if run is not None and task:
        raise UserError(f"Give the run {run} or --pretrained {task}, not both.")
    if run is None and not task:
        raise UserError("Give a run folder, or a task with --pretrained.")
    return pretrained(task) if run is None else run
