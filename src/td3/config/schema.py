"""The settings of a run, as frozen dataclasses. Each field is declared once, by `setting`."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from td3.config import grid as grids
from td3.config.fields import setting

Value = bool | int | float | str


def learning_rate(networks: str) -> float:
    """A learning rate; the authors use the same for actor and critics."""
    return setting(
        3e-4,
        f"Learning rate of the {networks} (Adam).",
        above=0,
        code=3e-4,
        paper=1e-3,
        search=(1e-5, 1e-2, "log"),
        common=True,
    )


@dataclass(frozen=True)
class EnvironmentConfig:
    """The task and how its environments run."""

    id: str = setting(
        "",
        "Gymnasium id, e.g. HalfCheetah-v5, or class or function, e.g. my_module:make_env; same as "
        "ENVIRONMENT.",
    )
    kwargs: dict[str, Value] = setting(
        {},
        "Keyword arguments of the environment.",
        "Example: --environment.kwargs ctrl_cost_weight 0.05.",
        common=True,
    )
    max_episode_steps: int = setting(
        0,
        "Time limit of an episode; 0: as registered.",
        "A class or function has no limit unless it ends episodes itself. Counts steps of the "
        "simulator.",
        unit="steps",
        min=0,
    )
    info: tuple[str, ...] = setting(
        ("is_success", "success"),
        "Numbers to log from the environment's info.",
        "is_success and success: the last value of the episode; others: the mean over its steps. "
        "Example: --environment.info is_success x_velocity.",
    )
    count: int = setting(1, "Environments per agent.", min=1, code=1, common=True)
    vectorization: Literal[
        "auto", "own", "workers", "envpool", "sync", "async", "vector_entry_point"
    ] = setting(
        "auto",
        "Where environments run.",
        "own: in this process; workers: in worker processes, with the same results; auto: the "
        "faster of the two. All three resume exactly. envpool (a different build of the "
        "simulators) and the modes of gymnasium.make_vec start new episodes on resume.",
    )
    workers: int = setting(
        0, "Worker processes; 0: choose from the environments and the free cores.", min=0
    )
    patience: float = setting(
        300.0,
        "Timeout for one step of a worker process; 0: no timeout.",
        "On timeout the run stops and names the worker.",
        unit="seconds",
        min=0,
    )
    normalize_observations: bool = setting(
        False, "Scale observations by their running mean and standard deviation.", code=False
    )
    pixels: bool = setting(
        False,
        "Learn from images.",
        "Uses the task's own images, or rendered ones if it observes none.",
        common=True,
    )
    resize: int = setting(
        0,
        "Resize images to this height and width; 0: keep their size.",
        "DrQ-v2 uses 84.",
        unit="pixels",
        min=0,
    )
    grey: bool = setting(False, "Convert images to greyscale.")
    frame_stack: int = setting(
        1,
        "Number of latest observations that make up a state.",
        "One image shows no velocity. Each observation is stored once. DrQ-v2 uses 3.",
        min=1,
        max=100,
    )
    action_repeat: int = setting(
        1, "Simulator steps per action; td3 counts actions as steps.", "DrQ-v2 uses 2.", min=1
    )
    reward_scale: float = setting(
        1.0, "Factor on rewards in training; evaluation reports true rewards.", above=0, code=1
    )


@dataclass(frozen=True)
class AgentConfig:
    """The networks and the update (steps 2 to 15)."""

    hidden_sizes: tuple[int, ...] = setting(
        (256, 256),
        "Hidden layers of actor and critics.",
        min=1,
        code=(256, 256),
        paper=(400, 300),
        common=True,
    )
    actor_learning_rate: float = learning_rate("actor")
    critic_learning_rate: float = learning_rate("critics")
    batch_size: int = setting(
        256, "Transitions per update.", min=1, code=256, paper=100, common=True
    )
    discount: float = setting(
        0.99, "Discount factor gamma.", min=0, max=1, code=0.99, paper=0.99, common=True
    )
    tau: float = setting(
        0.005,
        "Share of the online network in each target update.",
        "Steps 14 and 15.",
        min=0,
        max=1,
        code=0.005,
        paper=0.005,
    )
    policy_noise: float = setting(
        0.2,
        "Standard deviation of the smoothing noise on target actions.",
        unit="half the action range",
        min=0,
        code=0.2,
        paper=0.2,
    )
    noise_clip: float = setting(
        0.5, "Largest smoothing noise.", unit="half the action range", min=0, code=0.5, paper=0.5
    )
    policy_freq: int = setting(2, "Critic updates per actor update.", min=1, code=2, paper=2)
    learning_rate_schedule: Literal["constant", "linear", "cosine"] = setting(
        "constant",
        "How the learning rates change over the run.",
        "linear and cosine go from the learning rates at step 0 to their final fraction at the "
        "last step.",
        code="constant",
        paper="constant",
    )
    final_learning_rate: float = setting(
        0.1,
        "Learning rates at the last step, as a fraction of the first ones.",
        "For the schedules linear and cosine.",
        min=0,
        max=1,
    )
    channels: tuple[int, ...] = setting(
        (32, 32, 32, 32),
        "Channels of the convolutions for images; the first has stride 2.",
        "Changes steps 2 and 3. DrQ-v2 uses 32 32 32 32.",
        min=1,
    )
    features: int = setting(
        50, "Features per image that actor and critics receive.", "DrQ-v2 uses 50.", min=1
    )
    random_shift: int = setting(
        0,
        "Shift sampled images at random by up to this many pixels; 0: off.",
        "Changes step 4. DrQ-v2 uses 4.",
        unit="pixels",
        min=0,
    )
    n_step: int = setting(
        1,
        "Rewards to sum before bootstrapping (n-step return).",
        "Changes step 9. DrQ-v2 uses 3.",
        min=1,
        max=100,
        code=1,
    )


@dataclass(frozen=True)
class VariantSettings:
    """The variant of the algorithm. A variant's own settings are fields of a subclass.

    The subclass is a frozen dataclass whose fields all have defaults. The variant names it as
    `Settings` and reads the values from `self.variant`.
    """

    name: str = setting(
        "",
        "Variant of TD3: a built-in name, or module:Class.",
        "Built in: ensemble, huber, lap, layer_norm. Its own settings are --variant.NAME; "
        "--help-all lists them.",
        common=True,
    )


@dataclass(frozen=True)
class LoopConfig:
    """Acting, storing, updating."""

    steps: int = setting(
        1_000_000, "Environment steps per agent.", min=1, code=1_000_000, paper=1_000_000
    )
    random_steps: int = setting(
        25_000,
        "Initial steps with random actions.",
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


@dataclass(frozen=True)
class CheckpointConfig:
    """How often a run is saved."""

    every: int = setting(
        10_000,
        "Steps between checkpoints.",
        "Affects results: each environment is created again, with a new seed, at the first episode "
        "end after a checkpoint.",
        min=1,
        common=True,
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
        "Counted from the start of training in this process; td3 resume counts anew.",
        common=True,
    )
    patience: int = setting(
        0,
        "Stop after this many evaluations without improvement; 0: off.",
        "An improvement is a new highest mean over the agents.",
        unit="evaluations",
        min=0,
    )


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
        "Recipes: bullet, course, paper, pixels, pixels-quick, quick.",
        common=True,
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
        "PyTorch and says why. Costs less than a second.",
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


EXPLORATIONS = ("gaussian", "ornstein-uhlenbeck", "pink", "zeta")

# Settings that Gymnasium's wrappers implement. They wrap one environment, not a vector.
WRAPPERS = ("pixels", "resize", "grey", "frame_stack", "action_repeat")
