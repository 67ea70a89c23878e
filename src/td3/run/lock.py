"""One process trains in a run folder at a time.

The lock is on the folder itself: deleting `.lock`, which names the process, does not remove it. It
is a `flock`, which belongs to an open descriptor. Programs that an environment starts do not
inherit it (close-on-exec), and a forked child closes its copy at once, so the lock ends with the
trainer. A POSIX record lock is not inherited either, but a folder cannot have one. On file systems
that cannot lock folders (NFS) `.lock` is locked instead.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

from td3.errors import RunBusy, RunLost, UserError
from td3.files import open_regular

LOCK_FILE = ".lock"
descriptors: set[int] = set()
"""Of all locks of this process."""


def close_in_child() -> None:
    while descriptors:
        with suppress(OSError):
            os.close(descriptors.pop())


os.register_at_fork(after_in_child=close_in_child)


class RunLock:
    """The lock of a run folder, from `lock_run`."""

    def __init__(self, folder: Path, own: int, file: int) -> None:
        """`own` and `file` are descriptors of the folder and of its file `.lock`."""
        self.folder, self.own, self.identity = folder, own, os.fstat(own)
        self.locked = {folder: own} if take(own) else {folder: own, folder / LOCK_FILE: file}
        if len(self.locked) > 1 and not take(file):
            raise UserError(f"{folder} is on a disk whose files cannot be locked; use another one.")

    def check(self) -> None:
        """Raises RunLost unless the folder is still the one that this process locked."""
        for path, descriptor in self.locked.items():
            with suppress(OSError):  # it is gone, or an environment closed the descriptor
                if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                    continue
            raise RunLost(self.describe_loss())

    def describe_loss(self) -> str:
        with suppress(OSError):  # Linux knows where an open folder is now
            now = Path(os.readlink(f"/proc/self/fd/{self.own}"))
            if os.path.samestat(os.stat(now), self.identity) and now != self.folder:
                return (
                    f"{self.folder} was moved to {now} during training. "
                    f"Continue with: td3 resume {quote(str(now))}"
                )
        with suppress(OSError):
            if os.path.samestat(os.stat(self.folder), self.identity):
                return (
                    f"{self.folder} lost its lock during training: {LOCK_FILE} was removed, or the "
                    f"environment closed it. Continue with: td3 resume {quote(str(self.folder))}"
                )
        return f"{self.folder} was deleted during training, with everything that was saved in it."


def take(descriptor: int) -> bool:
    """Lock an open file or folder; False if its file system cannot do that."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def is_locked(folder: Path) -> bool:
    """Whether a process trains in a run folder now."""
    for path in (folder, folder / LOCK_FILE):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(descriptor)
    return False


@contextmanager
def lock_run(folder: Path) -> Iterator[RunLock]:
    """Hold the lock of a run folder; raises RunBusy at once if another process holds it."""
    opened: list[int] = []
    try:
        try:
            opened.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
            opened.append(open_regular(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT))
        except OSError as error:
            raise UserError(f"Cannot write to {folder}: {error.strerror}.") from error
        descriptors.update(opened)
        try:
            lock = RunLock(folder, *opened)
        except BlockingIOError:
            holder = os.pread(opened[1], 20, 0).decode(errors="replace").strip()
            process = f"process {holder}" if holder else "another process"
            raise RunBusy(f"{folder} is in use by {process}; stop that one first.") from None
        os.ftruncate(opened[1], 0)
        os.pwrite(opened[1], f"{os.getpid()}\n".encode(), 0)
        yield lock
    finally:
        for descriptor in opened:
            if descriptor in descriptors:  # not so in a forked child
                descriptors.remove(descriptor)
                with suppress(OSError):  # an environment may have closed it
                    os.close(descriptor)
