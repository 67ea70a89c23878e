"""Divide the agents of a run into populations."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

from td3.config import Config, varied
from td3.config.grid import combinations
from td3.errors import UserError


def divide(config: Config, populations: int) -> list[Config]:
    """The configurations of at most this many populations, as equal as possible.

    Each has a range of the seeds and a part of the grid, so it is an ordinary run. The order of
    its agents is that of the whole run.
    """
    if populations < 1:
        raise UserError(f"populations must be 1 or more, got {populations}.")
    keys = list(dict.fromkeys(key for own in combinations(config.grid) for key in own))
    lengths = [*(len(config.grid[key]) for key in keys), config.seeds]
    counts = best_counts(lengths, populations)
    values: list[Sequence[Any]] = [config.grid[key] for key in keys]
    values.append(range(config.seed, config.seed + config.seeds))
    parts = [split(own, count) for own, count in zip(values, counts, strict=True)]
    found = []
    for *chosen, seeds in itertools.product(*parts):
        grid = {key: tuple(own) for key, own in zip(keys, chosen, strict=True)}
        found.append(varied(config, {"grid": grid, "seed": seeds[0], "seeds": len(seeds)}))
    return found


def best_counts(lengths: Sequence[int], parts: int) -> tuple[int, ...]:
    """Into how many parts to split each axis, so that the largest part is smallest."""
    best = tuple(1 for _ in lengths)
    for counts in splits(lengths, parts):
        if rank(lengths, counts) < rank(lengths, best):
            best = counts
    return best


def splits(lengths: Sequence[int], parts: int) -> list[tuple[int, ...]]:
    """All numbers of parts per axis with a product of at most `parts`."""
    if not lengths:
        return [()]
    return [
        (count, *rest)
        for count in range(1, min(lengths[0], parts) + 1)
        for rest in splits(lengths[1:], parts // count)
    ]


def rank(lengths: Sequence[int], counts: Sequence[int]) -> tuple[int, int]:
    """The size of the largest part, then the number of parts."""
    sizes = (-(-length // count) for length, count in zip(lengths, counts, strict=True))
    return math.prod(sizes), math.prod(counts)


def split(values: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    """Contiguous parts whose lengths differ by at most one, the longer ones first."""
    size, longer = divmod(len(values), parts)
    edges = [k * size + min(k, longer) for k in range(parts + 1)]
    return [values[a:b] for a, b in itertools.pairwise(edges)]


def agents_of(config: Config, part: Config) -> list[int]:
    """The numbers that the agents of a population have in the whole run."""
    places = {tuple(own.items()): k for k, own in enumerate(config.combinations)}
    first = part.seed - config.seed
    return [
        places[tuple(own.items())] * config.seeds + first + k
        for own in part.combinations
        for k in range(part.seeds)
    ]
