"""Decide whether the task of a policy file may be made.

A policy file may come from anyone. Its task `module:Env-v0` makes Gymnasium import `module`, and
importing a module runs its code. So td3 imports only modules that the user names.
"""

import dataclasses
import importlib.util
import re
import sys
from collections.abc import Iterator
from typing import Any

from td3.config import EnvironmentConfig
from td3.environments.simulators import resolve_version
from td3.errors import UserError

TASK_ID = re.compile(r"[\w.:/-]+", re.ASCII)
# module:Env-v0 or package.module.Class
IMPORT_PATH = re.compile(r"([A-Za-z_]\w*)(?:\.\w+)*[.:][\w./-]+", re.ASCII)


def task_to_play(
    name: str, config: EnvironmentConfig, environment: str, command: str
) -> EnvironmentConfig:
    """Return the task of the policy `name`, with the id `environment` if the user gives one.

    Raises UserError if the task would import a module that only the policy names. The message
    contains `command`, in which `{task}` stands for the id of the task.
    """
    if not isinstance(config.id, str) or not TASK_ID.fullmatch(config.id):
        raise UserError(f"The policy {name} names no valid task: {config.id!r}.")
    module = config.id.rpartition(":")[0]
    if ":" in config.id and not environment and module not in sys.modules:
        raise UserError(
            f"The policy {name} names the task {config.id}, which imports the Python module "
            f"{module}. If you trust it, repeat it: {command.replace('{task}', config.id)}"
        )
    check_arguments(name, config.kwargs, environment)
    return dataclasses.replace(config, id=resolve_version(environment)) if environment else config


def check_arguments(name: str, kwargs: Any, environment: str) -> None:
    """Refuse arguments that name a module: some tasks import what their arguments name."""
    given = environment.rpartition(":")[0].partition(".")[0]
    for text in strings(kwargs):
        if not (found := IMPORT_PATH.fullmatch(text)):
            continue
        package = found[1]
        if package == given or package in sys.modules:
            continue
        if importlib.util.find_spec(package) is not None:  # finds a file, does not run it
            raise UserError(
                f"The policy {name} passes {text!r} to its task, which may import the Python "
                f"module {package}. If you trust it, use Python: import {package}, then call "
                "td3.load_policy and evaluate."
            )


def strings(value: Any) -> Iterator[str]:
    """Yield every string in nested lists and dictionaries, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)
