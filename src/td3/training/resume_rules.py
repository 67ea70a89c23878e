"""Which settings may change when a run is resumed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from td3.config import Config, changes, dotted, to_dict
from td3.config.checks import EXACT
from td3.errors import UserError

# The shape or the meaning of the saved numbers depends on these.
FIXED = (
    "agent.hidden_sizes",
    "agent.channels",
    "agent.features",
    "agent.n_step",
    "loop.replay_size",
    "seed",
    "seeds",
    "variant.name",
)
WITHOUT_EFFECT = (
    "loop.steps",
    "evaluation.keep_every",
    "checkpoint.after",
    "checkpoint.keep_every",
    "checkpoint.retry_for",
    "track",
    "verify",
    "callback",
    "stop",
    "start_replay",
)
"""A run with other values in these settings or tables has the same numbers up to the same step."""
SCHEDULES = ("agent.learning_rate_schedule", "loop.exploration_schedule")


def check_settings(config: Config, before: dict[str, Any], folder: Path) -> list[str]:
    """Compare the settings with those in a checkpoint; returns why the result is not exact.

    Raises UserError if the checkpoint cannot be used with a changed setting.
    """
    found = relevant_changes(config, before)
    for key, (old, new) in found.items():
        # With loop.update = "episode" the agents have different numbers of updates.
        uneven = key == "loop.update" and config.agents > 1
        if uneven or key in FIXED or key.startswith(("environment.", "grid.")):
            raise UserError(
                f"{key} was {old} when {folder} was saved and is now {new}; "
                "change it back in config.toml, or start a new run."
            )
    return [
        f"not exact: {key} was {old}, is {new}"
        for key, (old, new) in found.items()
        if not is_without_effect(key, config)
    ]


def is_without_effect(key: str, config: Config) -> bool:
    """Whether a change of this setting leaves the numbers up to the same step as they are."""
    if key == "loop.steps":  # a schedule stretches over all steps
        values = dict(dotted(to_dict(config)))
        return all(values[schedule] == "constant" for schedule in SCHEDULES)
    return key in WITHOUT_EFFECT or key.partition(".")[0] in WITHOUT_EFFECT


def relevant_changes(config: Config, before: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Dotted name → (old, new) of every setting that differs and may change the numbers."""
    found = changes(with_defaults(before), to_dict(config))
    for name in ("environment.workers", "environment.info"):
        found.pop(name, None)
    for varied in config.grid:  # each agent has its own value from the grid
        found.pop(varied, None)
    if all(backend in EXACT for backend in found.get("environment.vectorization", ())):
        found.pop("environment.vectorization", None)
    return found


def with_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted name; those that an older version did not have get their default."""
    return dict(dotted(to_dict(Config()))) | dict(dotted(settings))
