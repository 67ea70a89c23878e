"""One process trains in a run folder at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from td3.errors import RunBusy, UserError
from td3.files import open_regular

LOCK_FILE = ".lock"


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder; raises RunBusy at once if another process holds it."""
    try:
        descriptor = open_regular(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise RunBusy(f"{folder} is in use by process {holder}; stop that one first.") from None
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
