"""What a run is asked to do: frozen dataclasses, TOML files, recipes.

Each field is followed by its docstring: what it means, its unit, and the value in the TD3 authors'
code (and in their paper, where it differs). Help texts and documentation are made from these.
"""

import dataclasses
import difflib
import itertools
import numbers
import tomllib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from td3.config.toml import read_toml
from td3.errors import UserError, nearest

Value = bool | int | float | str


@dataclass(frozen=True)
class EnvironmentConfig:
    """The task."""

    id: str = ""
    """Gymnasium id, e.g. HalfCheetah-v5, dm_control/cheetah-run-v0 or my_package:MyEnv-v0."""
    kwargs: dict[str, Value] = field(default_factory=dict)
    """Keyword arguments for the environment, e.g. --environment.kwargs ctrl_cost_weight 0.05."""
    count: int = 1
    """Environments per agent, stepped in turn; authors' code: 1."""
    vectorization: Literal[
        "auto", "own", "workers", "envpool", "sync", "async", "vector_entry_point"
    ] = "auto"
    """Who steps the environments: own (this process) or workers (processes of td3's), with the
    same numbers and exact resume; auto: the faster of the two; envpool (another build of the
    simulator) or gymnasium.make_vec in one of its modes: a resumed run starts new episodes."""
    workers: int = 0
    """Worker processes; 0: as many as the environments and the free cores call for."""
    patience: float = 300.0
    """Seconds that a step in another process may take; after that it is named and the run stops.
    0: any number."""
    normalize_observations: bool = False
    """Scale observations by their running mean and deviation; authors' code: off."""
    pixels: bool = False
    """Observe a picture: the task's own if it observes one, else the rendered one."""
    resize: int = 0
    """Height and width that an image is brought to, in pixels; 0: as it is. DrQ-v2: 84."""
    grey: bool = False
    """Take the colours out of an image."""
    frame_stack: int = 1
    """Observations that make up a state, the newest and those before it, so that velocities can
    be seen. They are stored once. DrQ-v2: 3."""
    action_repeat: int = 1
    """Simulator steps that an action lasts; a step of td3 is one action. DrQ-v2: 2."""
    reward_scale: float = 1.0
    """Factor on the rewards that the agent learns from (evaluation shows the true ones);
    authors' code: 1."""


@dataclass(frozen=True)
class AgentConfig:
    """The networks and the update (steps 2 to 15)."""

    hidden_sizes: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of actor and critics; authors' code: 256 256 (paper: 400 300)."""
    actor_learning_rate: float = 3e-4
    """Adam's step size for the actor; authors' code: 3e-4."""
    critic_learning_rate: float = 3e-4
    """Adam's step size for the critics; authors' code: 3e-4."""
    batch_size: int = 256
    """Transitions per update; authors' code: 256 (paper: 100)."""
    discount: float = 0.99
    """Weight of the next step's value, gamma; authors' code: 0.99."""
    tau: float = 0.005
    """Share of the online network that a target takes over (steps 14, 15); authors' code: 0.005."""
    policy_noise: float = 0.2
    """Deviation of the smoothing noise on target actions, as a share of half the action range;
    authors' code: 0.2."""
    noise_clip: float = 0.5
    """Largest smoothing noise, as a share of half the action range; authors' code: 0.5."""
    policy_freq: int = 2
    """Critic updates per actor update; authors' code: 2."""
    channels: tuple[int, ...] = (32, 32, 32, 32)
    """Channels of the convolutions that look at an image, which change steps 2 and 3; the first
    has stride 2. DrQ-v2: 32 32 32 32."""
    features: int = 50
    """Numbers that the encoder makes of each image, for actor and critics; DrQ-v2: 50."""
    random_shift: int = 0
    """Shift sampled images by up to so many pixels, at random, which changes step 4; 0: not.
    DrQ-v2: 4."""
    n_step: int = 1
    """Rewards that are added up before the critics' value of what follows, which changes step 9;
    authors' code: 1 (DrQ-v2: 3)."""


@dataclass(frozen=True)
class LoopConfig:
    """Acting, storing, updating."""

    steps: int = 1_000_000
    """Environment steps per agent; authors' code: 1,000,000."""
    random_steps: int = 25_000
    """First steps with uniformly random actions; authors' code: 25,000 (paper: 10,000 or 1,000)."""
    exploration_noise: float = 0.1
    """Deviation of the Gaussian noise on actions, as a share of half the action range;
    authors' code: 0.1."""
    update: Literal["step", "episode"] = "step"
    """When to update: after each step once the random steps are over, or, as the walk-throughs
    do, after each episode for as many updates as it had steps; authors' code: step."""
    updates_per_step: int = 1
    """Updates for each environment step; authors' code: 1."""
    replay_size: int = 1_000_000
    """Transitions that the replay ring holds, per agent, of images somewhat fewer if episodes are
    short; authors' code: 1,000,000."""
    log_every: int = 1_000
    """Steps between two training records in metrics.jsonl."""


@dataclass(frozen=True)
class EvaluationConfig:
    """Noise-free episodes on seeds of their own."""

    every: int = 5_000
    """Steps between evaluations; authors' code: 5,000."""
    episodes: int = 10
    """Episodes per evaluation, on the same seeds each time; authors' code: 10."""
    max_steps: int = 10_000
    """An episode that has not ended by then is cut, so that a task without end can be evaluated;
    authors' code: none, its tasks end after 1,000."""


@dataclass(frozen=True)
class CheckpointConfig:
    """How much work a crash may cost."""

    every: int = 10_000
    """Steps between checkpoints. Environments are remade, with a new seed, at the first episode
    end after each: part of the result."""


@dataclass(frozen=True)
class Config:
    """All of it."""

    environment: EnvironmentConfig = EnvironmentConfig()
    agent: AgentConfig = AgentConfig()
    loop: LoopConfig = LoopConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    recipe: str = ""
    """Recipe to start from: bullet, course, paper, pixels, pixels-quick, quick, or a TOML file."""
    seed: int = 0
    """Seed of the first agent; the others count up from it."""
    seeds: int = 1
    """How many agents to train side by side, each with its own seed."""
    grid: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Settings to try side by side, every combination with every seed, e.g.
    --grid agent.discount=0.98,0.99 agent.tau=0.005,0.01"""
    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""
    track: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Where to send metrics besides metrics.jsonl: tensorboard, wandb."""
    threads: int = 0
    """CPU threads for the arithmetic; 0: as many as prove fastest when the run begins. Part of the
    result: another count rounds differently, so the run keeps the one it began with."""
    execution: Literal["auto", "eager"] = "auto"
    """How updates are executed: auto (planned kernels in reserved memory on a CPU, captured graphs
    on a GPU) or eager (PyTorch as written, for looking inside). Part of the result: they round
    differently."""
    precision: Literal["tf32", "float32", "bf16"] = "tf32"
    """How a GPU multiplies: tf32 (factors rounded to 11 bits, sums in float32; several times as
    fast), float32, or bf16 (tf32, and the convolutions of images in 16 bits). A CPU always uses
    float32."""

    @property
    def combinations(self) -> list[dict[str, float]]:
        """Every combination of the grid's values; without a grid, one that changes nothing."""
        keys = [key for key in VARIABLE if key in self.grid]
        values = itertools.product(*(self.grid[key] for key in keys))
        return [dict(zip(keys, combination, strict=True)) for combination in values]

    @property
    def agents(self) -> int:
        """How many agents train side by side: one for each combination and seed."""
        return self.seeds * len(self.combinations)

    @property
    def agent_seeds(self) -> list[int]:
        """The seed of each agent; those of one combination stand together."""
        return list(range(self.seed, self.seed + self.seeds)) * len(self.combinations)

    def member(self, agent: int) -> "Config":
        """What one agent does, as a run of its own."""
        config = varied(self, self.combinations[agent // self.seeds])
        return dataclasses.replace(config, grid={}, seed=self.agent_seeds[agent], seeds=1)


# What a grid may vary: settings that are numbers in the update or on an agent's own data, so that
# agents which differ in them still train in one batched product.
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


# What Gymnasium's wrappers do for us; they wrap one environment, not a vector of them.
WRAPPERS = ("pixels", "resize", "grey", "frame_stack", "action_repeat")


# What other implementations call these settings.
ELSEWHERE = {
    "gamma": "agent.discount",
    "lr": "agent.actor_learning_rate",
    "learning_rate": "agent.actor_learning_rate",
    "actor_lr": "agent.actor_learning_rate",
    "critic_lr": "agent.critic_learning_rate",
    "policy_delay": "agent.policy_freq",
    "policy_frequency": "agent.policy_freq",
    "target_policy_noise": "agent.policy_noise",
    "target_noise_clip": "agent.noise_clip",
    "max_timesteps": "loop.steps",
    "total_timesteps": "loop.steps",
    "start_timesteps": "loop.random_steps",
    "learning_starts": "loop.random_steps",
    "expl_noise": "loop.exploration_noise",
    "buffer_size": "loop.replay_size",
    "eval_freq": "evaluation.every",
    "eval_episodes": "evaluation.episodes",
    "envs": "environment.count",
    "num_envs": "environment.count",
    "env": "environment.id",
    "env_id": "environment.id",
    "env_name": "environment.id",
    "environment": "environment.id",
    "environment_id": "environment.id",
    "cuda": "device",
}


def varied(config: Config, settings: Mapping[str, float]) -> Config:
    """The configuration with other values at these dotted names."""
    for key, value in settings.items():
        table, _, name = key.partition(".")
        changed = dataclasses.replace(getattr(config, table), **{name: value})
        config = dataclasses.replace(config, **{table: changed})
    return config


def in_words(settings: Mapping[str, Any]) -> str:
    """Settings in a few words, without the names of their tables: discount 0.98, tau 0.01."""
    return ", ".join(f"{key.partition('.')[2]} {value}" for key, value in settings.items())


def from_dict(data: Mapping[str, Any], default: Config | None = None) -> Config:
    """Nested tables (as in a TOML file) over the defaults. Unknown keys fail with the nearest."""
    return typing.cast("Config", _merge(default or Config(), data, ""))


def _merge(default: Any, data: Mapping[str, Any], prefix: str) -> Any:
    known = {f.name: f for f in dataclasses.fields(default)}
    hints = typing.get_type_hints(type(default))
    changes: dict[str, Any] = {}
    for key, value in data.items():
        if key not in known:
            meant = setting_near(prefix + key)
            hint = f" Did you mean {meant!r}?" if meant else nearest(key, known)
            raise UserError(f"Unknown setting {prefix + key!r}.{hint}")
        current = getattr(default, key)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, Mapping):
                raise UserError(f"{prefix + key} is a table of settings, not {value!r}.")
            changes[key] = _merge(current, value, f"{prefix}{key}.")
        else:
            changes[key] = _convert(value, hints[key], prefix + key)
    return dataclasses.replace(default, **changes)


def setting_near(name: str) -> str:
    """The setting that may be meant by a name, with or without its table; empty: none."""
    names = [key for key, _ in dotted(to_dict(Config()))]
    known = {own.rpartition(".")[2]: own for own in names} | ELSEWHERE
    table, _, word = name.replace("-", "_").lower().rpartition(".")
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.75)
    if not near:
        return ""
    there = f"{table}.{near[0]}"
    return there if there in names else known[near[0]]


def _convert(value: Any, hint: Any, key: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is Literal:
        allowed = typing.get_args(hint)
        if value in allowed:
            return value
        raise UserError(f"{key} must be one of {', '.join(allowed)}, not {value!r}.")
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(item, typing.get_args(hint)[0], key) for item in value)
    if origin is dict and isinstance(value, Mapping):
        if key == "grid":  # "agent.tau" = […], or without quotes, which TOML reads as a table
            lists = {k: v if isinstance(v, tuple) else (v,) for k, v in dotted(value)}
            return {k: _convert(v, typing.get_args(hint)[1], k) for k, v in lists.items()}
        return {str(name): _plain(item, f"{key}.{name}") for name, item in value.items()}
    if hint in (bool, int, float, str):
        plain = _plain(value, key)
        if hint is float and type(plain) is int:
            return float(plain)
        if hint is int and isinstance(plain, float) and plain.is_integer():  # 1e6
            return int(plain)
        if type(plain) is hint:
            return plain
    name = getattr(hint, "__name__", str(hint))
    raise UserError(f"{key} must be {name}, not {value!r}.")


def _plain(value: Any, key: str) -> Value:
    """A value that TOML can hold; NumPy's numbers become Python's."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise UserError(f"{key} must be a number, a text or true or false, not {value!r}.")


def to_dict(config: Config) -> dict[str, Any]:
    """The configuration as nested plain tables."""
    return dataclasses.asdict(config)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Dotted name → (old, new) of every setting that differs between two nested tables."""
    old, new = dict(dotted(before)), dict(dotted(after))
    return {
        key: (old.get(key), new.get(key))
        for key in [*old, *(key for key in new if key not in old)]
        if repr(old.get(key)) != repr(new.get(key))  # NaN equals itself here
    }


def dotted(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted name; lists as tuples, so that files and dataclasses agree."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield prefix + key, tuple(value) if isinstance(value, list) else value


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    folder = resources.files("td3.config") / "recipes"
    return sorted(Path(f.name).stem for f in folder.iterdir() if f.name.endswith(".toml"))


def recipe_text(name: str) -> str:
    """The text of a recipe that comes with the package."""
    if name not in recipe_names():
        known = ", ".join(recipe_names())
        raise UserError(f"No recipe {name!r}.{nearest(name, recipe_names())} There are: {known}.")
    return (resources.files("td3.config") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")


def load_recipe(name: str) -> Config:
    """A recipe by name, or by the path of a TOML file."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        if not path.is_file():
            raise UserError(f"No recipe file {name}; 'td3 recipes copy paper {name}' makes one.")
        return dataclasses.replace(from_dict(read_toml(path)), recipe=path.stem)
    return dataclasses.replace(from_dict(tomllib.loads(recipe_text(name))), recipe=name)
