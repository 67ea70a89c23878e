"""What a search was asked for: the file tune.toml in its folder."""

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

from td3.config import Config, check, from_dict, read_toml, to_dict, to_toml, varied
from td3.config.grid import MOST_AGENTS
from td3.errors import UserError
from td3.files import replace_file
from td3.run.versions import describe_machine, versions
from td3.text import count, shown
from td3.tuning.space import Space, make_space

PLAN_FILE = "tune.toml"
LAST = 3  # evaluations
SHAPE_SHARE = 10  # with shapes to choose from, a population has a tenth of all trials, or more
CHECKPOINTS = 2  # per trial
MOST_TRIALS = MOST_EVALUATIONS = 100_000
NUMBERS = {
    "trials": (1, MOST_TRIALS),
    "evaluations": (1, MOST_EVALUATIONS),
    "episodes": (1, MOST_EVALUATIONS),
    "rows": (0, MOST_AGENTS),
    "confirm": (0, MOST_AGENTS),
}
"""The smallest and the largest value of each option."""
Objective = Literal["last", "area"]
Pruner = Literal["halving", "none"]
OBJECTIVES, PRUNERS = get_args(Objective), get_args(Pruner)


@dataclass(frozen=True)
class Plan:
    """All settings of a search."""

    config: Config
    """The settings that are not searched; `config.seeds` is the number of seeds of a trial."""
    trials: int = 100
    rows: int = 0
    """Agents that train at the same time; 0: choose from the machine."""
    evaluations: int = 10
    """Evaluations of each trial."""
    episodes: int = 3
    """Episodes of an evaluation."""
    objective: Objective = "last"
    pruner: Pruner = "halving"
    search: Mapping[str, Any] = field(default_factory=dict)
    """The tables of the search file."""
    shapes: bool = False
    """Whether to search hidden layers, batch size and n-step returns by default."""
    storage: str = ""
    study: str = ""
    """Name of the study in the storage."""
    confirm: int = 5
    """Seeds of the confirmation run; 0: none."""
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Identifies the trials of this search in a storage that several searches share."""

    @property
    def space(self) -> Space:
        return make_space(self.config, self.search, self.shapes)

    @property
    def every(self) -> int:
        """Steps between evaluations."""
        return max(1, self.config.loop.steps // self.evaluations)

    @property
    def steps(self) -> int:
        """Steps of a trial: a whole number of evaluations."""
        return self.every * self.evaluations

    @property
    def slots(self) -> int:
        """Trials that train at the same time."""
        return max(1, self.rows // self.config.seeds)

    @property
    def rungs(self) -> list[int]:
        """The ages at which trials are pruned: a fifth and a half of the way after random steps."""
        random = self.config.loop.random_steps
        found = set()
        for part in (0.2, 0.5):
            age = random + part * (self.steps - random)
            found.add(-int(-age // self.every) * self.every)
        return sorted(age for age in found if age < self.steps)

    def score(self, means: Sequence[float]) -> float:
        """The objective: one number from the evaluations of a trial."""
        return fmean(means if self.objective == "area" else means[-LAST:])

    def quota(self, done: int) -> int:
        """How many trials a population may have, if those before it had `done`."""
        left = self.trials - done
        if not self.space.shapes:
            return left
        return min(left, max(self.slots, -(-self.trials // SHAPE_SHARE)))

    def checked(self) -> "Plan":
        """The plan itself. Raises UserError if a number is wrong."""
        self.check_numbers()
        if self.confirm == 1:
            raise UserError("confirm must be 0 or 2 or more: one seed has no interval.")
        check(self.config)
        self.check_config()
        if self.evaluations > self.config.loop.steps:
            raise UserError(
                f"evaluations must be at most the {self.config.loop.steps:,} steps of a trial, got "
                f"{self.evaluations:,}."
            )
        if self.rows and self.rows < self.config.seeds:
            seeds = count(self.config.seeds, "seed")
            raise UserError(f"rows must be at least the {seeds} of a trial, got {self.rows}.")
        if self.steps <= self.config.loop.random_steps:
            raise UserError(
                f"loop.random_steps ({self.config.loop.random_steps}) must be less than the "
                f"{self.steps:,} steps of a trial, or nothing is learned."
            )
        self.space.distributions()
        return self

    def check_numbers(self) -> None:
        """Refuse options of a wrong kind or size."""
        for name, (least, most) in NUMBERS.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                bounds = f"a whole number from {least} to {most:,}"
                raise UserError(f"{name} must be {bounds}, got {shown(value)}.")
        for name, known in (("objective", OBJECTIVES), ("pruner", PRUNERS)):
            if (value := getattr(self, name)) not in known:
                raise UserError(f"{name} must be {' or '.join(known)}, got {shown(value)}.")
        for name in ("storage", "study", "owner"):
            if not isinstance(value := getattr(self, name), str):
                raise UserError(f"{name} must be text, got {shown(value)}.")
        if type(self.shapes) is not bool:
            raise UserError(f"shapes must be true or false, got {shown(self.shapes)}.")

    def check_config(self) -> None:
        """Refuse settings of training that a search cannot have."""
        config = self.config
        if config.grid:
            raise UserError("td3 tune has no grid; give values to try in a search file.")
        if config.loop.update != "step":
            raise UserError("td3 tune needs loop.update step, because trials share one update.")
        for key in ("agent.learning_rate_schedule", "loop.exploration_schedule"):
            table, _, name = key.partition(".")
            if getattr(getattr(config, table), name) != "constant":
                raise UserError(f"td3 tune needs {key} constant: trials begin at different times.")
        if config.track or config.callback:
            raise UserError("td3 tune has no trackers and no callbacks; leave them out.")

    def population(self, shape: Mapping[str, Any], slots: int) -> Config:
        """The configuration of a population with these values of the settings that it shares.

        Its grid makes the rows and names the settings in which agents may differ; the trials
        replace its values.
        """
        config = varied(self.config, shape)
        rate = "agent.actor_learning_rate"
        base = self.defaults()
        grid = {key: (value,) for key, value in base.items()}
        grid[rate] = tuple(base[rate] * (1 + 1e-6 * slot) for slot in range(slots))
        checkpoints = self.every * -(-self.evaluations // CHECKPOINTS)
        return varied(
            config,
            {
                "grid": grid,
                "loop.steps": self.steps * self.trials,
                "loop.replay_size": min(config.loop.replay_size, self.steps),
                "loop.log_every": self.every,
                "evaluation.every": self.every,
                "evaluation.episodes": self.episodes,
                "checkpoint.every": checkpoints,
            },
        )

    def defaults(self) -> dict[str, Any]:
        """The values of the settings in which agents may differ, without a trial."""
        keys = {own.key for own in self.space.ranges} | {"agent.actor_learning_rate"}
        return {key: value_of(self.config, key) for key in sorted(keys)}

    def write(self, folder: Path) -> None:
        """Write tune.toml."""
        own = {name: getattr(self, name) for name in OWN}
        tables = {"tune": own, "search": self.search, "settings": to_dict(self.config)}
        tables |= {"versions": versions(), "machine": describe_machine()}
        replace_file(folder / PLAN_FILE, to_toml(tables).encode())


OWN = [own.name for own in dataclasses.fields(Plan) if own.name not in ("config", "search")]


def read_plan(folder: Path) -> Plan:
    """The plan of a search. Raises UserError if the folder has none."""
    path = folder / PLAN_FILE
    if not path.is_file():
        what = "is not the folder of a search" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {what} (no {PLAN_FILE}).")
    tables = read_toml(path)
    own, search, settings = (tables.get(name, {}) for name in ("tune", "search", "settings"))
    for name, value in (("tune", own), ("search", search), ("settings", settings)):
        if not isinstance(value, dict):
            raise UserError(f"{path} is not valid: {name} must be a table, got {shown(value)}.")
    if unknown := sorted(own.keys() - set(OWN)):
        raise UserError(f"{path} is not valid: unknown option {shown(unknown[0])}.")
    return Plan(config=from_dict(settings), search=search, **own).checked()


def value_of(config: Config, key: str) -> Any:
    table, _, name = key.partition(".")
    return getattr(getattr(config, table), name)
