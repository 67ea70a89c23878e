"""Processes whose parent was killed."""

import subprocess
import time
from pathlib import Path


def end_with(parent: "subprocess.Popen[bytes]", seconds: float = 30) -> bool:
    """Kill the parent, which has printed the numbers of its two children; whether these end too."""
    assert parent.stdout is not None
    numbers = [int(word) for word in parent.stdout.readline().split()]
    assert len(numbers) == 2
    time.sleep(0.1)
    parent.kill()
    parent.communicate()
    limit = time.monotonic() + seconds
    while any(running(number) for number in numbers):
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True


def running(number: int) -> bool:
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
