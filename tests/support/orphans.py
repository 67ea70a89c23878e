"""Check that child processes end when their parent is killed."""

import subprocess
import time
from pathlib import Path


def end_with(parent: "subprocess.Popen[bytes]", seconds: float = 30) -> bool:
    """Kill the parent, which printed the ids of its two children; return whether they end too."""
    assert parent.stdout is not None
    ids = [int(word) for word in parent.stdout.readline().split()]
    assert len(ids) == 2
    time.sleep(0.1)
    parent.kill()
    parent.communicate()
    limit = time.monotonic() + seconds
    while any(is_running(pid) for pid in ids):
        if time.monotonic() > limit:
            return False
        time.sleep(0.05)
    return True


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
