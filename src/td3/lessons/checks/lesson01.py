"""Lesson 1: a replay buffer of fixed size."""

from typing import Any

import numpy as np

from td3.algorithm.replay import ReplayBuffer
from td3.lessons.checking import Wrong, run

SIZE = 5

HINTS = (
    "Two cases: the list still grows, or it is full. len(self.storage) tells which.",
    "In a full list, write at self.pointer. Which transition stands there? It must be the oldest.",
    "After writing over a place, move the pointer by one and start at 0 again after the last: "
    "(self.pointer + 1) % self.max_size.",
)


def examine(attempt: Any) -> None:
    for count in (1, SIZE, SIZE + 1, SIZE + 3, 2 * SIZE, 3 * SIZE + 2):
        compare_storage(stored_after(attempt, count), expected_after(count), count)
    small = run(attempt, 1e6)
    run(small.add, transition(0))
    if len(small.storage) != 1:
        raise Wrong("A new buffer is empty: after one add it must hold one transition.")


def transition(number: int) -> tuple[Any, ...]:
    """A transition that can be told from others by its reward."""
    state, next_state = np.full(3, number), np.full(3, number + 1)
    return state, next_state, np.array([0.5]), float(number), False


def stored_after(attempt: Any, count: int) -> list[int]:
    """The numbers of the transitions that the student's buffer holds."""
    buffer = run(attempt, SIZE)
    for number in range(count):
        run(buffer.add, transition(number))
    if not isinstance(getattr(buffer, "storage", None), list):
        raise Wrong("Keep the transitions in the list self.storage.")
    try:
        return [int(reward) for _, _, _, reward, _ in buffer.storage]
    except (TypeError, ValueError):
        raise Wrong("self.storage must hold the transitions as they were given.") from None


def expected_after(count: int) -> list[int]:
    """What the buffer of td3 holds."""
    buffer = ReplayBuffer(SIZE, seed=0)
    for number in range(count):
        buffer.add(transition(number))
    assert buffer.rows is not None
    reward = buffer.part_sizes[0] + buffer.part_sizes[1] + buffer.part_sizes[2]
    return [int(x) for x in buffer.rows[0, : min(count, SIZE), reward].tolist()]


def compare_storage(found: list[int], expected: list[int], count: int) -> None:
    if found == expected:
        return
    told = f"After {count} calls of add, a buffer of size {SIZE} holds {found or 'nothing'}"
    if not found:
        raise Wrong(f"{told}. The hole is not filled yet: add must store the transition.")
    if len(found) > SIZE:
        raise Wrong(f"{told}: it grows without limit. When it is full, overwrite the oldest.")
    if found == list(range(SIZE)):
        raise Wrong(f"{told}: a full buffer drops what is new. Overwrite the oldest instead.")
    if sorted(found) == sorted(expected):
        raise Wrong(
            f"{told}: the right transitions in the order {found} instead of {expected}. Do you "
            "move all others (pop, insert)? That gets slow with a million. Write at self.pointer."
        )
    if count > SIZE and found[1:] == list(range(1, SIZE)):
        raise Wrong(
            f"{told}: every new transition lands in place 0. Move the pointer after each write."
        )
    if count > SIZE and found[:-1] == list(range(SIZE - 1)):
        raise Wrong(f"{told}: every new one lands in the last place. Write over the oldest.")
    raise Wrong(f"{told}, expected {expected}.")
