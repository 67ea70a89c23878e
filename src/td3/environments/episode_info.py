"""What an environment reports about an episode in `info`: numbers to log, and values to pass on."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

OUTCOMES = ("is_success", "success")
"""Names that describe the whole episode: their last value counts. Others are averaged."""


class EpisodeInfo(NamedTuple):
    """What was reported about an episode that ended."""

    numbers: dict[str, float]
    """One number for each name of `environment.info` that the environment reported."""
    final: dict[str, Any]
    """The plain values of the last `info`; empty unless `Environments.keep_info` is set."""


class EpisodeNumbers:
    """Turns the numbers in the `info` of each step into one number per episode and name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.totals: dict[str, tuple[float, int]] = {}

    def start(self) -> None:
        """Begin an episode."""
        self.totals = {}

    def add(self, info: Mapping[str, Any]) -> None:
        """Add one step."""
        for name in self.names:
            if name not in info or (value := as_number(info[name])) is None:
                continue
            total, count = self.totals.get(name, (0.0, 0))
            self.totals[name] = (value, 1) if name in OUTCOMES else (total + value, count + 1)

    def means(self) -> dict[str, float]:
        """The numbers of the episode so far, in the order of the names."""
        return {
            name: self.totals[name][0] / self.totals[name][1]
            for name in self.names
            if name in self.totals
        }


def as_number(value: Any) -> float | None:
    """Return a finite number, or None if it is none; true counts as 1."""
    if isinstance(value, np.ndarray | np.generic):
        if value.size != 1 or value.dtype.kind not in "biuf":
            return None
        value = value.item()
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def success_of(info: Mapping[str, Any]) -> float | None:
    """Return whether an episode that ended with this `info` succeeded; None if it does not say."""
    values = (as_number(info.get(name)) for name in OUTCOMES)
    return next((value for value in values if value is not None), None)


def plain_values(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that JSON can hold; arrays become lists, other objects are left out."""
    kept = {str(name): plain(value) for name, value in info.items()}
    return {name: value for name, value in kept.items() if value is not SKIP}


SKIP = object()


def plain(value: Any) -> Any:
    """Return a value as JSON would return it, or SKIP."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.dtype.kind in "biufU" else SKIP
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return plain_values(value)
    if isinstance(value, list | tuple):
        items = [plain(item) for item in value]
        return SKIP if any(item is SKIP for item in items) else items
    return SKIP
