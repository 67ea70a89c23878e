"""One seed → named streams of random numbers.

Each agent owns one stream per purpose, so that what one part draws never shifts what another part
sees: an extra evaluation does not change exploration, and agent k of a population draws exactly
what it would draw alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np

Stream = np.random.Generator


@dataclass(frozen=True)
class Streams:
    """Everything random about one agent."""

    init: Stream
    """Initial weights."""
    explore: Stream
    """Random first actions and exploration noise."""
    replay: Stream
    """Which transitions a batch holds."""
    smooth: Stream
    """Noise on the target action (step 6)."""
    env: Stream
    """Seeds of the training environments."""
    eval: Stream
    """Seeds of the evaluation episodes."""

    @classmethod
    def from_seed(cls, seed: int) -> "Streams":
        # The position of a name is part of the key: new streams go to the end.
        return cls(
            *(
                np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, position])))
                for position, _ in enumerate(fields(cls))
            )
        )


def fresh_seed() -> int:
    """A seed where none was given: follows `np.random.seed`, else differs each time."""
    return int(np.random.randint(2**31))  # noqa: NPY002 - the global generator is the point


def as_seeds(seed: int | Iterable[int] | None) -> list[int]:
    """One seed, several, or none given → a list with one seed per agent."""
    if seed is None:
        return [fresh_seed()]
    return [int(seed)] if isinstance(seed, int | np.integer) else [int(s) for s in seed]


def stream_state(stream: Stream) -> dict[str, Any]:
    """Where a stream stands, as plain JSON."""
    return cast("dict[str, Any]", stream.bit_generator.state)


def restore_stream(stream: Stream, state: dict[str, Any]) -> None:
    """Put a stream back to where `stream_state` saw it."""
    stream.bit_generator.state = state
