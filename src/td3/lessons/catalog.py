"""Which lessons there are: the notebooks, in the package or in a checkout."""

import json
from pathlib import Path
from typing import NamedTuple

from td3.errors import UserError

IN_PACKAGE = Path(__file__).parent / "notebooks"
IN_CHECKOUT = Path(__file__).parents[3] / "lessons"


class Lesson(NamedTuple):
    """A notebook."""

    number: int
    title: str
    minutes: int
    """How long a student needs."""
    path: Path


def notebook_folder() -> Path:
    return IN_PACKAGE if IN_PACKAGE.is_dir() else IN_CHECKOUT


def lessons() -> list[Lesson]:
    """All lessons in order."""
    found = []
    for path in sorted(notebook_folder().glob("[0-9][0-9]-*.ipynb")):
        facts = json.loads(path.read_text(encoding="utf-8"))["metadata"]["td3"]
        found.append(Lesson(facts["number"], facts["title"], facts["minutes"], path))
    return found


def find_lesson(number: int) -> Lesson:
    """The lesson with this number.

    Raises:
        UserError: There is none.
    """
    found = {lesson.number: lesson for lesson in lessons()}
    if number not in found:
        raise UserError(f"There is no lesson {number}; 'td3 learn' lists them.")
    return found[number]


def lesson_title(number: int) -> str:
    return find_lesson(number).title
