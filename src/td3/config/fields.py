"""The declaration of one setting: default, help, unit, allowed range, reference values.

Validation, help texts and the search space for tuning are all derived from it.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

LARGEST = 10**15
MOST_VALUES = 1000  # in a list
Scale = Literal["linear", "log", "complement"]
"""How a tuning search covers a range; complement: 1 - value on a logarithmic scale."""
T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """What is known about a setting besides its name, type and default."""

    help: str
    """One line, shown by --help."""
    more: str = ""
    """Further sentences, shown by --help-all."""
    unit: str = ""
    min: float | None = None
    """Smallest allowed value; for a tuple, of each item."""
    above: float | None = None
    """Exclusive lower bound."""
    max: float | None = None
    code: Any = None
    """Value in the TD3 authors' code."""
    paper: Any = None
    """Value in the TD3 paper."""
    search: tuple[float, float, Scale] | None = None
    """Low, high and scale of a tuning search."""
    choices: tuple[Any, ...] = ()
    """Values of a tuning search, for a setting that all agents of a population share."""
    common: bool = False
    """Whether --help lists it."""

    @property
    def range(self) -> str:
        """The allowed range in words; empty if there is none."""
        if self.min is not None and self.max is not None:
            return f"between {self.min} and {self.max}"
        if self.min is not None:
            return f"{self.min} or more"
        return f"greater than {self.above}" if self.above is not None else ""

    @property
    def facts(self) -> list[str]:
        """Unit, range and reference values, in words."""
        same = self.code is not None and self.code == self.paper
        found = [self.unit, self.range]
        if self.code is not None:
            found.append(f"authors' code{' and paper' if same else ''}: {_words(self.code)}")
        if self.paper is not None and not same:
            found.append(f"paper: {_words(self.paper)}")
        return [fact for fact in found if fact]

    @property
    def text(self) -> str:
        """The complete help text."""
        facts = "; ".join(self.facts)
        return " ".join(part for part in (self.help, self.more, facts and f"[{facts}]") if part)

    def problem(self, value: Any) -> str:
        """Why the value is not allowed, e.g. `must be 1 or more, got 0`; empty if it is."""
        if not self.range:
            return ""
        if isinstance(value, tuple):
            return self._tuple_problem(value)
        if isinstance(value, int) and value > LARGEST and self.max is None:
            return "must be at most 1e15"
        low = -math.inf if self.min is None else self.min
        high = math.inf if self.max is None else self.max
        inside = low <= value <= high and (self.above is None or value > self.above)
        return "" if inside and math.isfinite(value) else f"must be {self.range}, got {value}"

    def _tuple_problem(self, values: tuple[Any, ...]) -> str:
        if not values:
            return "needs at least one value"
        if len(values) > MOST_VALUES:
            return f"has {len(values):,} values, more than {MOST_VALUES:,}"
        return next((problem for value in values if (problem := self.problem(value))), "")


def setting(default: T, help: str, more: str = "", **facts: Any) -> T:
    """Declare a dataclass field with its help text and allowed range.

    Args:
        default: The default value.
        help: One line, shown by `--help`.
        more: Further sentences, shown by `--help-all`.
        **facts: `min`, `max` (inclusive) and `above` (exclusive): the allowed range; `unit`;
            `common=True`: `--help` lists it, too; `code`, `paper`: values of the authors;
            `search`: low, high and scale (linear, log or complement) of a tuning search;
            `choices`: values of a tuning search.

    Returns:
        The field of a frozen dataclass, typed as the default.

    Example:
        @dataclass(frozen=True)
        class MySettings(td3.VariantSettings):
            delta: float = td3.setting(1.0, "Error from which the loss is linear.", above=0)
    """
    declared = Setting(help, more, **facts)
    metadata = {"help": declared.text, "setting": declared}  # tyro shows the first
    if isinstance(default, dict):
        return cast(T, dataclasses.field(default_factory=default.copy, metadata=metadata))
    return dataclasses.field(default=default, metadata=metadata)


def same_as(table: type, name: str, **facts: Any) -> Any:
    """A field with the default and declaration of a field of another class, but for `facts`."""
    field = next(field for field in dataclasses.fields(table) if field.name == name)
    declared = dataclasses.replace(field.metadata["setting"], **facts)
    metadata = {**field.metadata, "setting": declared}
    if field.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=field.default_factory, metadata=metadata)
    return dataclasses.field(default=field.default, metadata=metadata)


def declared_settings(table: Any, prefix: str = "") -> Mapping[str, Setting]:
    """Dotted name → declaration, of a configuration class or instance and its tables."""
    found: dict[str, Setting] = {}
    for field in dataclasses.fields(table):
        value = getattr(table, field.name, None)
        if "setting" in field.metadata:
            found[prefix + field.name] = field.metadata["setting"]
        elif dataclasses.is_dataclass(value):
            found |= declared_settings(value, f"{prefix}{field.name}.")
        else:  # a variant may declare a plain field
            found[prefix + field.name] = Setting("")
    return found


def _words(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
