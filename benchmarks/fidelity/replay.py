"""Episodes played by the page's own JavaScript in Node.js."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from td3.play.site import make_files
from td3.play.sources import pretrained_policies

DRIVER = Path(__file__).with_name("driver.mjs")


def replay(asked: Sequence[dict[str, Any]], timeout: float = 60) -> list[dict[str, Any]]:
    """What the page makes of recorded actions, or plays itself: see `driver.mjs`."""
    with tempfile.TemporaryDirectory() as name:
        site = Path(name)
        for file, read in make_files(pretrained_policies()).items():
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            (site / file).write_bytes(read())
        (site / "package.json").write_text('{"type": "module"}')
        done = subprocess.run(
            ["node", str(DRIVER), name],
            input=json.dumps(asked, default=np.ndarray.tolist),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def differences(found: Any, expected: Any) -> np.ndarray:
    """The largest difference of each step: absolute for numbers up to 1, relative for others."""
    found, expected = np.array(found, float), np.array(expected, float)
    assert found.shape == expected.shape
    shares = np.abs(found - expected) / np.maximum(1, np.abs(expected))
    return np.asarray(shares.reshape(len(shares), -1).max(axis=1))
