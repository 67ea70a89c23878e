"""Send a folder to another machine in pieces, in an order that leaves a valid run at any moment."""

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from td3.files import TEMPORARY, flush_path, make_folder, make_folders, remove, rename

PIECE = 8 * 2**20  # bytes


@dataclass(frozen=True)
class Piece:
    """A part of a file, or its removal."""

    path: str
    """Relative to the folder."""
    data: bytes | None
    """None: the file is removed."""
    start: int = 0
    last: bool = True
    """Whether the file is complete with this piece."""
    appends: bool = False
    """Whether the piece extends a file that is there, instead of replacing it."""


def file_pieces(folder: Path, path: str) -> Iterator[Piece]:
    """A whole file."""
    with open(folder / path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = 0
        while start < size or start == 0:
            data = file.read(PIECE)
            yield Piece(path, data, start, start + len(data) >= size)
            start += max(1, len(data))


def folder_pieces(folder: Path) -> Iterator[Piece]:
    """All files of a run folder that nobody changes."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and not path.name.startswith(TEMPORARY):
            yield from file_pieces(folder, path.relative_to(folder).as_posix())


def write_pieces(folder: Path, pieces: Iterable[Piece]) -> None:
    """Apply pieces, in their order; a file is replaced when its last piece is there."""
    for piece in pieces:
        write_piece(folder, piece)


def write_piece(folder: Path, piece: Piece) -> None:
    relative = PurePosixPath(piece.path)
    if relative.is_absolute() or ".." in relative.parts:
        raise ValueError(f"{piece.path!r} is not inside the folder")
    target = folder / relative
    if piece.data is None:
        remove(target)
        for parent in target.parents:
            if parent == folder or not parent.is_dir() or any(parent.iterdir()):
                break
            parent.rmdir()
        return
    make_folders(target.parent)
    if piece.appends:
        append(target, piece.data, piece.start)
        return
    temporary = target.with_name(TEMPORARY + target.name)
    append(temporary, piece.data, piece.start)
    if piece.last:
        flush_path(temporary)
        rename(temporary, target)
        flush_path(target.parent)


def append(path: Path, data: bytes, start: int) -> None:
    """Write data at this place of a file and cut what follows."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "r+b") as file:
        file.seek(start)
        file.write(data)
        file.truncate()


def remove_tree(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def empty_folder(folder: Path) -> None:
    """Make a folder; remove what is in it."""
    remove_tree(folder)
    make_folders(folder.parent)
    make_folder(folder)
