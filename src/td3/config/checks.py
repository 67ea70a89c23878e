"""Validation: the range of each setting, and rules that concern several settings."""

from td3.config.fields import declared_settings
from td3.config.grid import VARIABLE
from td3.config.parsing import dotted, to_dict
from td3.config.schema import WRAPPERS, Config, EnvironmentConfig
from td3.config.spelling import setting_near
from td3.errors import UserError

EXACT = ("auto", "own", "workers")
"""td3 steps these itself: equal numbers and checkpoints, and a run may switch between them."""


def check(config: Config) -> Config:
    """Return the configuration.

    Raises:
        UserError: A value is out of range, or settings contradict each other.
    """
    check_grid(config.grid)
    values = dict(dotted(to_dict(config)))
    for key, setting in declared_settings(Config).items():
        if problem := setting.problem(values.get(key)):
            raise UserError(f"{key} {problem}.")
    if config.device not in ("auto", "cpu", "cuda") and not config.device.startswith("cuda:"):
        raise UserError(f"device must be cpu, cuda or auto, got {config.device!r}.")
    check_environment(config.environment)
    check_loop(config)
    return config


def check_grid(grid: dict[str, tuple[float, ...]]) -> None:
    """Reject a grid that cannot be trained as one population."""
    for key, values in grid.items():
        if key not in VARIABLE:
            if (meant := setting_near(key)) in VARIABLE:
                raise UserError(f"{key} is not a setting. Did you mean {meant!r}?")
            raise UserError(f"A grid cannot vary {key}; it can vary: {', '.join(VARIABLE)}.")
        if not values:
            raise UserError(f"The grid has no value for {key}.")
        for position, value in enumerate(values):
            if value in values[:position]:
                raise UserError(f"The grid has the value {value} of {key} twice.")
            if problem := declared_settings(Config)[key].problem(value):
                raise UserError(f"{key} {problem}.")


def check_environment(environment: EnvironmentConfig) -> None:
    if not environment.id:
        raise UserError("Name an environment, e.g. td3 train Pendulum-v1.")
    backend = environment.vectorization
    if environment.workers and backend not in ("auto", "workers"):
        raise UserError(
            f"environment.workers is {environment.workers}, but environment.vectorization "
            f"{backend} uses no workers; set it to workers."
        )
    for name in WRAPPERS:
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
