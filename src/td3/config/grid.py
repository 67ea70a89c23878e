"""Grids: the settings that agents of one run may differ in."""

import dataclasses
import itertools
import math
import typing
from collections.abc import Mapping
from typing import Any

from td3.errors import UserError
from td3.text import shown

MOST_AGENTS = 2**16

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


def check_agents(seeds: int, grid: Mapping[str, tuple[float, ...]]) -> None:
    """Refuse more agents than any machine can train, before they are listed."""
    agents = seeds * math.prod(map(len, grid.values()))
    if agents > MOST_AGENTS:
        raise UserError(
            f"The run has {shown(agents)} agents, at most {MOST_AGENTS:,} are possible; use fewer "
            "seeds, or fewer values in the grid."
        )


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
