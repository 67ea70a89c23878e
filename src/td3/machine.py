"""The processor cores that this process may use."""

import os
from pathlib import Path

CORES = "TD3_CORES"
"""Environment variable: the most cores that this process may use, as one of several on a node."""


def usable_cores() -> int:
    """Return the number of cores of the machine, or of the container if it has fewer."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0)
    cores = cores or float(os.cpu_count() or 1)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
        if quota.isdigit():
            cores = min(cores, int(quota) / int(period))
    except (OSError, ValueError):
        pass
    if (share := os.environ.get(CORES, "")).isdigit():
        cores = min(cores, int(share))
    return max(1, int(cores))
