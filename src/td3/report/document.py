"""A document in blocks, as Markdown and as one HTML page that holds everything."""

import base64
import html
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from urllib.parse import quote

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'">
<title>$title</title>
<style>
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --line: #ddd; --soft: #f5f6f8 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --paper: #16181c; --line: #3a3d44; --soft: #1f2228 }
  img.figure { filter: invert(.91) hue-rotate(180deg) }
}
body { max-width: 60rem; margin: 0 auto; padding: 1rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25 }
h2 { font-size: 1.15rem; margin-top: 2rem; border-bottom: 1px solid var(--line) }
img, video { display: block; max-width: 100%; height: auto; margin: 1rem auto }
img.figure { width: 100% }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums }
.wide { white-space: nowrap; overflow-wrap: normal }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left }
tr.strong { background: var(--soft); font-weight: 600 }
summary { cursor: pointer; margin: .5rem 0 }
</style>
</head>
<body>
$body
</body>
</html>
""")


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2

    def markdown(self, base: Path) -> str:
        return f"{'#' * self.level} {escaped(self.text)}"

    def html(self) -> str:
        return f"<h{self.level}>{html.escape(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Lines:
    lines: Sequence[str]

    def markdown(self, base: Path) -> str:
        return "\n\n".join(escaped(line) for line in self.lines)

    def html(self) -> str:
        return "\n".join(f"<p>{html.escape(line)}</p>" for line in self.lines)


@dataclass(frozen=True)
class Grid:
    """A table; `strong` marks rows to stand out, `folded` names a table that starts closed."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    strong: Sequence[bool] = ()
    folded: str = ""

    def _marked(self) -> list[tuple[Sequence[str], bool]]:
        return list(zip(self.rows, self.strong or [False] * len(self.rows), strict=True))

    def markdown(self, base: Path) -> str:
        lines = [self.header, ["---"] * len(self.header)]
        for row, strong in self._marked():
            cells = [escaped(cell) for cell in row]
            lines.append([f"**{cell}**" if strong and cell else cell for cell in cells])
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"## {self.folded}\n\n{text}" if self.folded else text

    def html(self) -> str:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.header)
        body = "".join(
            f"<tr{' class=strong' if strong else ''}>"
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
            + "</tr>\n"
            for row, strong in self._marked()
        )
        wide = "" if self.folded else " class=wide"
        text = f"<table{wide}>\n<tr>{head}</tr>\n{body}</table>"
        if self.folded:
            return f"<details><summary>{html.escape(self.folded)}</summary>\n{text}</details>"
        return f"<div class=scroll>{text}</div>"


@dataclass(frozen=True)
class Media:
    """A figure or a video: linked from Markdown, held in the HTML itself."""

    path: Path
    text: str

    def markdown(self, base: Path) -> str:
        mark = "" if self.path.suffix == ".mp4" else "!"
        link = quote(Path(os.path.relpath(self.path, base)).as_posix())
        return f"{mark}[{escaped(self.text)}]({link})"

    def html(self) -> str:
        data = base64.b64encode(self.path.read_bytes()).decode("ascii")
        text = html.escape(self.text)
        if self.path.suffix == ".mp4":
            source = f"data:video/mp4;base64,{data}"
            return f'<video controls loop muted playsinline title="{text}" src="{source}"></video>'
        if self.path.suffix == ".svg":
            return f'<img class=figure alt="{text}" src="data:image/svg+xml;base64,{data}">'
        return f'<img alt="{text}" src="data:image/gif;base64,{data}">'


Block = Heading | Lines | Grid | Media


def as_markdown(blocks: Sequence[Block], folder: Path) -> str:
    """For a file in this folder, from where figures and videos are linked."""
    return "\n\n".join(block.markdown(folder) for block in blocks) + "\n"


def as_html(title: str, blocks: Sequence[Block]) -> str:
    return PAGE.substitute(
        title=html.escape(title), body="\n".join(block.html() for block in blocks)
    )


def escaped(text: str) -> str:
    """Text that Markdown shows as it is; line breaks would end a table."""
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", html.escape(" ".join(text.split()), quote=False))
