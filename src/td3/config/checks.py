"""Validation: the range of each setting, and rules that concern several settings."""

import math

from td3.config.environment_settings import WRAPPERS, EnvironmentConfig
from td3.config.fields import declared_settings
from td3.config.grid import VARIABLE, check_agents, variable_settings
from td3.config.loop_settings import EXPLORATIONS, StopConfig
from td3.config.parsing import dotted, to_dict
from td3.config.schema import Config
from td3.config.spelling import setting_near
from td3.errors import UserError, nearest
from td3.text import parse_duration

EXACT = ("auto", "own", "workers")
"""td3 steps these itself: equal numbers and checkpoints, and a run may switch between them."""


def check(config: Config) -> Config:
    """Return the configuration.

    Raises:
        UserError: A value is out of range, or settings contradict each other.
    """
    check_agents(config.seeds, config.grid)
    check_grid(config)
    values = dict(dotted(to_dict(config)))
    for key, setting in declared_settings(config).items():
        if problem := setting.problem(values.get(key)):
            raise UserError(f"{key} {problem}.")
    if config.device not in ("auto", "cpu", "cuda") and not config.device.startswith("cuda:"):
        raise UserError(f"device must be cpu, cuda or auto, got {config.device!r}.")
    if config.start_replay and not config.start_from:
        raise UserError("start_replay needs start_from, the run whose replay buffer to use.")
    check_environment(config.environment)
    check_loop(config)
    check_stop(config.stop)
    check_durations(config)
    return config


def check_grid(config: Config) -> None:
    """Reject a grid that cannot be trained as one population."""
    own = variable_settings(config.variant)
    variable = [*VARIABLE, *own]
    for key, values in config.grid.items():
        if key not in variable:
            if (meant := setting_near(key)) in VARIABLE:
                raise UserError(f"{key} is not a setting. Did you mean {meant!r}?")
            if key.startswith("variant."):
                known = ", ".join(own) or "none"
                raise UserError(
                    f"A grid cannot vary {key}: it is not a number setting of the variant "
                    f"{config.variant.name or 'of plain TD3'}, which has: {known}."
                )
            raise UserError(f"A grid cannot vary {key}; it can vary: {', '.join(variable)}.")
        if not values:
            raise UserError(f"The grid has no value for {key}.")
        for position, value in enumerate(values):
            if value in values[:position]:
                raise UserError(f"The grid has the value {value} of {key} twice.")
            if problem := declared_settings(config)[key].problem(value):
                raise UserError(f"{key} {problem}.")


def check_environment(environment: EnvironmentConfig) -> None:
    if not environment.id:
        raise UserError("Name an environment, e.g. Pendulum-v1.")
    backend = environment.vectorization
    if environment.workers and backend not in ("auto", "workers"):
        raise UserError(
            f"environment.workers is {environment.workers}, but environment.vectorization "
            f"{backend} uses no workers; set it to workers."
        )
    for name in (*WRAPPERS, "max_episode_steps"):
        changed = getattr(environment, name) != getattr(EnvironmentConfig, name)
        if changed and backend not in EXACT:
            raise UserError(
                f"environment.{name} does not work with environment.vectorization {backend}; "
                "set that to auto."
            )


def check_loop(config: Config) -> None:
    loop, count = config.loop, config.environment.count
    if loop.replay_size < count:
        raise UserError(
            f"loop.replay_size ({loop.replay_size}) must be at least environment.count ({count})."
        )
    if loop.update == "step" and loop.random_steps >= loop.steps:
        raise UserError(
            f"loop.random_steps ({loop.random_steps}) must be less than loop.steps "
            f"({loop.steps}), or nothing is learned; try --loop.random-steps {loop.steps // 10}."
        )
    if loop.exploration not in EXPLORATIONS and ":" not in loop.exploration:
        raise UserError(
            f"loop.exploration must be {', '.join(EXPLORATIONS)} or module:Class, got "
            f"{loop.exploration!r}.{nearest(loop.exploration, EXPLORATIONS)}"
        )


def check_stop(stop: StopConfig) -> None:
    if stop.at_return is not None and not math.isfinite(stop.at_return):
        raise UserError(f"stop.at_return must be a finite number, got {stop.at_return}.")


def check_durations(config: Config) -> None:
    for table, name in (("stop", "after"), ("checkpoint", "after"), ("checkpoint", "retry_for")):
        value = getattr(getattr(config, table), name)
        if value and parse_duration(value) is None:
            raise UserError(
                f"{table}.{name} must be a duration such as 90s, 30m, 2h or 1h30m, got {value!r}."
            )
