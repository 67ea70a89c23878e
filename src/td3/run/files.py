"""Everything that a run must not lose is written here, so that one place can be trusted.

A file or folder is written beside its final name, flushed to disk, and renamed. After a crash at
any moment there is the old one or the new one.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from td3.errors import UserError

TEMPORARY = ".writing-"
CURVES = "curves.csv"  # what stored results have instead of metrics.jsonl


def digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def write_durably(path: Path, chunks: Iterable[bytes | memoryview]) -> tuple[int, str]:
    """Write and flush a file; returns its size and checksum."""
    checksum, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        for chunk in chunks:
            checksum.update(chunk)
            size += file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return size, checksum.hexdigest()


def flush_folder(folder: Path) -> None:
    """Make renames and new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    """Give a finished file or folder its name."""
    source.replace(target)


def replace_file(path: Path, data: bytes) -> None:
    """Write `path` so that it holds the old content or the new, never a part."""
    beside = path.with_name(TEMPORARY + path.name)
    write_durably(beside, [data])
    rename(beside, path)
    flush_folder(path.parent)


def make_writable(folder: Path) -> None:
    """Make a folder that others' work will be put into, or refuse it before that is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}.") from error
    if not os.access(folder, os.W_OK):
        raise UserError(f"{folder} cannot be written to.")


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes its name only when it is complete."""
    beside = path.with_name(TEMPORARY + path.name)
    remove(beside)
    beside.mkdir(parents=True)
    try:
        yield beside
        flush_folder(beside)
        remove(path)
        rename(beside, path)
        flush_folder(path.parent)
    except OSError:  # such as a full disk: what was written does not help anybody
        shutil.rmtree(beside, ignore_errors=True)
        raise


def remove(path: Path) -> None:
    """Remove a file or folder that may not be there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class JsonLines:
    """Appends records to a file, one JSON object per line."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("ab")

    def write(self, record: Mapping[str, Any]) -> None:
        self.file.write(json.dumps(record).encode() + b"\n")
        self.file.flush()

    def length(self) -> int:
        """Bytes so far, all of them on disk."""
        os.fsync(self.file.fileno())
        return self.file.tell()

    def truncate(self, length: int) -> None:
        """Forget what came after a checkpoint."""
        if self.file.tell() < length:
            raise UserError(
                f"{self.file.name} has {self.file.tell()} bytes, but {length} when the checkpoint "
                "was written; put the whole file back to continue this run."
            )
        self.file.truncate(length)
        self.file.seek(length)

    def close(self) -> None:
        self.file.close()
