"""Read a file of JSON lines that grows, may be cut, replaced or deleted, and may be hostile."""

import json
import os
from pathlib import Path
from typing import Any

from td3.errors import UserError
from td3.files import TAIL, open_regular

CHUNK = 2**22  # bytes that are read at a time
CHECKED = 64  # bytes before the offset that must be the same at the next look


class Tail:
    """The complete lines of a file that were not read yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        self.forget()

    def forget(self) -> None:
        """Start again at the beginning of the file."""
        self.offset, self.end, self.seen = 0, b"", (0, 0, 0)
        self.more = self.skipping = False
        """Whether there is more to read at once; whether it is inside a line that is too long."""

    def changed(self) -> bool:
        """Whether the file differs from what was read last. One `stat`."""
        return self.more or self.stamp() != self.seen

    def stamp(self) -> tuple[int, int, int]:
        """Identity, size and time of the file; zeros without one."""
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return 0, 0, 0
        return found.st_ino, found.st_size, found.st_mtime_ns

    def read(self) -> tuple[list[bytes], bool]:
        """New complete lines, at most `CHUNK` bytes; and whether the file was cut or replaced.

        Then everything that was read before is void, and the lines begin at the start of the file.
        """
        self.problem = ""
        try:
            descriptor = open_regular(self.path, os.O_RDONLY)
        except FileNotFoundError:
            fresh = self.offset > 0
            self.forget()
            return [], fresh
        except (OSError, UserError) as error:
            self.forget()
            self.problem = f"{self.path.name} cannot be read: {reason(error)}"
            self.seen = self.stamp()
            return [], True
        try:
            return self.read_opened(descriptor)
        finally:
            os.close(descriptor)

    def read_opened(self, descriptor: int) -> tuple[list[bytes], bool]:
        facts = os.fstat(descriptor)
        again = facts.st_size < self.offset or (
            self.seen[0] not in (0, facts.st_ino)
            or os.pread(descriptor, len(self.end), self.offset - len(self.end)) != self.end
        )
        if again:
            self.forget()
        data = os.pread(descriptor, CHUNK, self.offset)
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and len(data) > TAIL:  # no record is so long
            whole, self.skipping = data, True
            lines = []
        else:
            lines = whole.split(b"\n")[:-1]
            if lines and self.skipping:
                lines, self.skipping = lines[1:], False
        self.offset += len(whole)
        self.end = (self.end + whole)[-CHECKED:]
        self.more = bool(whole) and self.offset < facts.st_size
        self.seen = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        return lines, again


def parse_lines(lines: list[bytes]) -> tuple[list[dict[str, Any]], int]:
    """The records in these lines, and the number of damaged lines."""
    lines = [line for line in lines if line.strip()]
    try:  # all at once is several times as fast
        found = json.loads(b"[" + b",".join(lines) + b"]")
        if len(found) == len(lines):
            records = [record for record in found if isinstance(record, dict)]
            return records, len(lines) - len(records)
    except (ValueError, RecursionError):
        pass
    parsed = [parse_line(line) for line in lines]
    records = [record for record in parsed if record is not None]
    return records, len(lines) - len(records)


def parse_line(line: bytes) -> dict[str, Any] | None:
    """The record in a line; None if it is damaged."""
    if len(line) > TAIL:
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def reason(error: Exception) -> str:
    """The reason of an error without its path."""
    return (error.strerror if isinstance(error, OSError) else str(error)) or "unknown"
