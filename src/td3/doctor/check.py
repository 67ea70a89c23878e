"""The result of one check."""

from dataclasses import dataclass
from typing import Literal

from td3.errors import UserError
from td3.text import count


@dataclass(frozen=True)
class Check:
    """What was found and, unless all is well, what to do."""

    name: str
    status: Literal["ok", "warning", "error"]
    message: str
    advice: str = ""
    command: str = ""
    """A command or option to copy; printed on one line."""


def check_from_error(name: str, error: UserError) -> Check:
    """An error of td3: the problem, then advice after a semicolon, or a pip command."""
    text, _, install = str(error).partition(": pip install ")
    problem, _, advice = text.partition("; ")
    if install:
        return Check(name, "error", problem, "Install it:", f"pip install {install}")
    return Check(name, "error", problem.rstrip("."), advice[:1].upper() + advice[1:])


def summary(checks: list[Check]) -> str:
    """Number of errors and warnings, e.g. `3 errors, 2 warnings.`"""
    statuses = [check.status for check in checks]
    return ", ".join(count(statuses.count(name), name) for name in ("error", "warning")) + "."
