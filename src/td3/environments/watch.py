"""Notice an environment in this process that hangs, or that tries to end the process.

`Environment` notes in CALL when it enters and leaves a simulator. A thread looks at it. After the
patience it interrupts the main thread: a signal handler raises `Interrupted` inside the simulator,
which `Environment` turns into an error with its name. C code that never returns cannot be
interrupted; then the process ends with the same message. C code that also keeps Python's global
lock stops this thread too: only worker processes help against that.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from td3.config import EnvironmentConfig
from td3.environments.user_code import describe_wrong_return, place_of
from td3.environments.workers.messages import Countdown
from td3.errors import RunStopped, first_line
from td3.signals import exit_now, is_ctrl_c, write_error
from td3.text import printable

PROBE_SECONDS = 0.5
GRACE_SECONDS = 5.0
CLOSE_SECONDS = 10.0
MAIN = threading.main_thread().ident
SIGNAL = signal.SIGURG  # ignored by default, so nobody else misses it
ADVICE = " (if that may take so long, raise environment.patience)"


class Interrupted(BaseException):
    """Raised inside a simulator. Not an Exception, because simulators may catch those."""


class Call:
    """Which simulator the main thread is in."""

    number = 0
    """Of this call; a new one for each."""
    task, method = "", ""
    """Its name and what was called; empty if the main thread is elsewhere."""
    place: tuple[int, int] | None = None
    """Environment and step, if known."""

    def enter(self, task: str, method: str) -> None:
        if threading.get_ident() == MAIN:
            self.number += 1
            self.task, self.method = task, method

    def leave(self) -> None:
        if threading.get_ident() == MAIN:
            self.method = ""


CALL = Call()


@contextmanager
def calling(task: str, method: str) -> Iterator[None]:
    """Note a call of a simulator; whatever it raises becomes RunStopped."""
    CALL.enter(task, method)
    try:
        yield
    except BaseException as error:
        raise as_run_stopped(task, error) from error
    finally:
        CALL.leave()


def as_run_stopped(env_id: str, error: BaseException) -> RunStopped:
    """Convert a simulator's exception to one that ends the run in order."""
    if is_ctrl_c(error):
        raise error
    if isinstance(error, Interrupted):
        return RunStopped(f"{env_id} {error}")
    if wrong := describe_wrong_return(error):
        return RunStopped(f"{env_id}: {wrong}")
    raised = f"{type(error).__name__}: {first_line(error)}{place_of(error)}"
    return RunStopped(f"{env_id} raised {raised}")


def tell(problem: str) -> None:
    """Write a message to stderr, as the last thing that this process does."""
    write_error(f"\ntd3: {printable(problem)}\n".encode())


class Watch:
    """Watches CALL while it is entered, if the main thread enters it."""

    def __init__(
        self, patience: float, report: Callable[[str], None] = tell, advice: str = ADVICE
    ) -> None:
        """`report` gets the message before the process is ended; `patience` 0: no limit."""
        self.patience, self.report, self.advice = patience, report, advice
        self.over = threading.Event()
        self.late = -1
        """The number of the call that takes too long."""
        self.active = threading.get_ident() == MAIN

    def __enter__(self) -> "Watch":
        if self.active:
            self.previous = signal.signal(SIGNAL, self.interrupt)
            self.process, self.exit_before = os.getpid(), os._exit
            os._exit = self.exit  # type: ignore[assignment]
            if self.patience:
                threading.Thread(target=self.watch, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.over.set()
        if self.active:
            os._exit = self.exit_before
            signal.signal(SIGNAL, self.previous)

    def exit(self, code: int) -> None:
        """What `os._exit` does meanwhile: an environment must not end the run with exit code 0."""
        is_call = CALL.method and os.getpid() == self.process
        if is_call and threading.get_ident() == MAIN:
            raise Interrupted(f"called os._exit({code})")
        exit_now(code)

    def limit(self) -> float:
        return min(self.patience, CLOSE_SECONDS) if CALL.method == "close" else self.patience

    def watch(self) -> None:
        """Interrupt the call that takes too long; if that fails, end the process."""
        number, countdown = -1, Countdown(0)
        while not self.over.wait(min(PROBE_SECONDS, self.patience)):
            if not CALL.method:
                number = -1
            elif CALL.number != number:
                number, countdown = CALL.number, Countdown(self.limit())
            else:
                try:
                    countdown.check()
                except TimeoutError:
                    self.stop_call(number)
                    number = -1

    def stop_call(self, number: int) -> None:
        self.late, message = number, self.message()
        signal.pthread_kill(MAIN or 0, SIGNAL)
        limit = time.monotonic() + GRACE_SECONDS
        while CALL.number == number and CALL.method and time.monotonic() < limit:
            if self.over.wait(PROBE_SECONDS):
                return
        if CALL.number == number and CALL.method:
            place = CALL.place
            where = f" in environment {place[0]} at step {place[1]}" if place else ""
            self.report(f"{CALL.task} {message}{where}")
            exit_now(1)

    def message(self) -> str:
        return f"has not returned from {CALL.method} for {self.limit():g} s{self.advice}"

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        if CALL.method and CALL.number == self.late:
            raise Interrupted(self.message())


def watch_command() -> Watch:
    """For a command that plays a policy: its environment must neither hang nor exit unnoticed."""
    return Watch(EnvironmentConfig.patience, advice="")
