"""All files of the playground, by address: for the server of `td3 play` and for a static site."""

import json
import mimetypes
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from td3.files import digest, read_regular
from td3.play.entries import PAGE, describe, model_folder, numbers, tasks
from td3.policy.policy import Policy
from td3.serving import Content, Find

Read = Callable[[], bytes]
LARGEST_FILM = 2**30  # bytes
TEXT = {".html", ".js", ".css", ".json", ".svg", ".xml"}
TYPES = {".js": "text/javascript", ".xml": "text/xml", ".gz": "application/gzip"}


class Shown(NamedTuple):
    """A policy on the page."""

    policy: Policy
    name: str
    """Part of the page's address."""
    label: str
    film: Path | None = None
    """Shown if the page cannot simulate the task."""


def make_files(shown: Iterable[Shown], offline: bool = False) -> dict[str, Read]:
    """The files of the page and how to read each one.

    Args:
        shown: The policies, in the order of the list on the page.
        offline: Whether the browser keeps all files, for use without a network.
    """
    files: dict[str, Read] = {
        str(path.relative_to(PAGE)): path.read_bytes for path in PAGE.rglob("*") if path.is_file()
    }
    models = model_folder()
    files |= {
        f"models/{facts['model']}": (models / facts["model"]).read_bytes
        for facts in tasks().values()
    }
    entries = []
    for k, (policy, name, label, film) in enumerate(shown):
        entry = describe(policy, name, label)
        if not entry["reason"]:
            entry["numbers"] = f"policies/{k}.bin"
            files[entry["numbers"]] = bytes_of(numbers(policy))
        elif film:
            entry["film"] = f"films/{k}{film.suffix}"
            files[entry["film"]] = partial(read_plain, film)
        entries.append(entry)
    page: dict[str, object] = {"policies": entries}
    if offline:
        names = sorted({*files, "policies.json"})
        contents = "".join(digest(read()) for _, read in sorted(files.items()))
        page |= {"files": ["./", *names], "version": digest(contents.encode())[:16]}
    files["policies.json"] = bytes_of(json.dumps(page).encode())
    return files


def read_plain(film: Path) -> bytes:
    """The content of a film. Raises OSError if it is no regular file any more, or gone."""
    if film.is_symlink():
        raise OSError(f"{film} is a link.")
    return read_regular(film, LARGEST_FILM)


def bytes_of(content: bytes) -> Read:
    return lambda: content


def finder(files: Mapping[str, Read]) -> Find:
    """How the server finds a file."""

    def find(path: str, _query: Mapping[str, str]) -> Content | None:
        try:
            return Content(files[path](), media_type(path))
        except (KeyError, OSError):  # a file may disappear while the page is shown
            return None

    return find


def media_type(path: str) -> str:
    suffix = Path(path).suffix
    found = TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"{found}; charset=utf-8" if suffix in TEXT else found
