"""td3 doctor"""

import contextlib
import json
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from td3.config import WRAPPERS, EnvironmentConfig, Value
from td3.config.fields import same_as, setting

if TYPE_CHECKING:
    from td3.doctor import Diagnosis
    from td3.doctor.check import Check

MARKS = {"ok": "✓", "warning": "!", "error": "✗"}
COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}
INDENT, WIDTH = 16, 80


def environment_flag(name: str) -> Any:
    return tyro.conf.arg(name=f"environment.{name}")


@dataclass(frozen=True)
class Arguments:
    """Check this machine and an environment before training.

    The environment is run with random actions. The exit code is 1 after errors. Examples:

    td3 doctor

    td3 doctor HalfCheetah-v5
    """

    environment_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = (
        setting("", "Gymnasium id, e.g. HalfCheetah-v5; default: check only the machine.")
    )
    steps: int = setting(2000, "Number of random steps.")
    kwargs: Annotated[dict[str, Value], environment_flag("kwargs")] = same_as(
        EnvironmentConfig, "kwargs"
    )
    pixels: Annotated[bool, environment_flag("pixels")] = same_as(EnvironmentConfig, "pixels")
    resize: Annotated[int, environment_flag("resize")] = same_as(EnvironmentConfig, "resize")
    grey: Annotated[bool, environment_flag("grey")] = same_as(EnvironmentConfig, "grey")
    frame_stack: Annotated[int, environment_flag("frame-stack")] = same_as(
        EnvironmentConfig, "frame_stack"
    )
    action_repeat: Annotated[int, environment_flag("action-repeat")] = same_as(
        EnvironmentConfig, "action_repeat"
    )
    max_episode_steps: Annotated[int, environment_flag("max-episode-steps")] = same_as(
        EnvironmentConfig, "max_episode_steps"
    )
    json: bool = setting(False, "Print the checks as JSON.")

    @property
    def environment(self) -> EnvironmentConfig:
        wrappers = {name: getattr(self, name) for name in (*WRAPPERS, "max_episode_steps")}
        return EnvironmentConfig(self.environment_id, self.kwargs, **wrappers)


def run(arguments: Arguments) -> int:
    from rich.console import Console

    from td3.doctor import diagnose
    from td3.doctor.machine_checks import machine_facts

    # What an environment prints must not end up in the JSON.
    with contextlib.redirect_stdout(sys.stderr), Console(stderr=True).status("Checking"):
        diagnosis = diagnose(arguments.environment, arguments.steps)
    if arguments.json:
        checks = [vars(check) for check in diagnosis.checks]
        print(json.dumps({"checks": checks, "machine": machine_facts()}, indent=2))
    else:
        show(diagnosis, arguments.environment_id)
    return int(any(check.status == "error" for check in diagnosis.checks))


def show(diagnosis: "Diagnosis", env_id: str) -> None:
    """Print one entry per check, the summary, and the command to train with."""
    from rich.console import Console

    from td3.doctor.check import summary

    # Rich must not wrap: a command stays on one line, to be copied.
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for title, checks in (("Machine", diagnosis.machine), (env_id, diagnosis.environment)):
        if checks:
            console.print(title, style="bold")
            for check in checks:
                console.print(MARKS[check.status], style=COLOURS[check.status], end=" ")
                console.print(entry(check))
            console.print()
    console.print(summary(diagnosis.checks))
    if diagnosis.command and not any(check.status == "error" for check in diagnosis.checks):
        console.print(f"Train with:\n  {diagnosis.command}")


def entry(check: "Check") -> str:
    """The check as text of 80 columns; only its command may be longer."""
    lines = wrap(check.message)
    if check.advice:
        first, *others = wrap(check.advice)
        lines += [f"→ {first}", *(f"  {line}" for line in others)]
    if check.command:
        lines.append(f"    {check.command}")
    return f"{check.name:<{INDENT - 2}}" + f"\n{' ' * INDENT}".join(lines)


def wrap(text: str) -> list[str]:
    width = WIDTH - INDENT - 2
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]
