"""The long form of the fault tests: `make faults` sets TD3_FAULTS=long."""

import os
from collections.abc import Iterable

LONG = os.environ.get("TD3_FAULTS") == "long"


def pick(quick: int, long: int) -> int:
    """How many cases a test tries."""
    return long if LONG else quick


def some(cases: Iterable[str], *quick: str) -> list[str]:
    """The names of the cases to try: all of them, or in the quick form those named."""
    names = list(cases)
    assert set(quick) <= set(names)
    return names if LONG else list(quick)
