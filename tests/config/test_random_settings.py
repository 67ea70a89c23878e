"""Random settings, valid or not: a configuration, or one sentence that names a setting."""

import random
import tomllib
from typing import Any

import pytest
from support.long import pick

from td3.config import Config, dotted, from_dict, to_dict
from td3.config.checks import check
from td3.config.fields import Setting, declared_settings
from td3.config.toml import to_toml
from td3.environments.environment import Environment
from td3.environments.task import Task
from td3.errors import UserError
from td3.run.memory import check_memory, network_bytes

CASES = pick(300, 10_000)
NONSENSE: list[Any] = [
    -1, 0, 1, 2, 7, 2**31, 2**63, 10**30, -0.0, 0.5, 1e-300, 1e300, float("nan"), float("inf"),
    float("-inf"), True, False, None, "", "x", "1", "\x1b[2J", "auto", "a:b", "é" * 300, [], [1],
    [0], [-1], [1, "a"], [[1]], [1] * 2000, {}, {"a": 1}, {"name": "huber"}, {"a": {"b": 1}},
    b"x", (1, 2), object(),
]  # fmt: skip
DEFAULTS = dict(dotted(to_dict(Config())))
SETTINGS = declared_settings(Config())
TABLES = ["environment", "agent", "loop", "evaluation", "checkpoint", "stop", "variant", "grid"]


@pytest.fixture(scope="module")
def task() -> Task:
    environment = Environment(from_dict({"environment": {"id": "Pendulum-v1"}}).environment)
    environment.close()
    return environment.task


def valid(draw: random.Random, setting: Setting, default: Any) -> Any:
    """A value in the range of a setting, often at its edge."""
    low = setting.min if setting.min is not None else (setting.above or 0)
    high = setting.max if setting.max is not None else low + 10 ** draw.randint(0, 6)
    value = draw.choice([low, high, low + (high - low) * draw.random()])
    if isinstance(default, bool) or not isinstance(default, int | float):
        return default
    return int(value) if isinstance(default, int) else float(value)


def random_tables(draw: random.Random) -> dict[str, Any]:
    """Up to five settings, mostly valid."""
    tables: dict[str, Any] = {"environment": {"id": "Pendulum-v1"}}
    for key in draw.sample(sorted(SETTINGS), draw.randint(1, 5)):
        nonsense = draw.random() < 0.3
        value = draw.choice(NONSENSE) if nonsense else valid(draw, SETTINGS[key], DEFAULTS.get(key))
        table, _, name = key.rpartition(".")
        (tables.setdefault(table, {}) if table else tables)[name] = value
    if draw.random() < 0.05:
        tables[draw.choice(TABLES)] = draw.choice(NONSENSE)
    return tables


def read(tables: dict[str, Any], task: Task) -> Config | str:
    """The configuration of these tables, or why it is refused."""
    try:
        config = check(from_dict(tables))
        network_bytes(config, task)
        check_memory(config, task)
    except UserError as error:
        return str(error)
    return config


def test_random_settings_are_used_or_refused_in_a_sentence(
    task: Task, record_property: Any
) -> None:
    record_property("cases", CASES)
    used = 0
    for case in range(CASES):
        tables = random_tables(random.Random(case))
        config = read(tables, task)
        if isinstance(config, str):
            assert "\n" not in config, tables
            assert len(config) < 1000, tables
            continue
        used += 1
        assert len(config.agent_seeds) == config.agents
        assert from_dict(tomllib.loads(to_toml(to_dict(config)))) == config
    assert CASES * 0.2 < used < CASES * 0.8
