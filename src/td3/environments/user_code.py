"""Code of the user: which files are theirs, and where in them an error was raised."""

import re
import sysconfig
import traceback
from pathlib import Path

import td3
from td3.errors import first_line

INSTALLED = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
OWN = Path(td3.__file__).parent
AROUND = ("td3", "gymnasium")
"""Packages that call environments."""
RETURNS = {"step": "observation, reward, terminated, truncated, info", "reset": "observation, info"}
UNPACKED = re.compile(r"values to unpack|cannot unpack non-iterable (\w+)")


def is_own(file: Path) -> bool:
    """Whether a file belongs to the user."""
    inside = any(file.is_relative_to(folder) for folder in (*INSTALLED, OWN))
    return file.is_file() and not inside


def place_of(error: BaseException) -> str:
    """Where an environment raised an error, such as ` (reach.py, line 34)`.

    This is the last line in a file of the user, or else the last one outside td3 and Gymnasium;
    empty if there is none.
    """
    places = [
        (Path(frame.f_code.co_filename), line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in AROUND
    ]
    chosen = [place for place in places if is_own(place[0])] or places
    return f" ({chosen[-1][0].name}, line {chosen[-1][1]})" if chosen else ""


def describe_wrong_return(error: BaseException) -> str:
    """What `step` or `reset` had to return, if this error comes from unpacking something else."""
    text = first_line(error)
    found = UNPACKED.search(text) if isinstance(error, TypeError | ValueError) else None
    if not found or error.__traceback__ is None:
        return ""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    method = frame.f_code.co_name
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    if method not in RETURNS or package not in AROUND:
        return ""
    amount = re.search(r"got (\d+)", text)
    given = f"{amount[1]} values" if amount else found[1] or "too many values"
    return must_return(method, given)


def must_return(method: str, given: str) -> str:
    """One sentence without its final point: what a method must return."""
    return f"{method}() must return {RETURNS[method]}; it returned {given}"
