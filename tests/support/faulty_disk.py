"""A disk whose system calls fail, or after one of which the process is killed."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CALLS = (
    *("open", "write", "fsync", "ftruncate", "mkdir", "rename", "replace", "link", "unlink"),
    *("rmdir", "close"),
)


class Killed(BaseException):
    """Stands for the end of the process: nothing after it is executed."""


class FaultyDisk:
    """Counts the system calls on files below a folder, and lets `fault` raise before each.

    Everything that td3 writes goes through these functions of `os`; those of `pathlib` call them.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = str(folder)
        self.log: list[tuple[str, str]] = []
        self.fault: Callable[[int, str], object] = lambda number, name: None
        """Called with the number of a call, from 0, and its name; may raise."""
        self.unflushed: set[str] = set()
        """Files whose data a power failure would lose."""
        self.room: int | None = None
        """Bytes that can still be written; None: no limit."""
        for name in CALLS:
            monkeypatch.setattr(os, name, self.wrap(name, getattr(os, name)))

    def restart(self, fault: Callable[[int, str], object] = lambda number, name: None) -> None:
        self.log, self.fault, self.unflushed = [], fault, set()

    def wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *given: Any, **named: Any) -> Any:
            path = path_of(target, named.get("dir_fd"))
            if not path.startswith(self.folder):
                return original(target, *given, **named)
            self.log.append((name, path))
            try:
                self.fault(len(self.log) - 1, name)
            except (OSError, Killed):
                if name == "close":  # Linux closes the descriptor even if it reports an error
                    original(target)
                raise
            if name == "write" and self.room is not None:
                given = (self.take_room(path, given[0]),)
            result = original(target, *given, **named)
            self.note(name, path, given)
            return result

        return call

    def note(self, name: str, path: str, given: tuple[Any, ...]) -> None:
        """Keep track of what is not on the disk yet."""
        if name == "write":
            self.unflushed.add(path)
        elif name in ("fsync", "unlink"):
            self.unflushed.discard(path)
        elif name in ("rename", "replace"):
            target = str(given[0])
            self.unflushed = {
                target + p.removeprefix(path) if p.startswith(path) else p for p in self.unflushed
            }

    def lose_power(self) -> None:
        """Empty every file that was not flushed."""
        for path in self.unflushed:
            if os.path.exists(path):
                os.truncate(path, 0)

    def take_room(self, path: str, data: Any) -> Any:
        """As much of the data as fits. Raises ENOSPC if nothing does."""
        assert self.room is not None
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        data = memoryview(data)[: self.room]
        self.room -= len(data)
        return data


def path_of(target: Any, folder: int | None) -> str:
    try:
        if isinstance(target, int):
            return os.readlink(f"/proc/self/fd/{target}")
        parent = os.readlink(f"/proc/self/fd/{folder}") + "/" if folder is not None else ""
        return parent + str(os.fspath(target))
    except (OSError, TypeError):
        return ""
