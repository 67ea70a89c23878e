"""Durable files: everything that a run must not lose is written by these functions.

A file or folder is written under a temporary name, flushed to disk, and renamed. After a crash at
any moment the old one or the new one exists, never a part of it.

A run folder may come from another person, so nothing here follows a symbolic link inside it. The
path to the run folder itself may contain links.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, AnyStr

from td3.errors import UserError

TEMPORARY = ".writing-"
TAIL = 2**20  # bytes, more than any record has
IN_THE_WAY = "{path} is in the way: td3 needs a {kind} there. Move it elsewhere."
CURVES = "curves.csv"  # what stored results have instead of metrics.jsonl


def digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def write_durably(path: Path, chunks: Iterable[bytes | memoryview]) -> tuple[int, str]:
    """Write and flush a file, replacing an older one; returns its size and checksum.

    If that fails, nothing is left of it, and the OSError has its name and size.
    """
    checksum, size, rest = hashlib.sha256(), 0, iter(chunks)
    check_file(path)
    remove(path)
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        for chunk in rest:
            checksum.update(chunk)
            size += len(chunk)
            write_all(descriptor, chunk)
        os.fsync(descriptor)
    except OSError as error:
        with contextlib.suppress(OSError):
            remove(path)
        raise name_size(error, path, size + sum(map(len, rest))) from error
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return size, checksum.hexdigest()


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write everything: one call may write only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def name_size(error: OSError, path: Path, size: int) -> OSError:
    """The error of a file that could not be written, with its path and the bytes that it needs."""
    what = f"{error.strerror}; it needs {size:,} bytes"
    with contextlib.suppress(OSError):
        what += f", {shutil.disk_usage(path.parent).free:,} are free"
    return OSError(error.errno, what, str(path))


def flush_path(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    """Give a finished file or folder its name."""
    refuse_link(target)
    source.replace(target)


def replace_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write a file so that it has the old content or the new one, never a part."""
    check_file(path)
    temporary = path.with_name(TEMPORARY + path.name)
    write_durably(temporary, [data] if isinstance(data, bytes) else data)
    rename(temporary, path)
    flush_path(path.parent)


def make_writable(folder: Path) -> None:
    """Make a folder for results; raises UserError if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}.") from error
    if not os.access(folder, os.W_OK):
        raise UserError(f"Cannot write to {folder}: permission denied.")


@contextlib.contextmanager
def new_folder(path: Path, names: Sequence[str]) -> Iterator[Path]:
    """A folder to fill with `names`; it gets its final name only when it is complete.

    Files are removed in the order of `names`, so the first one should make the folder valid.
    Other files in an older folder of this name are kept.
    """
    temporary = path.with_name(TEMPORARY + path.name)
    if remove_folder(temporary, names):
        temporary.mkdir()
    try:
        yield temporary
        flush_path(temporary)
        if remove_folder(path, names):
            rename(temporary, path)
        else:
            for name in reversed(names):
                rename(temporary / name, path / name)
            flush_path(path)
            remove_folder(temporary, names)
        flush_path(path.parent)
    except OSError:  # for example a full disk: what was written is useless
        with contextlib.suppress(OSError):
            remove_folder(temporary, names)
        raise


def make_folder(path: Path) -> None:
    """Make a folder inside a run, durably, unless it exists."""
    try:
        path.mkdir()
    except FileExistsError:
        check_folder(path)
    else:
        flush_path(path.parent)


def make_folders(path: Path) -> None:
    """Make a folder, durably, and those above it that do not exist."""
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            make_folder(folder)


def occupy_standard_streams() -> None:
    """Open /dev/null for each closed one of stdin, stdout and stderr.

    Otherwise the next file that is opened gets its number, and messages are written into that file.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False, encoding="utf-8"))  # noqa: SIM115


def open_regular(path: str | Path, flags: int) -> int:
    """Open a regular file in a run folder; also usable as `opener` of `open`."""
    try:
        # Without O_NONBLOCK, opening a FIFO waits for a reader.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError:
        check_file(Path(path))
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(IN_THE_WAY.format(path=path, kind="regular file"))
    return descriptor


def open_to_read(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file; also usable as `opener` of `open`.

    Raises OSError for anything else; it never waits for a FIFO or reads a device.
    """
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def read_regular(path: Path, longest: int) -> bytes:
    """The content of a regular file of at most `longest` bytes. Raises OSError otherwise."""
    with open(path, "rb", opener=open_to_read) as file:
        size = os.fstat(file.fileno()).st_size
        if size > longest:
            problem = f"it has {size:,} bytes, more than {longest:,}"
            raise OSError(errno.EINVAL, problem, str(path))
        return file.read(size)


def read_pieces(path: Path, length: int = sys.maxsize) -> Iterator[bytes]:
    """The first `length` bytes of a regular file, or all it has, a megabyte at a time."""
    with open(path, "rb", opener=open_to_read) as file:
        while piece := file.read(min(TAIL, length)):
            length -= len(piece)
            yield piece


def check_file(path: Path) -> None:
    """Refuse anything but a regular file where a file of a run belongs; it may be missing."""
    refuse_link(path, "regular files")
    if path.exists() and not path.is_file():
        raise UserError(IN_THE_WAY.format(path=path, kind="regular file"))


def check_output(path: Path) -> None:
    """Refuse links at and above a file inside the folder of a run or a search.

    Outside of one, links are allowed.
    """
    parents = list(path.parents)[:3]
    for depth, parent in enumerate(parents):
        if any((parent / name).is_file() for name in ("config.toml", "tune.toml")):
            for folder in reversed(parents[:depth]):
                check_folder(folder)
            check_file(path)
            return


def check_folder(path: Path) -> None:
    """Refuse anything but a folder where a folder of a run belongs; it may be missing."""
    refuse_link(path, "folders")
    if path.exists() and not path.is_dir():
        raise UserError(IN_THE_WAY.format(path=path, kind="folder"))


def refuse_link(path: Path, kind: str = "regular files and folders") -> None:
    if path.is_symlink():
        raise UserError(
            f"{path} is a symbolic link; td3 writes only to {kind} inside a run folder. "
            "Replace it with a copy of its target."
        )


@contextlib.contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """A descriptor of a folder inside a run; it stays valid if the folder is renamed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        check_folder(path)
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove(name: str | Path, folder: int | None = None) -> None:
    """Remove a file, by its name in an opened folder or by its path.

    Only regular files are removed: td3 writes nothing else.
    """
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)


def remove_folder(path: Path, names: Sequence[str]) -> bool:
    """Remove these files, then their folder unless it holds others; returns whether it is gone."""
    try:
        with opened_folder(path) as folder:
            for name in names:
                remove(name, folder)
                remove(TEMPORARY + name, folder)
    except FileNotFoundError:
        return True
    return remove_empty(path)


def remove_empty(path: Path) -> bool:
    """Remove a folder unless something is in it; returns whether it is gone."""
    try:
        path.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


class JsonLines:
    """Appends records to a file, one JSON object per line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = open(path, "a+b", buffering=0, opener=open_regular)  # noqa: SIM115
        self.pending = b""
        """What could not be written yet, for example because the disk was full."""
        self.checksum = hashlib.sha256()
        """Of all bytes, if `write` wrote them or `truncate` read them."""
        size = self.file.seek(0, os.SEEK_END)
        self.torn = size > 0 and os.pread(self.file.fileno(), 1, size - 1) != b"\n"
        """Whether the last record is incomplete."""

    def checksum_of(self, length: int) -> "hashlib._Hash":
        """Of the first `length` bytes."""
        found = hashlib.sha256()
        for start in range(0, length, TAIL):
            found.update(os.pread(self.file.fileno(), min(TAIL, length - start), start))
        return found

    def lines(self, length: int) -> list[bytes]:
        """The records in the first `length` bytes, up to the first that is too long for one."""
        self.file.seek(0)
        found = []
        while (line := self.file.readline(min(TAIL, length))) and len(line) < TAIL:
            found.append(line)
            length -= len(line)
        self.file.seek(0, os.SEEK_END)
        return found

    def write(self, record: Mapping[str, Any]) -> None:
        line = (b"\n" if self.torn else b"") + json.dumps(record).encode() + b"\n"
        self.torn = False
        self.pending += line
        self.checksum.update(line)
        with contextlib.suppress(OSError):  # `length` tries again
            self.write_pending()

    def write_pending(self) -> None:
        while self.pending:
            self.pending = self.pending[os.write(self.file.fileno(), self.pending) :]

    def length(self) -> int:
        """Flush the file to disk; returns its size in bytes. Raises OSError if that fails."""
        try:
            self.write_pending()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise name_size(error, self.path, len(self.pending)) from error
        return self.file.tell()

    def begins_with(self, length: int, checksum: str | None) -> bool:
        """Whether the records before a checkpoint are complete; older ones have no checksum."""
        if os.fstat(self.file.fileno()).st_size < length:
            return False
        return checksum in (None, self.checksum_of(length).hexdigest())

    def truncate(self, length: int) -> None:
        """Remove the records after a checkpoint."""
        self.checksum = self.checksum_of(length)
        self.file.truncate(length)
        self.file.seek(length)
        self.torn = False

    def close(self) -> None:
        self.file.close()


def bounded_lines(file: IO[AnyStr]) -> Iterator[AnyStr]:
    """The lines of a file. Raises ValueError for one that is too long for a record."""
    while line := file.readline(TAIL):
        if len(line) == TAIL:
            raise ValueError(f"it has a line of more than {TAIL:,} bytes")
        yield line


def last_lines(path: Path) -> list[bytes]:
    """The lines at the end of a file; the first one may be incomplete."""
    with open(path, "rb", opener=open_to_read) as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return file.read(TAIL).splitlines()


def last_step(path: Path) -> int:
    """The step of the last complete record in a file of JSON lines; 0 if there is none."""
    for line in reversed(last_lines(path) if path.exists() else []):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return int(json.loads(line)["step"])
    return 0
