"""Lesson 4: sample a batch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.algorithm.replay import Batch, ReplayBuffer
from td3.lessons.checking import Wrong, call

STORED, STATE_DIM, ACTION_DIM = 30, 3, 2

HINTS = (
    "Draw the places first: places = rng.integers(0, len(storage), batch_size). All five parts use "
    "the same places.",
    "zip(*[storage[place] for place in places]) gives five tuples, one for each part. Make an "
    "array of each.",
    "np.array(part, dtype=np.float32).reshape(batch_size, -1) has the shape (batch, width), also "
    "for rewards.",
)


def examine(attempt: Any) -> None:
    storage = transitions()
    parts = sample(attempt, storage, 400, np.random.default_rng(0))
    check_shapes(parts, 400)
    places = check_parts(parts, storage)
    check_uniform(places)
    again = sample(attempt, storage, 400, np.random.default_rng(1))
    if all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True)):
        raise Wrong("Every call returns the same batch. Draw the places with the given rng.")


def transitions() -> list[tuple[Any, ...]]:
    """Transitions whose numbers are all different."""
    rng, found = np.random.default_rng(5), []
    for number in range(STORED):
        state, next_state = rng.normal(size=(2, STATE_DIM))
        action = rng.normal(size=ACTION_DIM)
        found.append((state, next_state, action, float(number) + 0.5, number % 7 == 0))
    return found


def sample(attempt: Any, storage: list[Any], size: int, rng: Any) -> list[NDArray[Any]]:
    """The student's batch as five arrays."""
    batch = call(attempt, storage, size, rng)
    if not isinstance(batch, tuple | list) or len(batch) != len(Batch._fields):
        raise Wrong("Return five arrays: state, next_state, action, reward, done.")
    try:
        return [np.asarray(part, dtype=np.float64) for part in batch]
    except (TypeError, ValueError):
        raise Wrong("Every part must be an array of numbers, not a list of arrays.") from None


def check_shapes(parts: list[NDArray[Any]], size: int) -> None:
    widths = (STATE_DIM, STATE_DIM, ACTION_DIM, 1, 1)
    for name, part, width in zip(Batch._fields, parts, widths, strict=True):
        if part.shape == (size,):
            raise Wrong(
                f"{name} has the shape (batch,). Added to values of the shape (batch, 1) it gives "
                "(batch, batch). Reshape it to (batch, 1)."
            )
        if part.shape == (size, STATE_DIM) and width != STATE_DIM:
            raise Wrong(f"{name} has the width of a state. Is it filled from the variable state?")
        if part.shape != (size, width):
            raise Wrong(f"{name} must have the shape ({size}, {width}), got {part.shape}.")


def check_parts(parts: list[NDArray[Any]], storage: list[tuple[Any, ...]]) -> NDArray[np.int64]:
    """Every row is one transition, as the buffer of td3 gathers it; returns which."""
    places = (parts[3][:, 0] - 0.5).round().astype(np.int64)
    if not np.isin(places, np.arange(STORED)).all():
        raise Wrong("reward has numbers that are no reward of the storage.")
    buffer = ReplayBuffer(STORED, seed=0)
    for transition in storage:
        buffer.add(transition)
    right = buffer.gather(places[None])
    for name, part, expected in zip(Batch._fields, parts, right, strict=True):
        if np.allclose(part, expected[0].numpy(), atol=1e-5):
            continue
        if name == "next_state" and np.array_equal(part, parts[0]):
            raise Wrong("next_state is a copy of state: the agent would see a world at rest.")
        raise Wrong(
            f"The row k of {name} and of reward belong to different transitions. Draw the places "
            "once and use them for all five parts."
        )
    return places


def check_uniform(places: NDArray[np.int64]) -> None:
    """400 draws out of 30 leave none out, unless by a chance of one in 20,000."""
    counts = np.bincount(places, minlength=STORED)
    if counts[-1] == 0 and (counts[:-1] > 0).all():
        raise Wrong(
            "The newest transition is never drawn. rng.integers excludes the upper end already."
        )
    if (np.diff(places) % STORED == 1).all():
        raise Wrong("The batch is consecutive transitions. Draw each place at random.")
    if (counts == 0).any() or counts.max() > 60:
        raise Wrong(
            f"Of {STORED} transitions, 400 draws used {np.count_nonzero(counts)}. All must have "
            "the same chance."
        )
