"""Small runs to look at."""

from pathlib import Path
from typing import Any

import td3
from td3.algorithm.variants.huber import HuberTD3
from td3.config.variants import BUILT_IN

VARIANTS = ["", *BUILT_IN]
SMALL: dict[str, dict[str, Any]] = {
    "flash": {"critic_width": 8, "actor_width": 8, "blocks": 1},
    "ensemble": {"critics": 4},
}
SETTINGS = {
    "agent.hidden_sizes": (16, 16),
    "agent.batch_size": 32,
    "loop.steps": 240,
    "loop.random_steps": 40,
    "loop.replay_size": 1000,
    "evaluation.every": 240,
    "evaluation.episodes": 1,
    "checkpoint.every": 80,
    "environment.max_episode_steps": 30,
}


class OwnUpdate(HuberTD3):
    """A user's subclass: averages the target critics, and follows with another speed."""

    def combine(self, next_values: Any, noise: Any) -> Any:
        return sum(next_values) / len(next_values)

    def move_target(self, network: Any, settings: Any) -> None:
        network.move_target(0.1)


def make_run(folder: Path, variant: str | type[td3.TD3] = "", **settings: Any) -> Path:
    """Train on Pendulum for a second."""
    name = variant if isinstance(variant, str) else ""
    given: Any = {"name": name, **SMALL.get(name, {})} if name or not variant else variant
    environment = settings.pop("environment", "Pendulum-v1")
    td3.train(
        environment,
        "quick",
        run=folder,
        quiet=True,
        variant=given,
        threads=1,
        **{"seeds": 2, "execution": "eager", **SETTINGS, **settings},
    )
    return folder
