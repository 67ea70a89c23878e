"""The first signal finishes the step, saves and exits; the second exits at once."""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

STOPPING = "Stopping: finishing this step and saving. Press Ctrl-C again to exit at once."
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, `kill`, and a terminal that closes."""
SIGNAL_AT_PARENT_END = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
exit_now = os._exit  # the original: during training an environment may not call it
SHOW_CURSOR = b"\x1b[?25h"  # the progress display hides it


@contextmanager
def block_signals(*signals: signal.Signals) -> Iterator[None]:
    """Block these signals. Processes started meanwhile never see them; this one sees them later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_ctrl_c(error: BaseException) -> bool:
    """Whether an exception comes from Ctrl-C. During training Ctrl-C raises none."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(error, KeyboardInterrupt) and handler is signal.default_int_handler


def end_with(parent: int) -> None:
    """Let the kernel kill this process when the one that started it ends.

    That also ends a process that is stopped, or that never leaves a call of C code.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SIGNAL_AT_PARENT_END, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        exit_now(1)


def write_error(text: bytes) -> None:
    """Write to stderr without Python's buffers; a signal handler may interrupt a print."""
    with suppress(OSError):  # the reader has exited
        os.write(2, text)


class StopRequest:
    """Records Ctrl-C, SIGTERM and SIGHUP while it is entered.

    The handler calls `tell` at the first signal. If that returns True, the user has seen a message
    and none is written.
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
        """The exit code that a shell expects after a signal, e.g. 130 for Ctrl-C."""
        return 128 + self.signal if self.signal else 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal and number == signal.SIGHUP:
            return  # a closing terminal may send it twice, and some services after SIGTERM
        if self.signal:
            write_error(b"\nExited at once. 'td3 resume' continues from the last checkpoint.\n")
            write_error(SHOW_CURSOR if os.isatty(2) else b"")
            exit_now(128 + number)
        self.signal = number
        if not self.tell():
            write_error(f"\n{STOPPING}\n".encode())

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                    continue  # started with nohup
                self.previous[number] = signal.signal(number, self.handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)
