"""The hook that completes the pages of lessons."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "lessons").glob("[0-9][0-9]-*.md"))


@pytest.fixture(scope="module")
def hook() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "hooks" / "lessons.py"))


def shown(hook: dict[str, Any], text: str, path: str) -> str:
    page = SimpleNamespace(file=SimpleNamespace(src_path=path))
    return str(hook["on_page_markdown"](text, page=page))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_lesson_page_gets_equations_figures_and_the_checkers_answer(
    hook: dict[str, Any], path: Path
) -> None:
    text = shown(hook, path.read_text(encoding="utf-8"), f"lessons/{path.name}")
    assert "$$" not in text
    assert '<div class="equation"><svg role="img" aria-label=' in text
    figures = re.findall(r"\]\((outputs/.+?\.png)\)", text)
    assert figures
    assert all((DOCS / "lessons" / figure).exists() for figure in figures)
    assert "Not yet." in text


def test_index_page_lists_every_lesson_with_its_time(hook: dict[str, Any]) -> None:
    text = shown(hook, "{{ lessons }}", "lessons/index.md")
    assert re.findall(r"\]\((.+?)\) \| \d+ min \| \d+ s \|", text) == [p.name for p in PAGES]


def test_other_pages_stay_as_they_are(hook: dict[str, Any]) -> None:
    text = "$$\nx\n$$\n{{ lessons }}\n```python\n1\n```\n"
    assert shown(hook, text, "guide/tune.md") == text


def test_site_has_a_place_for_every_lesson() -> None:
    nav = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.findall(r": lessons/(\d.+)$", nav, re.MULTILINE) == [path.name for path in PAGES]
