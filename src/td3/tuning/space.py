"""The search space: which settings `td3 tune` tries, over which range, on which scale.

The default comes from the declarations of the settings (`search` and `choices` in
`config/fields.py`). A TOML file narrows or extends it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from td3.config import VARIABLE, Config, Setting, declared_settings, dotted, setting_near, to_dict
from td3.config.fields import Scale
from td3.config.grid import variable_settings
from td3.config.parsing import from_dict
from td3.errors import UserError, nearest

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

SEARCHABLE = ("agent", "loop", "environment", "variant")
FIXED = ("loop.steps", "loop.log_every", "loop.update", "environment.id", "variant.name")
"""Settings that are no choice of a trial: they are the task, or td3 tune sets them."""
KEYS = {"low", "high", "scale"}


@dataclass(frozen=True)
class Parameter:
    """One setting of the search: a range of numbers, or choices."""

    key: str
    low: float = 0
    high: float = 0
    scale: Scale = "linear"
    choices: tuple[Any, ...] = ()
    """Values of a setting that all agents of a population share."""

    @property
    def name(self) -> str:
        """The name in the study."""
        return f"1 - {self.key}" if self.scale == "complement" else self.key

    def distribution(self) -> "BaseDistribution":
        """The range or the choices as Optuna takes them."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution

        if self.choices:
            return CategoricalDistribution([self.encode(choice) for choice in self.choices])
        low, high = sorted((self.encode(self.low), self.encode(self.high)))
        return FloatDistribution(low, high, log=self.scale != "linear")

    def encode(self, value: Any) -> Any:
        """A value of the setting as the study stores it."""
        if isinstance(value, tuple):
            return " ".join(map(str, value))
        return 1 - value if self.scale == "complement" else value

    def decode(self, stored: Any) -> Any:
        """A value from the study as the setting takes it."""
        if self.choices:
            return next(choice for choice in self.choices if self.encode(choice) == stored)
        return 1 - stored if self.scale == "complement" else float(stored)

    def contains(self, value: Any) -> bool:
        return value in self.choices if self.choices else self.low <= value <= self.high


@dataclass(frozen=True)
class Space:
    """The settings that a study searches."""

    parameters: tuple[Parameter, ...]

    @property
    def ranges(self) -> list[Parameter]:
        """Settings in which agents of one population may differ."""
        return [own for own in self.parameters if not own.choices]

    @property
    def shapes(self) -> list[Parameter]:
        """Settings that all agents of a population share."""
        return [own for own in self.parameters if own.choices]

    def distributions(self) -> dict[str, "BaseDistribution"]:
        return {own.name: own.distribution() for own in self.parameters}

    def encode(self, config: Config) -> dict[str, Any] | None:
        """The settings of a configuration as a study stores them; None if they are outside."""
        values = dict(dotted(to_dict(config)))
        if not all(own.contains(values[own.key]) for own in self.parameters):
            return None
        return {own.name: own.encode(values[own.key]) for own in self.parameters}

    def decode(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a trial by their dotted names; it may have been killed between two."""
        return {
            own.key: own.decode(stored[own.name]) for own in self.parameters if own.name in stored
        }


def default_space(config: Config, shapes: bool = False) -> dict[str, Parameter]:
    """The declared ranges; with `shapes` also hidden layers, batch size and n-step returns."""
    found = {}
    for key, declared in declared_settings(config).items():
        if (declared.search and is_variable(config, key)) or (declared.choices and shapes):
            found[key] = declared_parameter(key, declared)
    return found


def make_space(
    config: Config, tables: Mapping[str, Any] | None = None, shapes: bool = False
) -> Space:
    """The default space, changed by the tables of a search file.

    Raises:
        UserError: A setting cannot be searched, or its range is wrong.
    """
    tables = dict(tables or {})
    keep = tables.pop("default", True)
    if not isinstance(keep, bool):
        raise UserError(f"default in a search file must be true or false, got {keep!r}.")
    found = default_space(config, shapes) if keep else {}
    for key, value in entries(tables):
        if value is False:
            find_setting(config, key)
            found.pop(key, None)
        else:
            found[key] = read_parameter(config, key, value)
    if not found:
        raise UserError("The search space is empty; name a setting in the search file.")
    return Space(tuple(found.values()))


def entries(tables: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Every setting of a search file with its value; a table with low and high is one value."""
    for key, value in tables.items():
        if isinstance(value, Mapping) and not (prefix and value.keys() <= KEYS):
            yield from entries(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def is_variable(config: Config, key: str) -> bool:
    """Whether agents of one population may differ in this setting."""
    return key in VARIABLE or key in variable_settings(config.variant)


def find_setting(config: Config, key: str) -> Setting:
    """The declaration of a setting that can be searched."""
    known = declared_settings(config)
    if key not in known:
        if key.startswith("variant.") and not config.variant.name:
            raise UserError(f"{key} in the search space needs the variant that has it: --variant.")
        meant = setting_near(key)
        hint = f" Did you mean {meant!r}?" if meant else nearest(key, known)
        raise UserError(f"Unknown setting {key!r} in the search space.{hint}")
    if key.partition(".")[0] not in SEARCHABLE or key in FIXED:
        raise UserError(f"{key} cannot be searched; set it with a flag of td3 tune.")
    return known[key]


def declared_parameter(key: str, declared: Setting) -> Parameter:
    if declared.search:
        low, high, scale = declared.search
        return Parameter(key, low, high, scale)
    return Parameter(key, choices=declared.choices)


def read_parameter(config: Config, key: str, value: Any) -> Parameter:
    """One entry of a search file: true, a list of choices, or a table with low and high."""
    declared = find_setting(config, key)
    if value is True:
        if not declared.search and not declared.choices:
            if not is_variable(config, key):
                raise UserError(f"{key} declares no values to search; give a list of values.")
            raise UserError(f"{key} declares no range to search; give one: {example(key)}.")
        return declared_parameter(key, declared)
    if isinstance(value, list | tuple):
        return read_choices(config, key, value)
    if not isinstance(value, Mapping) or not {"low", "high"} <= value.keys() <= KEYS:
        raise UserError(
            f"{key} in the search space must be true, false, a list of values or a range such as "
            f"{example(key)}, got {value!r}."
        )
    if not is_variable(config, key):
        raise UserError(
            f"{key} cannot have a range, because all agents of a population share it; give a list "
            "of values."
        )
    return read_range(key, value, declared)


def read_choices(config: Config, key: str, values: Any) -> Parameter:
    """A list of values, converted and checked like settings."""
    table, _, name = key.partition(".")
    found: list[Any] = []
    for value in values:
        base = {"name": config.variant.name} if table == "variant" else {}
        changed = from_dict({table: {**base, name: value}}, config)
        found.append(getattr(getattr(changed, table), name))
        if isinstance(found[-1], dict):
            raise UserError(f"{key} is a table of settings, which cannot be searched.")
        if problem := declared_settings(config)[key].problem(found[-1]):
            raise UserError(f"{key} {problem}.")
    if not found or len(set(found)) < len(found):
        raise UserError(f"{key} in the search space needs values that differ, got {values!r}.")
    return Parameter(key, choices=tuple(found))


def read_range(key: str, table: Mapping[str, Any], declared: Setting) -> Parameter:
    """A range of numbers within the allowed one."""
    scale = table.get("scale", declared.search[2] if declared.search else "linear")
    if scale not in get_args(Scale):
        raise UserError(f"scale of {key} must be linear, log or complement, got {scale!r}.")
    low, high = table["low"], table["high"]
    for end in (low, high):
        if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
            raise UserError(f"low and high of {key} must be numbers, got {end!r}.")
        if problem := declared.problem(end):
            raise UserError(f"{key} {problem}.")
    if low >= high:
        raise UserError(f"low of {key} must be less than high, got {low} and {high}.")
    if (scale == "log" and low <= 0) or (scale == "complement" and high >= 1):
        side = "low above 0" if scale == "log" else "high below 1"
        raise UserError(f"The scale {scale} of {key} needs {side}, got {low} to {high}.")
    return Parameter(key, float(low), float(high), scale)


def example(key: str) -> str:
    return f'{key} = {{ low = 1e-4, high = 1e-2, scale = "log" }}'
