"""Notebooks come from their pages, run, and show what the pages show."""

import json
import re

import pytest

from benchmarks.lessons.execute import execute, exercise_output, solution_of
from benchmarks.lessons.notebook import ROOT, SECTIONS, Page, as_text, notebook_of, pages

PAGES = pages()
QUICK = (6, 8)  # the others run with `make learning`
MARKED = [
    pytest.param(
        page, marks=[] if page.number in QUICK else pytest.mark.learning, id=page.path.stem
    )
    for page in PAGES
]


def stem(page: Page) -> str:
    return page.path.stem


@pytest.mark.parametrize("page", PAGES, ids=stem)
def test_notebook_is_the_one_that_its_page_makes(page: Page) -> None:
    """Else: python -m benchmarks.lessons --build"""
    assert page.notebook.read_text(encoding="utf-8") == as_text(notebook_of(page))


@pytest.mark.parametrize("page", PAGES, ids=stem)
def test_page_has_the_sections_of_a_lesson_in_order(page: Page) -> None:
    assert re.findall(r"^## (.+)$", page.body, re.MULTILINE) == SECTIONS
    exercise = page.body.partition("\n## Exercise\n")[2].partition("\n## ")[0]
    assert f"\ncheck({page.number}, " in exercise
    assert page.body.count("\n$$\n") % 2 == 0


@pytest.mark.parametrize("page", PAGES, ids=stem)
def test_stored_output_belongs_to_the_code_of_the_page(page: Page) -> None:
    """Else: python -m benchmarks.lessons NUMBER"""
    record = json.loads((page.outputs / "record.json").read_text(encoding="utf-8"))
    assert record["code"] == page.digest
    assert max(record["cpu_seconds"].values()) < 120  # wall time depends on other programs


@pytest.mark.parametrize("page", MARKED)
def test_notebook_runs_solved_and_unsolved(page: Page) -> None:
    assert exercise_output(execute(page)[0]).startswith("Not yet.")
    assert exercise_output(execute(page, solution_of(page))[0]).startswith("Right.")


def test_no_notebook_lacks_a_page() -> None:
    notebooks = {path.stem for path in (ROOT / "lessons").glob("*.ipynb")}
    assert notebooks == {page.path.stem for page in PAGES}
