"""The checkers accept the reference solutions, and name the mistakes of wrong attempts."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from benchmarks.lessons.notebook import BLOCK, Page, pages
from td3.errors import UserError
from td3.lessons import check, feedback, hint, pendulum
from td3.lessons.progress import done_lessons

SOLUTIONS = Path(__file__).parent / "solutions"
PAGES = {page.number: page for page in pages()}


def solutions(number: int) -> dict[str, Any]:
    return runpy.run_path(str(SOLUTIONS / f"lesson{number:02}.py"))


def attempt(source: str, name: str) -> Any:
    """The student's function or class, without the line that checks it."""
    names = {
        "np": np,
        "torch": torch,
        "F": F,
        "nn": torch.nn,
        "pendulum": pendulum,
        "__name__": "notebook",
    }
    exec(source.partition("\n\ncheck(")[0], names)
    return names[name]


def exercise_of(page: Page) -> str:
    rest = page.body.partition("\n## Exercise\n")[2]
    return next(found["code"] for found in BLOCK.finditer(rest) if found["code"])


def mistakes() -> list[Any]:
    found = []
    for number in PAGES:
        for k, (source, sentence) in enumerate(solutions(number)["MISTAKES"].items()):
            found.append(pytest.param(number, source, sentence, id=f"{number}-{k}-{sentence}"))
    return found


@pytest.mark.parametrize("number", [*PAGES])
def test_check_accepts_the_reference_solution(number: int) -> None:
    own = solutions(number)
    found = feedback(number, attempt(own["SOLUTION"], own["NAME"]))
    assert found.passed, found.message


@pytest.mark.parametrize("number", [*PAGES])
def test_check_rejects_the_unsolved_exercise_as_not_filled(number: int) -> None:
    unsolved = attempt(exercise_of(PAGES[number]), solutions(number)["NAME"])
    assert " not filled yet" in feedback(number, unsolved).message


@pytest.mark.parametrize(("number", "source", "sentence"), mistakes())
def test_check_names_the_mistake(number: int, source: str, sentence: str) -> None:
    found = feedback(number, attempt(source, solutions(number)["NAME"]))
    assert not found.passed
    assert sentence in found.message


@pytest.mark.parametrize("number", [*PAGES])
def test_hints_of_every_lesson_lead_on(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    hint(number)
    assert f"hint({number}, 2)" in capsys.readouterr().out
    with pytest.raises(UserError, match="hints 1 to"):
        hint(number, 99)


def test_check_marks_a_solved_lesson_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TD3_HOME", str(tmp_path / "home"))
    own = solutions(1)
    check(1, attempt(own["SOLUTION"], own["NAME"]))
    assert "Right." in capsys.readouterr().out
    assert done_lessons() == {1}
    check(1, 5)
    assert "Give check the function itself" in capsys.readouterr().out
    assert done_lessons() == {1}


@pytest.mark.parametrize("number", [0, 99, "one", -1])
def test_check_of_an_unknown_lesson_says_so(number: Any) -> None:
    with pytest.raises(UserError, match="There is no exercise"):
        feedback(number, print)
