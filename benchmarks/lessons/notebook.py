"""A page in docs/lessons is the source of a lesson; its notebook in lessons/ is made from it.

A Python block becomes a code cell, `{{ step 5 }}` a cell that shows that code, and all else text.
The first Python block after "## Exercise" is the exercise.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "lessons"
NOTEBOOKS = ROOT / "lessons"
OUTPUTS = PAGES / "outputs"
SECTIONS = ["Equation", "Code", "Figure", "Exercise", "Mistakes", "Experiment"]

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$"
    r"|^\{\{ step (?P<step>\d+) \}\}$"
    r"|^\{\{ source (?P<file>\S+) (?P<name>\S+) \}\}$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]+\)")
INSTALL = """\
# On a hosted service, this cell installs td3. It does nothing where {needed} is installed.
import importlib.util

SOURCE = ""  # address of td3's repository: git+https://… or file:///folder
if importlib.util.find_spec("{needed}") is None:
    if not SOURCE:
        raise SystemExit("Write the address of td3's repository into SOURCE and run this again.")
    %pip install --quiet "td3[{extras}] @ {{SOURCE}}"
"""


class Page(NamedTuple):
    """The source of a lesson."""

    path: Path
    number: int
    title: str
    minutes: int
    """How long a student needs."""
    body: str
    extras: str = ""
    """What it needs besides plots, e.g. `pybullet,video`; the first is a module's name too."""

    @property
    def install(self) -> str:
        """The cell that installs td3 where it is missing."""
        extras = ",".join(["plot", *filter(None, [self.extras])])
        return INSTALL.format(needed=self.extras.partition(",")[0] or "td3", extras=extras)

    @property
    def blocks(self) -> list[str]:
        """Its Python blocks in order, without code of td3 that it shows."""
        return [found["code"] for found in BLOCK.finditer(self.body) if found["code"]]

    @property
    def digest(self) -> str:
        """Changes with its Python blocks: then the stored output is out of date."""
        return hashlib.sha256("\n".join(self.blocks).encode()).hexdigest()[:16]

    @property
    def outputs(self) -> Path:
        return OUTPUTS / self.path.stem

    @property
    def notebook(self) -> Path:
        return NOTEBOOKS / f"{self.path.stem}.ipynb"


def read_page(path: Path) -> Page:
    """A page: minutes (and extras) in its front matter, then `# 5. Title`, then the lesson."""
    text = path.read_text(encoding="utf-8")
    found = re.match(r"---\nminutes: (\d+)\n(?:extras: (.+)\n)?---\n+# (\d+)\. (.+)\n", text)
    if not found or f"{int(found[3]):02}" != path.stem[:2]:
        raise ValueError(f"{path} does not begin with 'minutes' and '# NUMBER. Title'")
    minutes, extras, number, title = found.groups(default="")
    return Page(path, int(number), title, int(minutes), text[found.end() :], extras)


def pages() -> list[Page]:
    return [read_page(path) for path in sorted(PAGES.glob("[0-9][0-9]-*.md"))]


def notebook_of(page: Page, solution: str = "") -> dict[str, Any]:
    """The notebook of a page; with `solution` in the place of the exercise if it is given."""
    cells = [markdown(f"# {page.number}. {page.title}"), code(page.install)]
    end, exercise = 0, page.body.find("\n## Exercise\n")
    for found in BLOCK.finditer(page.body):
        cells.append(markdown(LINK.sub(r"\1", page.body[end : found.start()])))
        tag = "lesson" if found["code"] else "source"
        if found["code"] and 0 <= exercise < found.start():
            tag, exercise = "exercise", -1
        cells.append(code(cell_of(found), tag))
        if tag == "exercise" and solution:
            cells[-1] = code(solution, tag)
        end = found.end()
    cells.append(markdown(LINK.sub(r"\1", page.body[end:])))
    cells = [cell for cell in cells if cell["source"]]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number:02}"
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "td3": {"number": page.number, "title": page.title, "minutes": page.minutes},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def cell_of(found: re.Match[str]) -> str:
    if found["code"]:
        return found["code"]
    shown = found["step"] or f'"{found["file"]}", "{found["name"]}"'
    return f"show({shown})"


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": lines(text)}


def code(text: str, tag: str = "") -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {"tags": [tag]} if tag else {},
        "outputs": [],
        "source": lines(text),
    }


def lines(text: str) -> list[str]:
    return text.strip().splitlines(keepends=True)


def write_notebook(page: Page) -> None:
    page.notebook.write_text(as_text(notebook_of(page)), encoding="utf-8")


def as_text(notebook: dict[str, Any]) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
