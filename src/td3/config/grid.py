"""Grids: the settings that agents of one run may differ in."""

import dataclasses
import itertools
import typing
from collections.abc import Mapping
from typing import Any

# Agents that differ only in these settings still train in one batched product. The order decides
# the numbering of the agents, so it must not change.
VARIABLE = (
    "agent.actor_learning_rate",
    "agent.critic_learning_rate",
    "agent.discount",
    "agent.tau",
    "agent.policy_noise",
    "agent.noise_clip",
    "loop.exploration_noise",
    "environment.reward_scale",
)


def combinations(grid: Mapping[str, tuple[float, ...]]) -> list[dict[str, float]]:
    """Every combination of the values; for an empty grid, one empty dict."""
    keys = [key for key in VARIABLE if key in grid]
    keys += sorted(key for key in grid if key not in VARIABLE)
    products = itertools.product(*(grid[key] for key in keys))
    return [dict(zip(keys, values, strict=True)) for values in products]


def variable_settings(variant: Any) -> list[str]:
    """The numbers of a variant that its agents may differ in: all fields of type float."""
    hints = typing.get_type_hints(type(variant))
    return [f"variant.{f.name}" for f in dataclasses.fields(variant) if hints[f.name] is float]


def describe_settings(settings: Mapping[str, Any]) -> str:
    """Settings in words, without their tables: discount 0.98, tau 0.01."""
    short = {"variant.name": "variant"}
    return ", ".join(
        f"{short.get(key, key.partition('.')[2])} {value}" for key, value in settings.items()
    )
