"""Decide whether the task of a policy file may be made.

A policy file may come from anyone. Its task `module:Env-v0` makes Gymnasium import `module`, and
importing a module runs its code. Its task `module:name` may be any function, called with arguments
from the file. So td3 imports and calls only what the user names.
"""

import dataclasses
import importlib.util
import re
import sys
from collections.abc import Iterator
from typing import Any

from td3.config import EnvironmentConfig
from td3.environments.factories import (
    GIVEN,
    Factory,
    is_local,
    is_registered,
    name_environment,
)
from td3.environments.simulators import resolve_version
from td3.errors import UserError

TASK_ID = re.compile(r"[\w.:/-]+", re.ASCII)
# module:Env-v0 or package.module.Class
IMPORT_PATH = re.compile(r"([A-Za-z_]\w*)(?:\.\w+)*[.:][\w./-]+", re.ASCII)


def task_to_play(
    name: str, config: EnvironmentConfig, environment: "str | Factory", command: str
) -> EnvironmentConfig:
    """Return the task of the policy `name`, or `environment` with its other settings.

    Raises UserError if the task would import a module, or call a function, that only the policy
    names. The message contains `command`, in which `{task}` stands for the id of the task.
    """
    if not isinstance(config.id, str):
        raise UserError(f"The policy {name} names no valid task: {config.id!r}.")
    given, kwargs = name_environment(environment)
    if not given:
        check_task(name, config.id, command)
    check_arguments(name, config.kwargs, given)
    if not given or given == config.id:
        return dataclasses.replace(config, kwargs={**config.kwargs, **kwargs})
    return dataclasses.replace(
        config, id=resolve_version(given), kwargs={**config.kwargs, **kwargs}
    )


def check_task(name: str, task: str, command: str) -> None:
    """Refuse a task that imports a module or calls a function which only the policy names."""
    if task in GIVEN:
        return
    if is_local(task) and task.isprintable():
        raise UserError(
            f"The policy {name} was trained on {task!r}, which exists only in the program or "
            "notebook that trained it; give the class or function in Python: "
            "policy.evaluate(environment=make_env)."
        )
    if not TASK_ID.fullmatch(task):
        raise UserError(f"The policy {name} names no valid task: {task!r}.")
    if module := unnamed_module(task):
        raise UserError(
            f"The policy {name} names the task {task}, which imports the Python module "
            f"{module}. If you trust it, repeat it: {command.replace('{task}', task)}"
        )


def unnamed_module(task: str) -> str:
    """The module that a task imports although the user did not name it; empty if there is none."""
    module, _, own = task.rpartition(":")
    named = task in GIVEN or (module in sys.modules and is_registered(own))
    return "" if named or is_local(task) or not TASK_ID.fullmatch(task) else module


def check_arguments(name: str, kwargs: Any, environment: str) -> None:
    """Refuse arguments that name a module: some tasks import what their arguments name."""
    given = environment.rpartition(":")[0].partition(".")[0]
    for text, package in imports_in(kwargs):
        if package != given:
            raise UserError(
                f"The policy {name} passes {text!r} to its task, which may import the Python "
                f"module {package}. If you trust it, use Python: import {package}, then call "
                "td3.load_policy and evaluate."
            )


def imports_in(value: Any) -> Iterator[tuple[str, str]]:
    """Each string that names something in a package which is not imported yet, and the package."""
    for text in strings(value):
        found = IMPORT_PATH.fullmatch(text)
        if not found or found[1] in sys.modules:
            continue
        if importlib.util.find_spec(found[1]) is not None:  # finds a file, does not run it
            yield text, found[1]


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
