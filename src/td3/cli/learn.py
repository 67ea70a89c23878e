"""td3 learn"""

import dataclasses
import importlib.util
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import tyro

from td3.errors import UserError, cannot_write

NO_JUPYTER = "To open it, install Jupyter:\n  pip install 'td3[learn]'"


@dataclasses.dataclass(frozen=True)
class Arguments:
    """List the lessons and your progress, or open one as a notebook.

    td3 learn
    td3 learn 5   # copies lesson 5 into ./my-lessons, once, and opens it
    """

    number: Annotated[tyro.conf.Positional[int | None], tyro.conf.arg(metavar="LESSON")] = None
    """Number of the lesson to open."""
    folder: Path = Path("my-lessons")
    """Folder for your copies; a copy that exists is never overwritten."""
    open: bool = True
    """Open the notebook in Jupyter."""
    json: bool = False
    """Print the list as JSON."""


def run(arguments: Arguments) -> int:
    if arguments.number is None:
        return list_lessons(arguments.json)
    return open_lesson(arguments.number, arguments.folder, arguments.open)


def list_lessons(as_json: bool) -> int:
    from td3.lessons.catalog import lessons
    from td3.lessons.progress import done_lessons, progress_file

    found, done = lessons(), done_lessons()
    if as_json:
        rows = [{**own._asdict(), "path": str(own.path)} for own in found]
        print(json.dumps([row | {"done": row["number"] in done} for row in rows]))
        return 0
    for own in found:
        mark = "done" if own.number in done else ""
        print(f"{own.number:>3}  {own.title:<46} {own.minutes:>3} min  {mark}".rstrip())
    finished = sum(own.number in done for own in found)
    print(f"\n{finished} of {len(found)} done (stored in {progress_file()})")
    following = next((own.number for own in found if own.number not in done), None)
    if following is not None:
        print(f"Next:  td3 learn {following}")
    return 0


def open_lesson(number: int, folder: Path, in_jupyter: bool) -> int:
    """Open the student's copy of a notebook in Jupyter, or say how to install that."""
    path = copy_lesson(number, folder)
    if not in_jupyter:
        return 0
    if importlib.util.find_spec("jupyterlab") is None:
        print(NO_JUPYTER)
        return 0
    command = [sys.executable, "-m", "jupyterlab", str(path)]
    print(f"Opening Jupyter; Ctrl-C stops it. By hand:  jupyter lab {shlex.quote(str(path))}")
    return subprocess.run(command).returncode


def copy_lesson(number: int, folder: Path) -> Path:
    """The student's copy of a notebook; made now, unless it exists."""
    from td3.files import write_durably
    from td3.lessons.catalog import find_lesson

    lesson = find_lesson(number)
    path = folder / lesson.path.name
    if path.is_file():
        print(f"Your copy: {path}")
        return path
    if path.exists() or path.is_symlink():
        raise UserError(f"{path} is in the way; use --folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(path, [lesson.path.read_bytes()])
    except OSError as error:
        raise UserError(f"{cannot_write(error)}.") from error
    print(f"Copied lesson {number} to {path}")
    return path
