"""Errors that a user can act on."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can mend. The message is one plain sentence; commands exit with 2."""


class RunBusy(UserError):
    """Another process trains in this folder; nothing in it is ours to touch."""


class RunStopped(Exception):
    """Training cannot go on (a simulator gave NaN, the networks diverged); checkpoints are kept."""


class Diverged(RunStopped):
    """The networks gave what is no number."""


def nearest(word: str, candidates: Iterable[str]) -> str:
    """A hint such as ` Did you mean 'paper'?`, or nothing where no candidate is near."""
    known = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    return f" Did you mean {known[matches[0]]!r}?" if matches else ""


def first_line(error: BaseException) -> str:
    """What an error says, short enough for a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
