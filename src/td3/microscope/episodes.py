"""Which episode a transition of a replay buffer belongs to.

A replay buffer of whole transitions stores no episodes. But the next state of a transition is the
state of the one after it, number by number. With several environments the next one is at most as
many places later as there are environments.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.images.frame_index import NEXT_STATE, STATE
from td3.algorithm.images.frame_replay import FrameReplay
from td3.algorithm.replay import ReplayBuffer
from td3.algorithm.replay_base import Replay

LONGEST = 10_000  # steps that are followed from a transition


class Episodes(NamedTuple):
    """The episodes of some transitions, as far as the replay buffer still has them."""

    numbers: NDArray[np.int64]
    """The transitions, counted from the start of the run."""
    positions: NDArray[np.int64]
    """How many transitions of its episode come before each one."""
    members: list[NDArray[np.int64]]
    """The numbers of all transitions of its episode, in order."""
    complete: NDArray[np.bool_]
    """Whether the first transition of the episode cannot have been overwritten."""


def transition_numbers(replay: Replay, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of the transitions that `draw` chose for one agent."""
    if isinstance(replay, FrameReplay):
        frames: NDArray[np.int64] = chosen[0, :, 0]
        return frames
    places, added, capacity = chosen[0], int(replay.added[0]), replay.capacity
    oldest = max(0, added - capacity)
    numbers: NDArray[np.int64] = oldest + (places - oldest) % capacity
    return numbers


def find_episodes(replay: Replay, chosen: NDArray[np.int64], environments: int) -> Episodes:
    """The episodes of the transitions that `draw` chose, of a buffer of one agent."""
    numbers = transition_numbers(replay, chosen)
    before = follow(replay, numbers, -environments)
    after = follow(replay, numbers, environments)
    members = [
        np.array([*reversed(early), number, *late])
        for early, number, late in zip(before, numbers.tolist(), after, strict=True)
    ]
    positions = np.array([len(early) for early in before])
    oldest = max(0, int(replay.added[0]) - replay.capacity)
    first = np.array([own[0] for own in members])
    return Episodes(numbers, positions, members, first - environments >= oldest)


def follow(replay: Replay, numbers: NDArray[np.int64], environments: int) -> list[list[int]]:
    """The transitions after each of these in its episode; with a negative number, those before."""
    found: list[list[int]] = [[] for _ in numbers]
    at, active = numbers.copy(), np.arange(len(numbers))
    for _ in range(LONGEST):
        following = neighbours(replay, at[active], environments)
        active = active[following >= 0]
        if not len(active):
            break
        at[active] = following[following >= 0]
        for own in active.tolist():
            found[own].append(int(at[own]))
    return found


def neighbours(replay: Replay, numbers: NDArray[np.int64], reach: int) -> NDArray[np.int64]:
    """The next transition of the episode within `reach`; -1 if there is none."""
    added = int(replay.added[0])
    oldest, found = max(0, added - replay.capacity), np.full(len(numbers), -1)
    step = 1 if reach > 0 else -1
    for offset in range(step, reach + step, step):
        others = numbers + offset
        inside = (others >= oldest) & (others < added) & (found < 0)
        if inside.any():
            own, other = numbers[inside], others[inside]
            joined = is_joined(replay, *((own, other) if reach > 0 else (other, own)))
            found[np.flatnonzero(inside)[joined]] = other[joined]
    return found


def is_joined(
    replay: Replay, early: NDArray[np.int64], late: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether the later transition of each pair begins where the earlier one ends."""
    assert replay.rows is not None
    places = [torch.from_numpy(numbers % replay.capacity) for numbers in (early, late)]
    rows = [replay.rows[0, place.to(replay.rows.device)].cpu() for place in places]
    if isinstance(replay, FrameReplay):
        ends = [replay.index.ends[0, place.to(replay.device)].cpu() for place in places]
        same: Tensor = ends[0][:, NEXT_STATE] == ends[1][:, STATE]
    else:
        size = replay.state_dim
        same = (rows[0][:, size : 2 * size] == rows[1][:, :size]).all(dim=1)
    joined: NDArray[np.bool_] = (same & (rows[0][:, -1] == 0)).numpy()
    return joined


def rewards_of(replay: Replay, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """The rewards of these transitions."""
    assert replay.rows is not None
    places = torch.from_numpy(numbers % replay.capacity).to(replay.rows.device)
    rewards: NDArray[np.float32] = replay.rows[0, places, -2].float().cpu().numpy()
    return rewards


def has_episodes(replay: Replay) -> bool:
    """Whether the episodes of this kind of buffer can be found."""
    return isinstance(replay, ReplayBuffer | FrameReplay)
