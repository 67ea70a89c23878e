"""The long form of the fault tests: `make faults` sets TD3_FAULTS=long."""

import os

LONG = os.environ.get("TD3_FAULTS") == "long"


def pick(quick: int, long: int) -> int:
    """How many cases a test tries."""
    return long if LONG else quick
