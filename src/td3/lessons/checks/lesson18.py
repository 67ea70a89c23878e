"""Lesson 18: which updates move the actor."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from td3.algorithm.agent import TD3
from td3.lessons.checking import Wrong, call

LENGTHS, POLICY_FREQ = (7, 5, 1, 10), 3

HINTS = (
    "How many updates are there in all? The episodes do not matter otherwise.",
    "sum(lengths) updates, and every policy_freq-th from 0 on: range(0, …, …).",
)


def examine(attempt: Any) -> None:
    for lengths, policy_freq in ((LENGTHS, POLICY_FREQ), ((4, 4), 2), ((1, 1, 1), 1)):
        found = call(attempt, list(lengths), policy_freq)
        try:
            found = [int(update) for update in found]
        except TypeError:
            raise Wrong(f"Return a list of numbers, got {found!r:.60}.") from None
        compare_lists(found, expected(lengths, policy_freq), lengths, policy_freq)


def expected(lengths: Sequence[int], policy_freq: int) -> list[int]:
    """What td3 does: its own counter and its own rule."""
    agent, moved = TD3(1, 1, hidden_sizes=(1,)), []
    for length in lengths:
        for _ in range(length):
            if agent.due(policy_freq):
                moved.append(int(agent.updates[0]))
            agent.updates += 1
    return moved


def compare_lists(
    found: list[int], right: list[int], lengths: Sequence[int], policy_freq: int
) -> None:
    """Raise Wrong with the sentence of the mistake that gives `found`."""
    if found == right:
        return
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    within = [range(0, length, policy_freq) for length in lengths]
    total = sum(lengths)
    mistakes = {
        "The counter starts again in each episode, as in the listings. It must count on: update 0 "
        "of an episode is not always due.": [
            start + k for start, due in zip(starts, within, strict=True) for k in due
        ],
        "The counter starts again in each episode, and so do your numbers. Count through all "
        "updates.": [k for due in within for k in due],
        "Update 0 is due too: 0, policy_freq, 2 · policy_freq, …": right[1:],
        "The first actor step is on update 0, not after policy_freq updates.": [
            *range(policy_freq - 1, total, policy_freq)
        ],
        "These are numbers of episodes. The delay counts updates.": [
            *range(0, len(lengths), policy_freq)
        ],
        "There are as many updates as steps, so the last number is below their sum.": [
            *range(0, total + 1, policy_freq)
        ],
        "These are all updates. Only every policy_freq-th moves the actor.": [*range(total)],
    }
    for sentence, wrong in mistakes.items():
        if found == wrong:
            raise Wrong(sentence)
    raise Wrong(
        f"For episodes of {', '.join(map(str, lengths))} steps and policy_freq {policy_freq} the "
        f"updates are {', '.join(map(str, right))}; your list begins with {found[:8]}."
    )
