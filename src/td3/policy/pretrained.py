"""Policies that come with the package, each the best of all seeds of its task."""

from pathlib import Path

from td3.errors import UserError, nearest

FOLDER = Path(__file__).parent / "weights"


def names() -> list[str]:
    """The tasks for which there is one."""
    return sorted(path.stem for path in FOLDER.glob("*.safetensors"))


def pretrained(task: str) -> Path:
    """The file of the policy for a task, for `td3.load_policy`."""
    path = FOLDER / f"{task}.safetensors"
    if task not in names():
        known = ", ".join(names()) or "none"
        raise UserError(
            f"No policy for {task!r} comes along.{nearest(task, names())} There are: {known}."
        )
    return path


def run_or_pretrained(run: Path | None, task: str) -> Path:
    """What a command is to play: a run, or the policy that comes along for a task."""
    if run is not None and task:
        raise UserError(f"Name {run} or the pretrained {task}, not both.")
    if run is None and not task:
        raise UserError("Name a run folder, or a task with --pretrained.")
    return pretrained(task) if run is None else run
