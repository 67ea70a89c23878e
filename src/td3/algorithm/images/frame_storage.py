"""How much a replay buffer of frames stores, and a file for images that exceed the memory."""

import math
import mmap
import os
from pathlib import Path

import torch
from torch import Tensor

from td3.errors import UserError
from td3.files import check_file, remove
from td3.layout import Layout, Part, parts_of, unstack_layout

EPISODE_LENGTH = 64  # shortest mean episode, in steps, for which the buffer holds max_size steps
# The last observation of an episode starts no transition, so it needs extra space.


def overwrite_margin(layout: Layout, environments: int) -> int:
    """How far back a stack can reach, in observations of all environments of one agent.

    One step adds at most two observations per environment: the next one, and the first of a new
    episode.
    """
    return 2 * unstack_layout(layout)[0] * environments


def observation_capacity(transitions: int, margin: int) -> int:
    """How many observations are kept for so many transitions."""
    return transitions + transitions // EPISODE_LENGTH + 2 * margin


def observation_bytes(layout: Layout) -> int:
    """Memory for one observation: its image bytes, other numbers as float32, and two links."""
    images, numbers = observation_widths(parts_of(unstack_layout(layout)[1]))
    return images + 4 * numbers + 16


def observation_widths(parts: list[Part]) -> tuple[int, int]:
    """How many image bytes and how many other numbers one observation has."""
    images = sum(part.size for part in parts if part.image)
    return images, sum(part.size for part in parts) - images


def allocate_on_disk(file: Path, shape: tuple[int, ...]) -> Tensor:
    """Bytes in a memory-mapped file. Reserves the space now, so the disk cannot fill up later."""
    size = math.prod(shape)
    check_file(file)
    remove(file)
    try:
        with file.open("x+b") as reserved:
            os.posix_fallocate(reserved.fileno(), 0, size)
            mapped = mmap.mmap(reserved.fileno(), size)  # not by name, which may be a link by now
    except OSError as error:
        remove(file)
        raise UserError(
            f"The replay buffer needs {size / 1e9:.1f} GB on disk, but {file.parent} has no room "
            f"({error.strerror}); use a smaller --loop.replay-size."
        ) from error
    return torch.frombuffer(mapped, dtype=torch.uint8).view(shape)
