"""Child processes that have to import this package."""

import os

from benchmarks.td3_bench import ROOT


def environment_with_root() -> dict[str, str]:
    """Return the environment variables, with the repository on Python's path."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
