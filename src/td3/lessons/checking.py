"""Check the exercise of a lesson and say in plain words what is wrong."""

import importlib
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from td3.errors import UserError, first_line
from td3.lessons.catalog import lesson_title
from td3.lessons.progress import mark_done

NOT_FILLED = "The hole is not filled yet: {name} returns None. Write its lines and return a value."


class Wrong(Exception):
    """What is wrong with an attempt, in one or two sentences for the student."""


class Feedback(NamedTuple):
    """The result of a check."""

    passed: bool
    message: str


def check(number: int, attempt: Any) -> None:
    """Check the exercise of a lesson and print what is wrong, or mark the lesson as done.

    Args:
        number: Number of the lesson.
        attempt: The function or class of the exercise.

    Example:
        >>> check(5, next_action)
        Not yet. The next action comes from the online actor. Use agent.actor_target.
    """
    found = feedback(number, attempt)
    print(found.message)
    if found.passed:
        mark_done(number)


def feedback(number: int, attempt: Any) -> Feedback:
    """The same as `check`, without printing and without marking the lesson as done."""
    examine: Callable[[Any], None] = module_of(number).examine
    if not callable(attempt):
        return Feedback(False, f"Not yet. Give check the function itself, not {attempt!r:.60}.")
    try:
        examine(attempt)
    except Wrong as error:
        return Feedback(False, f"Not yet. {error}")
    return Feedback(True, f"Right. Lesson {number} ({lesson_title(number)}) is done.")


def hint(number: int, which: int = 1) -> None:
    """Print a hint for the exercise; `which` counts from 1, each says more than the one before."""
    hints: tuple[str, ...] = module_of(number).HINTS
    if not 1 <= which <= len(hints):
        raise UserError(f"Lesson {number} has hints 1 to {len(hints)}, got {which}.")
    more = f" (hint({number}, {which + 1}) says more)" if which < len(hints) else ""
    print(f"Hint {which} of {len(hints)}: {hints[which - 1]}{more}")


def module_of(number: int) -> ModuleType:
    """The checks of a lesson."""
    name = f"td3.lessons.checks.lesson{number:02}" if isinstance(number, int) else ""
    try:
        return importlib.import_module(name or "td3.lessons.checks.none")
    except ModuleNotFoundError as error:
        if error.name not in (name, "td3.lessons.checks.none"):
            raise
        raise UserError(f"There is no exercise {number!r}; 'td3 learn' lists them.") from None


def call(attempt: Callable[..., Any], *given: Any) -> Any:
    """What the student's function returns. Raises Wrong if it fails or returns nothing."""
    result = run(attempt, *given)
    if result is None or result is Ellipsis:
        raise Wrong(NOT_FILLED.format(name=getattr(attempt, "__name__", "the function")))
    return result


def run(attempt: Callable[..., Any], *given: Any) -> Any:
    """Call the student's code. Raises Wrong with its error, if it has one."""
    try:
        return attempt(*given)
    except Exception as error:
        if isinstance(error, NotImplementedError) and not error.args:  # PyTorch's have a message
            raise Wrong("The hole is not filled yet: it raises NotImplementedError.") from None
        line = traceback.extract_tb(error.__traceback__)[-1]
        where = f" in the line `{line.line}`" if line.line else ""
        name = type(error).__name__
        raise Wrong(f"Your code raised {name}{where}: {first_line(error)}.") from error


def compare(got: Any, expected: Any, mistakes: Mapping[str, Any], otherwise: str) -> None:
    """Raise Wrong unless both tensors agree; with the sentence of the mistake that gives `got`.

    Args:
        got: The student's tensor.
        expected: What the code of td3 computes.
        mistakes: Sentence → the tensor that this mistake gives.
        otherwise: The sentence if the result is none of them.
    """
    require_shape(got, expected)
    if same(got, expected):
        return
    for sentence, wrong in mistakes.items():
        if same(got, wrong):
            raise Wrong(sentence)
    raise Wrong(otherwise)


def require_shape(got: Any, expected: Any) -> None:
    """Raise Wrong unless `got` is a tensor with the shape of `expected`."""
    import torch

    if not isinstance(got, torch.Tensor):
        raise Wrong(f"The result must be a tensor, got {type(got).__name__}.")
    if got.shape != expected.shape:
        raise Wrong(
            f"The result must have the shape {tuple(expected.shape)}, got {tuple(got.shape)}."
        )


def same(got: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and nearly the same numbers."""
    import torch

    return got.shape == other.shape and torch.allclose(
        got.detach().double(), other.detach().double(), rtol=1e-4, atol=1e-5
    )
