"""Paths of written files, which a notebook shows as a picture."""

import base64
import html
from pathlib import Path

IMAGES = {".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif"}
"""Suffix → kind, the most suitable for a page first."""


class Files(list[Path]):
    """The paths of files that were written."""

    def _repr_html_(self) -> str:
        pictures = {path.suffix: path for path in self if path.is_file()}
        shown = [show_image(pictures[suffix]) for suffix in IMAGES if suffix in pictures]
        names = "<br>".join(f"<code>{html.escape(str(path))}</code>" for path in self)
        return f"{shown[0] if shown else ''}<p>{names}</p>"


def show_image(path: Path) -> str:
    """An image as HTML that needs no other file."""
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    style = "max-width: 100%; width: 640px" if path.suffix == ".svg" else "max-width: 100%"
    return f'<img src="data:{IMAGES[path.suffix]};base64,{data}" style="{style}">'
