"""All settings of a run, as one frozen dataclass. Each field is declared once, by `setting`."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from td3.config import grid as grids
from td3.config.agent_settings import AgentConfig, VariantSettings
from td3.config.environment_settings import EnvironmentConfig
from td3.config.fields import setting
from td3.config.loop_settings import CheckpointConfig, EvaluationConfig, LoopConfig, StopConfig


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    environment: EnvironmentConfig = EnvironmentConfig()
    agent: AgentConfig = AgentConfig()
    variant: VariantSettings = VariantSettings()
    loop: LoopConfig = LoopConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    stop: StopConfig = StopConfig()
    recipe: str = setting(
        "",
        "Recipe or TOML file to start from.",
        "Recipes: bullet, course, flash, lean, paper, pixels, pixels-quick, quick.",
        common=True,
    )
    start_from: str = setting(
        "",
        "Run or policy to start from; short: --from.",
        "A run gives actor, critics, targets and optimizer moments; a policy file, or the task of "
        "a pretrained policy, gives the actor. This actor then takes the first loop.random_steps "
        "steps, without updates.",
        common=True,
    )
    start_replay: bool = setting(
        False, "With --start-from: also start with the replay buffer of that run."
    )
    seed: int = setting(0, "Seed of the first agent; the others count up.", min=0, common=True)
    seeds: int = setting(1, "Number of agents, each with its own seed.", min=1, common=True)
    grid: dict[str, tuple[float, ...]] = setting(
        {},
        "Values to try, e.g. agent.tau=0.005,0.01.",
        "Trains every combination with every seed, all at once. Example: --grid "
        "agent.discount=0.98,0.99 agent.tau=0.005,0.01",
        common=True,
    )
    device: str = setting("auto", "cpu, cuda or auto (cuda if available).", common=True)
    track: tuple[Literal["tensorboard", "wandb"], ...] = setting(
        (), "Also send metrics to tensorboard or wandb.", common=True
    )
    callback: tuple[str, ...] = setting(
        (),
        "Callback class to use, e.g. my_module:MyCallback.",
        "A subclass of td3.Callback without arguments. td3 resume uses it too.",
        common=True,
    )
    threads: int = setting(
        0,
        "CPU threads; 0: measure the fastest count.",
        "Affects results: sums round differently, so a resumed run keeps its first count.",
        min=0,
        max=1024,
        common=True,
    )
    execution: Literal["auto", "eager"] = setting(
        "auto",
        "How updates run: auto (fast) or eager (plain PyTorch).",
        "auto uses preallocated kernels on a CPU and captured graphs on a GPU; eager is for "
        "debugging. Affects results: the two round differently.",
    )
    verify: bool = setting(
        True,
        "Compare the first updates with plain PyTorch.",
        "If they differ, or if an update cannot be executed fast, the run continues with plain "
        "PyTorch and reports why. Costs less than a second.",
    )
    precision: Literal["tf32", "float32", "bf16"] = setting(
        "tf32",
        "Precision of matrix products on a GPU.",
        "tf32: factors rounded to 11 bits, sums in float32, several times as fast as float32. "
        "bf16: tf32, with 16-bit convolutions. A CPU always uses float32.",
    )

    @property
    def combinations(self) -> list[dict[str, float]]:
        """Every combination of the grid's values; without a grid, one empty dict."""
        return grids.combinations(self.grid)

    @property
    def agents(self) -> int:
        """Number of agents: one for each combination and seed."""
        return self.seeds * len(self.combinations)

    @property
    def agent_seeds(self) -> list[int]:
        """The seed of each agent; agents of one combination are adjacent."""
        return list(range(self.seed, self.seed + self.seeds)) * len(self.combinations)

    def member(self, agent: int) -> "Config":
        """The settings of one agent as a separate run."""
        combination = self.combinations[agent // self.seeds]
        return varied(
            self, {**combination, "grid": {}, "seed": self.agent_seeds[agent], "seeds": 1}
        )


def varied(config: Config, settings: Mapping[str, Any]) -> Config:
    """The configuration with other values at these dotted names.

    Example: `varied(config, {"loop.steps": 1000, "seed": 3})`
    """
    for key, value in settings.items():
        table, _, name = key.rpartition(".")
        if table:
            table, value = table, dataclasses.replace(getattr(config, table), **{name: value})
        config = dataclasses.replace(config, **{table or name: value})
    return config
