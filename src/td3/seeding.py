"""Random number streams, derived from one seed.

Each agent has one stream per purpose, so the parts of a run do not affect each other: an extra
evaluation does not change exploration, and an agent in a population draws the same numbers as
alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np

Stream = np.random.Generator


@dataclass(frozen=True)
class Streams:
    """All random number streams of one agent."""

    init: Stream
    """Initial weights."""
    explore: Stream
    """Random actions at the start, and exploration noise."""
    replay: Stream
    """Choice of transitions for a batch (step 4)."""
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
    """A seed for callers that give none. It follows `np.random.seed`, or differs each time."""
    return int(np.random.randint(2**31))  # noqa: NPY002 - the global generator is the point


def as_seeds(seed: int | Iterable[int] | None) -> list[int]:
    """A list with one seed per agent, from one seed, several seeds or None."""
    if seed is None:
        return [fresh_seed()]
    return [int(seed)] if isinstance(seed, int | np.integer) else [int(s) for s in seed]


def stream_state(stream: Stream) -> dict[str, Any]:
    """The position of a stream, as JSON."""
    return cast("dict[str, Any]", stream.bit_generator.state)


def restore_stream(stream: Stream, state: dict[str, Any]) -> None:
    """Set a stream to a position that `stream_state` returned."""
    stream.bit_generator.state = state
