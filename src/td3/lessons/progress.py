"""Which lessons are done: a small file in the user's data folder."""

import json
import os
from pathlib import Path

from td3.files import read_regular, remove, write_durably
from td3.untrusted import Malformed, integer, items, parse_json, table

LONGEST = 2**16  # bytes
CONTENT = table({"done": items(integer(1))})


def data_folder() -> Path:
    """`TD3_HOME`, or td3's part of the user's data folder."""
    if home := os.environ.get("TD3_HOME"):
        return Path(home)
    share = os.environ.get("XDG_DATA_HOME")
    return (Path(share) if share else Path.home() / ".local" / "share") / "td3"


def progress_file() -> Path:
    return data_folder() / "lessons.json"


def done_lessons() -> set[int]:
    """The numbers of the lessons that are done; a file that cannot be read counts as empty."""
    try:
        stored = parse_json(read_regular(progress_file(), LONGEST))
        CONTENT(stored, "progress")
    except (OSError, Malformed):
        return set()
    return set(stored["done"])


def mark_done(number: int) -> None:
    """Remember that the exercise of this lesson passed. Prints a note if that is impossible."""
    done = done_lessons() | {number}
    file = progress_file()
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(temporary, [json.dumps({"done": sorted(done)}).encode() + b"\n"])
        try:
            temporary.replace(file)
        finally:
            remove(temporary)
    except OSError as error:
        print(f"(The progress could not be stored in {file}: {error.strerror}.)")
