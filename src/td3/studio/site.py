"""The addresses of the studio: static files, and the data that the page asks for."""

from collections.abc import Mapping
from pathlib import Path

from td3.play.site import media_type
from td3.serving import Content, Find

PAGE = Path(__file__).parent / "page"


def finder(root: Path) -> Find:
    """How the server answers for the runs in a folder."""
    files = {str(path.relative_to(PAGE)): path for path in PAGE.rglob("*") if path.is_file()}

    def find(path: str, query: Mapping[str, str]) -> Content | None:
        if path in files:
            return Content(files[path].read_bytes(), media_type(path))
        if path.startswith("microscope"):
            return find_microscope(path, query, root)
        return None

    return find


def find_microscope(path: str, query: Mapping[str, str], root: Path) -> Content | None:
    """What the microscope answers; nothing if it is not there yet."""
    try:
        from td3.microscope.site import find  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    found: Content | None = find(path, query, root)
    return found
