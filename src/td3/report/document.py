"""Markdown text, and the same text as one HTML file that needs no other file."""

import base64
import html
import os
from pathlib import Path
from string import Template
from urllib.parse import quote, unquote

from td3.text import escape

MIME_TYPES = {".svg": "image/svg+xml", ".gif": "image/gif", ".mp4": "video/mp4"}


def fold(title: str, text: str) -> str:
    """Text that a browser shows after a click on the title."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def media(path: Path, text: str, folder: Path) -> str:
    """A figure, or a link to a video, in a Markdown file in `folder`."""
    link = quote(Path(os.path.relpath(path, folder)).as_posix())
    return f"{'' if path.suffix == '.mp4' else '!'}[{escape(text)}]({link})"


def to_html(title: str, markdown: str, folder: Path) -> str:
    """The Markdown file in `folder` as a page that contains its figures and videos."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"xhtmlOut": False}).enable("table")
    blocks = parser.parse(markdown)
    for block in blocks:
        inline = block.children or []
        for place, token in enumerate(inline):
            source = unquote(str(token.attrs.get("src") or token.attrs.get("href") or ""))
            kind = MIME_TYPES.get(Path(source).suffix)
            if kind is None:
                continue
            data = base64.b64encode((folder / source).read_bytes()).decode("ascii")
            token.attrs["src"] = f"data:{kind};base64,{data}"
            if token.type == "link_open":  # followed by its text and link_close
                token.tag = inline[place + 2].tag = "video"
                del token.attrs["href"]
                token.attrs |= dict.fromkeys(("controls", "loop", "muted", "playsinline"), "")
    body = parser.renderer.render(blocks, parser.options, {})
    body = body.replace("<table>", '<div class="scroll"><table>')
    body = body.replace("</table>", "</table></div>")
    page = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
    return page.substitute(title=html.escape(title), body=body)
