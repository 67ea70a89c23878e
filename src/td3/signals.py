"""Ctrl-C once: finish the step, save, leave. Twice: leave now."""

import os
import signal
import threading
from types import FrameType
from typing import Any


class StopRequest:
    """Notices SIGINT and SIGTERM while it is entered."""

    def __init__(self) -> None:
        self.signal = 0
        self.previous: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        return self.signal != 0

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended, e.g. 130 for Ctrl-C."""
        return 128 + self.signal if self.signal else 0

    def notice(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            os._exit(128 + number)
        self.signal = number

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, self.notice)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)
