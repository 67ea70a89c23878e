"""Messages between processes, over `multiprocessing.connection`. An empty one is a wake-up."""

import math
import time
from multiprocessing.connection import Connection


class Countdown:
    """A timeout that does not count the time for which this process was stopped (Ctrl-Z)."""

    def __init__(self, seconds: float) -> None:
        self.left, self.last = seconds, time.monotonic()

    def check(self) -> None:
        """Raise TimeoutError if the time is over. Call it at least once a second."""
        now = time.monotonic()
        self.left -= min(now - self.last, 1.0)
        self.last = now
        if self.left < 0:
            raise TimeoutError


def wake(connection: Connection) -> None:
    """Send a wake-up."""
    connection.send_bytes(b"")


def read(connection: Connection, timeout: float = math.inf) -> bytes:
    """Return the next message or wake-up.

    Raises:
        EOFError: The other side has closed.
        TimeoutError: Nothing came for `timeout` seconds.
    """
    countdown = Countdown(timeout)
    while timeout < math.inf and not connection.poll(min(timeout, 1.0)):
        countdown.check()
    try:
        return connection.recv_bytes()
    except OSError:  # reset, or closed in the middle of a message
        raise EOFError from None


def receive(connection: Connection, timeout: float = math.inf) -> bytes:
    """Return the next message, skipping wake-ups.

    Raises:
        EOFError: The other side has closed.
        TimeoutError: Nothing came for `timeout` seconds, not even a wake-up.
    """
    message = b""
    while not message:
        message = read(connection, timeout)
    return message
