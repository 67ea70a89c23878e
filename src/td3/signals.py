"""Ctrl-C once: finish the step, save, leave. Twice: leave now."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

STOPPING = "Stopping: finishing this step and saving. Ctrl-C again leaves at once."
SHOW_CURSOR = b"\x1b[?25h"  # the progress display hides it


@contextmanager
def shielded(*others: signal.Signals) -> Iterator[None]:
    """Processes started in here never see a Ctrl-C, nor these signals; we see them afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *others})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def say(text: bytes) -> None:
    """Past Python's buffers: a handler may interrupt a print, and must not print through them."""
    with suppress(OSError):  # whoever read it has left
        os.write(2, text)


class StopRequest:
    """Notices SIGINT and SIGTERM while it is entered.

    `tell` is called at the first, in its handler; True: the user sees it, so no line is written.
    """

    def __init__(self, tell: Callable[[], bool] = lambda: False) -> None:
        self.tell = tell
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
            say(b"\nLeft at once. 'td3 resume' goes on from the last checkpoint.\n")
            say(SHOW_CURSOR if os.isatty(2) else b"")
            os._exit(128 + number)
        self.signal = number
        if not self.tell():
            say(f"\n{STOPPING}\n".encode())

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, self.notice)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)
