"""Errors that a user can act on."""

import difflib
import traceback
from collections.abc import Iterable

LONGEST_LINE = 500  # of another program's error message
LONGEST_TRACEBACK = 100  # lines of a traceback, from its end


class UserError(Exception):
    """Bad input that the user can fix. The message is one sentence; commands exit with 2."""


class RunBusy(UserError):
    """Another process is training in this run folder."""


class RunStopped(Exception):
    """Training cannot continue, e.g. after NaN from a simulator. Checkpoints are kept."""


class RunLost(RunStopped):
    """The run folder was deleted or moved while a process trained in it."""


class Diverged(RunStopped):
    """A network produced NaN or infinity."""


def nearest(word: str, candidates: Iterable[str]) -> str:
    """A hint such as ` Did you mean 'paper'?`; empty if no candidate is near."""
    known = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    return f" Did you mean {known[matches[0]]!r}?" if matches else ""


def cannot_write(error: OSError) -> str:
    """`Cannot write FILE: the reason`."""
    where = f" {error.filename}" if error.filename else ""
    return f"Cannot write{where}: {error.strerror or error}"


def first_line(error: BaseException) -> str:
    """The first line of an error message, shortened, without its final point."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # an environment's own exception may not even have a text
        lines = []
    return shortened(lines[0].rstrip(".")) if lines else type(error).__name__


def shortened(line: str) -> str:
    """A line of at most some hundred characters: a longer one is cut."""
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def short_traceback(error: BaseException) -> list[str]:
    """The lines of a traceback, for a file: the last ones, each shortened."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    return [shortened(line) for line in lines[-LONGEST_TRACEBACK:]]
