"""Check that child processes end when their parent is killed."""

import os
import signal
import subprocess
import time
from pathlib import Path


def end_with(parent: "subprocess.Popen[bytes]", seconds: float = 60, stopped: bool = False) -> bool:
    """Kill the parent, which printed the ids of its two children; return whether they end too.

    `stopped`: stop the children before.
    """
    assert parent.stdout is not None
    ids = [int(word) for word in parent.stdout.readline().split()]
    assert len(ids) == 2
    time.sleep(0.5)  # the children begin what never ends
    for pid in ids * stopped:
        os.kill(pid, signal.SIGSTOP)
    with parent:  # closes its pipes; children that stay would hold them open
        parent.kill()
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
