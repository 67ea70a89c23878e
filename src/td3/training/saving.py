"""When to save by time, and how long to train on while saving fails."""

import math
import time

from td3.config import CheckpointConfig
from td3.errors import cannot_write
from td3.text import duration, parse_duration


class SaveTimes:
    """The times of the last checkpoint and of the first attempt that failed after it."""

    def __init__(self, config: CheckpointConfig) -> None:
        self.after = parse_duration(config.after) or math.inf
        self.retry_for = parse_duration(config.retry_for) or 0.0
        self.last = time.monotonic()
        self.failing_since: float | None = None

    @property
    def due(self) -> bool:
        """Whether the last checkpoint, or the last attempt, is long ago."""
        return time.monotonic() - self.last >= self.after

    def saved(self) -> str:
        """Note a checkpoint; returns a remark if attempts before it failed."""
        self.last = time.monotonic()
        since, self.failing_since = self.failing_since, None
        return "" if since is None else f"Saved again, after {duration(self.last - since)}"

    def failed(self, error: OSError) -> str:
        """Note a failed attempt; returns a remark, or nothing if it is time to give up."""
        self.last = time.monotonic()
        self.failing_since = self.failing_since or self.last
        left = self.failing_since + self.retry_for - self.last
        if left <= 0:
            return ""
        return (
            f"{cannot_write(error)}. Training continues, and the next checkpoint tries again; the "
            f"run stops if none succeeds within {duration(left)} (checkpoint.retry_for)"
        )
