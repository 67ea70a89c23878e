"""The folder that the user is in, whatever an environment does, and paths as seen from it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from td3.errors import UserError

HERE: ContextVar[Path | None] = ContextVar("HERE", default=None)


@contextmanager
def current_folder() -> Iterator[Path]:
    """The current folder, which is the same again afterwards: an environment may change it."""
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise UserError("The current folder was deleted; change to another one.") from error
    token = HERE.set(here)
    try:
        yield here
    finally:
        HERE.reset(token)
        with suppress(OSError):
            os.chdir(here)


def seen_from_here(path: Path) -> Path:
    """The path as a user would type it: relative to the current folder if it is in there."""
    here = HERE.get()
    return path.relative_to(here) if here and path.is_relative_to(here) else path
