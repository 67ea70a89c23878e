"""Settings of the training loop: acting, updating, evaluating, saving, stopping."""

from dataclasses import dataclass
from typing import Literal

from td3.config.environment_settings import Value
from td3.config.fields import setting

EXPLORATIONS = ("gaussian", "ornstein-uhlenbeck", "pink", "zeta")


@dataclass(frozen=True)
class LoopConfig:
    """Acting, storing, updating."""

    steps: int = setting(
        1_000_000, "Environment steps per agent.", min=1, code=1_000_000, paper=1_000_000
    )
    random_steps: int = setting(
        25_000,
        "Initial steps with random actions.",
        "With --start-from, the actor that was loaded takes them.",
        min=0,
        code=25_000,
        paper="10,000 or 1,000",
        common=True,
    )
    exploration_noise: float = setting(
        0.1,
        "Standard deviation of action noise.",
        unit="half the action range",
        min=0,
        code=0.1,
        paper=0.1,
        search=(0.03, 0.5, "log"),
        common=True,
    )
    exploration: str = setting(
        "gaussian",
        "Kind of action noise.",
        "gaussian: independent in every step; ornstein-uhlenbeck: drifts back to zero; pink: "
        "correlated over whole episodes; zeta: Gaussian, held for some steps; module:Class: your "
        "subclass of td3.Exploration.",
        code="gaussian",
        paper="gaussian",
        common=True,
    )
    exploration_kwargs: dict[str, Value] = setting(
        {},
        "Further settings of the action noise.",
        "ornstein-uhlenbeck: theta 0.15 (fraction forgotten per step); pink: length (steps of a "
        "block; default: the time limit of an episode); zeta: exponent 2.0, longest 16. Example: "
        "--loop.exploration-kwargs theta 0.3",
    )
    exploration_schedule: Literal["constant", "linear", "cosine"] = setting(
        "constant",
        "How action noise changes over the run.",
        "linear and cosine go from loop.exploration_noise at step 0 to its final fraction at the "
        "last step.",
        code="constant",
        paper="constant",
    )
    final_exploration_noise: float = setting(
        0.1,
        "Action noise at the last step, as a fraction of loop.exploration_noise.",
        "For the schedules linear and cosine.",
        min=0,
        max=1,
    )
    update: Literal["step", "episode"] = setting(
        "step",
        "When to update.",
        "step: after each step that follows the random ones; episode: after each episode, once per "
        "step of it, as the walk-throughs do.",
        code="step",
    )
    updates_per_step: int = setting(1, "Updates per environment step.", min=1, code=1, paper=1)
    replay_size: int = setting(
        1_000_000,
        "Size of the replay buffer, per agent.",
        "Holds slightly fewer transitions of images if episodes are short.",
        unit="transitions",
        min=1,
        code=1_000_000,
        common=True,
    )
    log_every: int = setting(1_000, "Steps between training records in metrics.jsonl.", min=1)


@dataclass(frozen=True)
class EvaluationConfig:
    """Episodes without exploration noise, on separate seeds."""

    every: int = setting(
        5_000, "Steps between evaluations.", min=1, code=5_000, paper=5_000, common=True
    )
    episodes: int = setting(
        10, "Episodes per evaluation, always on the same seeds.", min=1, code=10, paper=10
    )
    max_steps: int = setting(
        10_000, "Longest episode of an evaluation; longer ones are cut.", unit="steps", min=1
    )
    keep_every: int = setting(
        0,
        "Steps between evaluated policies that are kept; 0: only the best and last.",
        "For td3 play and td3 export with --every.",
        min=0,
    )


@dataclass(frozen=True)
class CheckpointConfig:
    """When a run is saved."""

    every: int = setting(
        10_000,
        "Steps between checkpoints.",
        "Affects results: each environment is created again, with a new seed, at the first episode "
        "end after a checkpoint.",
        min=1,
        common=True,
    )
    after: str = setting(
        "",
        "Also save this long after the last checkpoint, e.g. 90s, 10m or 2h.",
        "For slow simulators. Does not affect results.",
    )
    keep_every: int = setting(
        0,
        "Steps between checkpoints that are never deleted; 0: none.",
        "Each is a run folder of its own in RUN/kept, with its replay buffer.",
        min=0,
    )
    retry_for: str = setting(
        "1h",
        "Train on for this long if saving fails, e.g. on a full disk.",
        "Every later checkpoint is another attempt. Empty: stop at once.",
    )


@dataclass(frozen=True)
class StopConfig:
    """Ends a run early. It is saved and can be resumed."""

    at_return: float | None = setting(
        None,
        "Stop when the mean return reaches this.",
        "It is the mean over the agents of their latest evaluation.",
        common=True,
    )
    after: str = setting(
        "",
        "Stop after this time, e.g. 90s, 30m, 2h or 1h30m.",
        "Counted from the start of training in this process; td3 resume starts to count again.",
        common=True,
    )
    patience: int = setting(
        0,
        "Stop after this many evaluations without improvement; 0: off.",
        "An improvement is a new highest mean over the agents.",
        unit="evaluations",
        min=0,
    )
